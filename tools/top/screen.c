/* SPDX-License-Identifier: MIT */
/*
 * The terminal: draws a page with ncurses below its first line, and maps keys to actions.
 */
#include "screen.h"

#include <curses.h>
#include <sys/ioctl.h>
#include <unistd.h>

static SCREEN *screen;
static int scrolled;      /* lines above the first line that is shown, without the title */
static int scrolled_most; /* of the page that was drawn last */

bool screen_open(void)
{
	screen = newterm(NULL, stdout, stdin);
	if (!screen)
		return false;
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(25);
	curs_set(0);
	return true;
}

void screen_close(void)
{
	if (!screen)
		return;
	endwin();
	delscreen(screen);
	screen = NULL;
}

int screen_columns(void)
{
	return COLS;
}

void screen_resize(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
		resizeterm(size.ws_row, size.ws_col);
	clearok(stdscr, TRUE);
}

static void draw_line(int y, attr_t attributes, const char *text)
{
	int columns = COLS;
	size_t bytes = text_fit(text, &columns);

	attrset(attributes);
	move(y, 0);
	addnstr(text, (int)bytes);
	if (attributes & A_REVERSE) {
		for (; columns < COLS; columns++)
			addch(' ');
	}
	attrset(A_NORMAL);
}

void screen_draw(const struct page *page)
{
	static const attr_t attributes[] = {
		[STYLE_PLAIN] = A_NORMAL,
		[STYLE_TITLE] = A_REVERSE,
		[STYLE_HEADING] = A_BOLD,
		[STYLE_NOTICE] = A_BOLD | A_REVERSE,
	};
	int footer = LINES >= 4;
	int room = LINES - 1 - footer;

	scrolled_most = page->count - 1 > room ? page->count - 1 - room : 0;
	if (scrolled > scrolled_most)
		scrolled = scrolled_most;
	erase();
	draw_line(0, attributes[page->lines[0].style], page->lines[0].text);
	for (int y = 0; y < room && 1 + scrolled + y < page->count; y++) {
		int k = 1 + scrolled + y;

		draw_line(1 + y, attributes[page->lines[k].style], page->lines[k].text);
	}
	if (footer)
		draw_line(LINES - 1, A_REVERSE,
			  "q quit  h help  p pause  c CPU  w waits  +- interval  arrows scroll");
	refresh();
}

static enum key scroll_by(int lines)
{
	scrolled += lines;
	if (scrolled > scrolled_most)
		scrolled = scrolled_most;
	if (scrolled < 0)
		scrolled = 0;
	return KEY_IS_SCROLL;
}

enum key screen_key(void)
{
	int page = LINES > 4 ? LINES - 3 : 1;

	switch (getch()) {
	case ERR: return KEY_IS_NONE;
	case 'q':
	case 'Q': return KEY_IS_QUIT;
	case 'p':
	case ' ': return KEY_IS_PAUSE;
	case 'c': return KEY_IS_CPU;
	case 'w': return KEY_IS_WAIT;
	case '+': return KEY_IS_MORE;
	case '-': return KEY_IS_LESS;
	case 'h':
	case '?': return KEY_IS_HELP;
	case KEY_UP: return scroll_by(-1);
	case KEY_DOWN: return scroll_by(1);
	case KEY_PPAGE: return scroll_by(-page);
	case KEY_NPAGE: return scroll_by(page);
	case KEY_HOME: return scroll_by(-LINES_MOST);
	case KEY_END: return scroll_by(LINES_MOST);
	default: return KEY_IS_OTHER;
	}
}
