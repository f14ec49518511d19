/* SPDX-License-Identifier: MIT */
/* Backtrace of a parked green thread.  machine/unwind.c has the invariants. */
#ifndef GMP_UNWIND_H
#define GMP_UNWIND_H

#include "base/trace.h"
#include "context.h"

/* Writes the frames of a saved context to *t.  Its stack is [lo, hi).  The caller must keep other
 * threads from resuming it meanwhile (waiter_hold). */
void trace_parked(struct trace *t, const struct context *ctx, const char *lo, const char *hi);

/* unwind_<arch>.S: calls fn(arg) so that an unwinder takes the frame at the saved sp for fn's
 * caller. */
void gmp__call_above(void (*fn)(void *arg), void *arg, const void *sp);

#endif
