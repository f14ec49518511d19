/* SPDX-License-Identifier: MIT */
/*
 * Which calls have led to where a parked green thread stands?
 *
 * An unwinder walks from where it is called, and knows of each frame by a table how to find the
 * next.  So one frame with a table that tells a tale is enough:
 *
 *   caller's stack               the parked stack
 *     trace_parked                 frames of the calls, down to the entry
 *     gmp__call_above  . . . . . > context_frame, at the saved sp
 *     trace_walk
 *     _Unwind_Backtrace
 *
 * gmp__call_above is called by trace_parked and returns to it; but its table says that its caller's
 * registers lie in the context_frame, which is what gogo would do with them.
 *
 * Invariants
 *  V1 Nothing is written to the parked stack, and nothing read below its saved sp.
 *  V2 The walk ends where context_<arch>.S says that a stack begins, or at the first frame that is
 *     not on the parked stack.
 *
 * Rejected: a reader of such tables of our own (a thousand lines for what libc's unwinder does);
 * walking on the parked stack itself (it may have no room, and its pages may be given back);
 * following frame pointers (compilers do not keep them).
 */
#include "machine/unwind.h"

static void walk_frames(void *t)
{
	trace_walk(t);
}

void trace_parked(struct trace *t, const struct context *ctx, const char *lo, const char *hi)
{
	t->first = ((const struct context_frame *)ctx->sp)->pc;
	t->lo = (uintptr_t)lo;
	t->hi = (uintptr_t)hi;
	gmp__call_above(walk_frames, t, ctx->sp);
}
