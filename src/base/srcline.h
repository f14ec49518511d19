/* SPDX-License-Identifier: MIT */
/*
 * Source positions: the file and line of a code address, from DWARF debugging information.
 *
 * Read by libdw (elfutils), which is looked for at run time, at the first question. A build without its
 * header (srcline_none.c), a machine without the library, a program linked statically or without -g: no
 * position is known, and messages have function+offset alone.
 */
#ifndef GMP_SRCLINE_H
#define GMP_SRCLINE_H

#include "base/base.h"

/*
 * Write the position of pc as "image.c:88" to text; false if it is not known. Starts a thread and waits for
 * it, which allocates and opens files; the first question takes milliseconds. Not for signal handlers; on g0
 * in debug modes only.
 */
bool srcline_find(uintptr_t pc, char *text, size_t room);

/* A run starts; it has ended: free what was read. No other thread is inside. */
void srcline_begin(void);
void srcline_end(void);

#endif
