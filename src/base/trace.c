/* SPDX-License-Identifier: MIT */
#include "base/trace.h"

#include <unwind.h>

#include "base/atomic.h"

static uintptr_t outermost; /* (a) */

struct walk {
	struct trace *t;
	bool begun;
};

void trace_ends_at(uintptr_t fn)
{
	st_rlx(&outermost, fn);
}

static _Unwind_Reason_Code add_frame(struct _Unwind_Context *ctx, void *arg)
{
	struct walk *w = arg;
	struct trace *t = w->t;
	int at_insn = 0;
	uintptr_t ip = _Unwind_GetIPInfo(ctx, &at_insn);

	if (ip == 0)
		return _URC_END_OF_STACK;
	if (!w->begun && t->first && ip != t->first)
		return _URC_NO_REASON;
	w->begun = true;
	if (t->hi && (_Unwind_GetCFA(ctx) < t->lo || _Unwind_GetCFA(ctx) > t->hi))
		return _URC_END_OF_STACK;
	if (_Unwind_GetRegionStart(ctx) == ld_rlx(&outermost))
		return _URC_END_OF_STACK;
	if (t->n == TRACE_MOST) {
		t->more = true;
		return _URC_END_OF_STACK;
	}
	/* A return address may be the next function's first: a call of a noreturn function can be
	 * the last instruction of its own. */
	t->pc[t->n++] = at_insn ? ip : ip - 1;
	t->in_handler |= at_insn;
	return _URC_NO_REASON;
}

void trace_walk(struct trace *t)
{
	struct walk w = { .t = t };

	t->n = 0;
	t->more = t->in_handler = false;
	_Unwind_Backtrace(add_frame, &w);
}

uintptr_t trace_function(uintptr_t pc)
{
	void *begin = _Unwind_FindEnclosingFunction((char *)pc + 1); /* it takes a return address */

	return begin ? (uintptr_t)begin : pc;
}

void trace_own(struct trace *t, uintptr_t first)
{
	t->first = first;
	t->lo = t->hi = 0;
	trace_walk(t);
	if (t->n == 0) {
		t->first = 0;
		trace_walk(t);
	}
}
