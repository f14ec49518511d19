/* SPDX-License-Identifier: MIT */
/* Dumps of all green threads to a file descriptor: see dump.c. */
#ifndef GMP_DUMP_H
#define GMP_DUMP_H

#include "types.h"

/* Dump all green threads to stderr, in a process that ends. No green thread runs any more. */
void dump_dying(void);
/* gmp_dump(2) with a title. */
void dump_at_signal(void);
/* gmp_dump or, with all, gmp_dump_all to a function, which may wait; it returns 0, or an error that
 * ends the dump and is returned. The caller is a G. */
typedef int (*dump_fn)(void *arg, const char *text, size_t n);
int dump_into(bool all, dump_fn fn, void *arg);
/* Dump n green threads to stderr, on sysmon. */
void dump_some(struct g *const *gs, unsigned n);
/* End of a run: free the memory of dumps whose callers were killed (DUMP-2). */
void dump_fini(void);
/* In the child of a fork. */
void dump_forget(void);

#endif
