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

#include "base/base.h"

/*
 * Write the position of pc as "image.c:88" to text. Returns false if it is not known. Starts an OS
 * thread and waits for it; that thread allocates and opens files. The first query takes
 * milliseconds. Must not be called in a signal handler; on g0 in debug modes only.
 */
bool srcline_find(uintptr_t pc, char *text, size_t room);

/* A code address, and what debugging information says about it. */
struct srcline {
	uintptr_t pc;       /* set by the caller */
	int line;           /* 0: not known */
	char file[256];     /* path as the compiler was given it; "": not known */
	char function[128]; /* name of the symbol; "": not known */
};

/* Fill in all n in one query, with the conditions of srcline_find. A position takes 1 to 100 us,
 * more in a program compiled by clang, whose units must be searched. */
void srcline_find_all(struct srcline *of, size_t n);

/* Start of a run; end of a run: free all data. No other thread may be inside a query. */
void srcline_begin(void);
void srcline_end(void);

#endif
