/* SPDX-License-Identifier: MIT */
/*
 * Backtrace of a parked green thread, by the unwinder of libc and one frame with a false unwind
 * table.
 *
 * An unwinder starts at its caller and finds each next frame by a table.  One frame whose table
 * leads to the parked stack is therefore enough:
 *
 *   caller's stack               the parked stack
 *     trace_parked                 frames of the calls, down to the entry
 *     gmp__call_above  . . . . . > context_frame, at the saved sp
 *     trace_walk
 *     _Unwind_Backtrace
 *
 * gmp__call_above is called by trace_parked and returns to it, but its table states that its
 * caller's registers are in the context_frame, as gogo would restore them.
 *
 * Invariants
 *  UNWIND-1  Nothing is written to the parked stack, and nothing is read below its saved sp.
 *  UNWIND-2  The walk ends at the frame that context_<arch>.S marks as the first of a stack, or at
 *            the first frame that is not on the parked stack.
 *
 * Rejected
 *   A table reader of gmp's own: a thousand lines for what libc's unwinder does.
 *   A walk that runs on the parked stack: it may have no room, and its pages may be returned.
 *   Frame pointers: compilers omit them.
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
