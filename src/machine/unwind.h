/* SPDX-License-Identifier: MIT */
/* Which calls have led to where a parked green thread stands?  See machine/unwind.c. */
#ifndef GMP_UNWIND_H
#define GMP_UNWIND_H

#include "base/trace.h"
#include "context.h"

/* The frames of a saved context, which nobody may resume meanwhile; its stack lies in [lo, hi). */
void trace_parked(struct trace *t, const struct context *ctx, const char *lo, const char *hi);

/* unwind_<arch>.S: fn(arg), called so that an unwinder takes what stands at the saved sp for fn's
 * caller. */
void gmp__call_above(void (*fn)(void *arg), void *arg, const void *sp);

#endif
