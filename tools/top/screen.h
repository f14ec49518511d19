/* SPDX-License-Identifier: MIT */
/*
 * The terminal: draws a page with ncurses, scrolls it, and reads keys.
 */
#ifndef TOP_SCREEN_H
#define TOP_SCREEN_H

#include "view.h"

enum key {
	KEY_IS_NONE, /* no key is left */
	KEY_IS_OTHER,
	KEY_IS_QUIT,
	KEY_IS_PAUSE,
	KEY_IS_CPU,
	KEY_IS_WAIT,
	KEY_IS_MORE,
	KEY_IS_LESS,
	KEY_IS_HELP,
	KEY_IS_SCROLL, /* the position has changed */
};

/* Take the terminal over. Returns false if TERM is not known. */
bool screen_open(void);

/* Give the terminal back as it was. May be called without screen_open, and twice. */
void screen_close(void);

int screen_columns(void);

/* Ask the kernel for the size of the terminal, after SIGWINCH. */
void screen_resize(void);

/* Draw the page from the line that was scrolled to; the first line of the page stays. */
void screen_draw(const struct page *page);

/* Read the next key without waiting. */
enum key screen_key(void);

#endif
