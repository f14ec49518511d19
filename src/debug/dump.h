/* SPDX-License-Identifier: MIT */
/* Dumps: what each green thread does, written to a file descriptor. See dump.c. */
#ifndef GMP_DUMP_H
#define GMP_DUMP_H

#include "types.h"

/* Every green thread to stderr, for a process that ends: nothing runs any more. */
void dump_dying(void);
/* gmp_dump(2) under a title. */
void dump_at_signal(void);
/* These only, to stderr, for sysmon. */
void dump_some(struct g *const *gs, unsigned n);
/* The runtime has stopped: free what dumps of killed green threads were working with. */
void dump_fini(void);
/* The child of a fork. */
void dump_forget(void);

#endif
