/* SPDX-License-Identifier: MIT */
/* Deadlock cycles of green threads: see cycle.c. */
#ifndef GMP_CYCLE_H
#define GMP_CYCLE_H

#include "base/base.h"

/* Print all cycles to stderr. No green thread runs any more. */
void cycles_print(void);

/* For sched.up.long_waits: print each new cycle while other green threads run. Returns true if a
 * green thread of a possible cycle could not be held: the caller must call again. */
bool cycles_watch(void);
/* Start of a run: forget the reported cycles. */
void cycles_reset(void);

#endif
