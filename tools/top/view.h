/* SPDX-License-Identifier: MIT */
/*
 * The view as lines of clean text, for a terminal of a given width and for batch mode.
 */
#ifndef TOP_VIEW_H
#define TOP_VIEW_H

#include "sample.h"

#define LINE_SIZE 1024
#define LINES_MOST (PS_MOST + 2 * GREENS_MOST + 128)

enum style { STYLE_PLAIN, STYLE_TITLE, STYLE_HEADING, STYLE_NOTICE };

struct page {
	int columns; /* for which the lines are laid out; a line may be longer */
	int count;
	struct {
		enum style style;
		char text[LINE_SIZE];
	} lines[LINES_MOST];
};

struct view {
	const char *address;
	int64_t interval; /* ns between two samples */
	bool paused;
	bool wait_first;   /* the table of waits comes before that of CPU time */
	bool by_total;     /* sort by all CPU time instead of that since the last sample */
	bool by_id;        /* sort waits by the number of the green thread */
	const char *error; /* why there is no new sample, or "" */
};

/* Lay out a sample; `before` is NULL if it is the first. Lines that do not fit are dropped. */
void view_build(struct page *page, const struct view *v, const struct sample *now,
		const struct sample *before, int columns);

/* Lay out the help. */
void view_help(struct page *page, int columns);

#endif
