/* SPDX-License-Identifier: MIT */
/* backtrace(3) of libc, or where libc has none, the same by the unwinder. */
#ifndef BACKTRACE_H
#define BACKTRACE_H

#if __has_include(<execinfo.h>)
#include <execinfo.h>
#else
#include <unwind.h>

struct backtrace {
	void **frames;
	int n, most;
};

static _Unwind_Reason_Code backtrace_add(struct _Unwind_Context *ctx, void *arg)
{
	struct backtrace *b = arg;

	if (b->n >= b->most)
		return _URC_END_OF_STACK;
	if (b->n >= 0) /* -1: the frame of backtrace() */
		b->frames[b->n] = (void *)_Unwind_GetIP(ctx);
	b->n++;
	return _URC_NO_REASON;
}

__attribute__((__noinline__)) static int backtrace(void **frames, int most)
{
	struct backtrace b = { frames, -1, most };

	_Unwind_Backtrace(backtrace_add, &b);
	if (b.n > 0 && !frames[b.n - 1]) /* the frame above the first one of a stack */
		b.n--;
	return b.n;
}
#endif

#endif
