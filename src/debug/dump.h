/* SPDX-License-Identifier: MIT */
/* What does each green thread do, and how is that written down?  See dump.c. */
#ifndef GMP_DUMP_H
#define GMP_DUMP_H

#include "runtime.h"

/* Every green thread to stderr, for a process that ends: nothing runs any more. */
void dump_dying(void);
/* Whom gp, which is parked and stays so, waits for: the holder of the lock, the one that it joins.
 * NULL: nobody in particular. */
struct g *dump_awaited(const struct g *gp);
/* The runtime has stopped: free what dropped green threads were dumping with. */
void dump_fini(void);
/* The child of a fork. */
void dump_forget(void);

#endif
