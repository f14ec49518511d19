/* SPDX-License-Identifier: MIT */
/*
 * Source positions: the file and line of a code address, from DWARF debugging information.
 *
 * libdw (elfutils) reads them; it is loaded at run time, by the first query. No position is known
 * in a build without libdw's header (srcline_none.c), on a machine without the library, and in a
 * program linked statically or without -g. Messages then have function+offset only.
 */
#ifndef GMP_SRCLINE_H
#define GMP_SRCLINE_H

#include <stdio.h>
#include <string.h>

#include "base/base.h"

/* A code address, and what debugging information says about it.  The caller sets pc, and clears the
 * rest. */
struct srcline {
	uintptr_t pc;
	int line;           /* 0: not known */
	char file[256];     /* path as the compiler was given it; "": not known */
	char function[128]; /* name of the symbol; "": not known */
};

/*
 * Fill in all n in one query. Starts an OS thread and waits for it; that thread allocates and opens
 * files. The first query takes milliseconds, then a position 1 to 100 us, more in a program
 * compiled by clang, whose units must be searched. Must not be called in a signal handler; on g0 in
 * debug modes only.
 */
void srcline_find_all(struct srcline *of, size_t n);

/* Write the position of pc as "image.c:88" to text, by a query of one; a name of more than 99 bytes
 * is cut off. Returns false if it is not known. */
static inline bool srcline_find(uintptr_t pc, char *text, size_t room)
{
	struct srcline s = { .pc = pc };

	srcline_find_all(&s, 1);
	const char *slash = strrchr(s.file, '/');

	if (s.line)
		snprintf(text, room, "%.99s:%d", slash ? slash + 1 : s.file, s.line);
	return s.line;
}

/* Start of a run; end of a run: free all data. No other thread may be inside a query. */
void srcline_begin(void);
void srcline_end(void);

#endif
