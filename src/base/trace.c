/* SPDX-License-Identifier: MIT */
/* Backtraces by the unwinder of the compiler's runtime library: see base/trace.h. */
#include "base/trace.h"

#include <unwind.h>

#include "base/atomic.h"

static uintptr_t outermost; /* (a) */

struct walk {
	struct trace *t;
	int skip; /* frames still to be left out */
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
	if (w->skip > 0) {
		w->skip--;
		return _URC_NO_REASON;
	}
	if (t->n == TRACE_MOST) {
		t->more = true;
		return _URC_END_OF_STACK;
	}
	/* A call of a noreturn function may be the last instruction of its caller. The return
	 * address then belongs to the next function, so note an address inside the call. */
	t->pc[t->n++] = at_insn ? ip : ip - 1;
	t->in_handler |= at_insn;
	return _URC_NO_REASON;
}

static void trace_unwind(struct trace *t, int skip)
{
	struct walk w = { .t = t, .skip = skip };

	t->n = 0;
	t->more = t->in_handler = false;
	_Unwind_Backtrace(add_frame, &w);
}

void trace_walk(struct trace *t)
{
	trace_unwind(t, 0);
}

uintptr_t trace_function(uintptr_t pc)
{
	void *begin = _Unwind_FindEnclosingFunction((char *)pc + 1); /* takes a return address */

	return begin ? (uintptr_t)begin : pc;
}

/* --- calls of the program --- */

noinline void run_program(void (*fn)(void *), void *arg)
{
	fn(arg);
	__asm__ volatile(""); /* no jump: the frame stays */
}

noinline int run_program_child(int (*fn)(void *), void *arg)
{
	int result = fn(arg);

	__asm__ volatile("");
	return result;
}

noinline int run_program_flight(int (*fn)(void *, void *), void *arg, void *value)
{
	int result = fn(arg, value);

	__asm__ volatile("");
	return result;
}

static bool calls_program(uintptr_t fn)
{
	return fn == ld_rlx(&outermost) || fn == (uintptr_t)run_program ||
	       fn == (uintptr_t)run_program_child || fn == (uintptr_t)run_program_flight;
}

/* The return address of a frame of the program, which leads to the runtime. */
struct program_return {
	uintptr_t pc;
	bool (*is_runtimes)(uintptr_t pc);
	uintptr_t to; /* 0: leave the return address as it is */
	bool begun;
	bool found;
};

/* Find the frame that resumes at w->to, from the frame that resumes at w->pc outwards. */
static _Unwind_Reason_Code find_diverted(struct _Unwind_Context *ctx, void *arg)
{
	struct program_return *w = arg;
	uintptr_t ip = _Unwind_GetIP(ctx);

	if (ip == 0)
		return _URC_END_OF_STACK;
	if (w->begun) {
		w->found = ip == w->to;
		return w->found || calls_program(_Unwind_GetRegionStart(ctx)) ? _URC_END_OF_STACK
									      : _URC_NO_REASON;
	}
	w->begun = ip == w->pc;
	return _URC_NO_REASON;
}

/*
 * Replace the return address that leads from the program's frame to ctx, where it is saved; `ip`
 * is its value without a signature.  Returns false if the place is not known, or holds another
 * value.
 *
 * The canonical frame address of a frame's callee is the stack pointer after the return.  A machine
 * whose calls push the return address has it just below.  On others, ctx has the place of the
 * return register, where an inner frame has saved it, or the signal's context of a leaf function:
 * _Unwind_SetGR of libgcc writes there, that of LLVM's libunwind in its cursor only: a second walk
 * shows which (is_diverted).
 */
static bool divert(struct _Unwind_Context *ctx, uintptr_t ip, uintptr_t to)
{
	uintptr_t sp = _Unwind_GetCFA(ctx);

	if (ARCH_RETURN_REG < 0) {
		uintptr_t *slot = (uintptr_t *)sp - 1;

		if (*slot != ip)
			return false;
		if (to)
			*slot = to;
		return true;
	}
	uintptr_t saved = _Unwind_GetGR(ctx, ARCH_RETURN_REG);
	uintptr_t resigned = arch_resign(saved, ip, to ? to : ip, sp);

	if (resigned && to)
		_Unwind_SetGR(ctx, ARCH_RETURN_REG, resigned);
	return resigned != 0;
}

static _Unwind_Reason_Code find_program_return(struct _Unwind_Context *ctx, void *arg)
{
	struct program_return *w = arg;
	uintptr_t ip = _Unwind_GetIP(ctx), fn = _Unwind_GetRegionStart(ctx);

	if (ip == 0)
		return _URC_END_OF_STACK;
	if (!w->begun) {
		w->begun = ip == w->pc;
		return w->begun && w->is_runtimes(ip) ? _URC_END_OF_STACK : _URC_NO_REASON;
	}
	if (calls_program(fn)) {
		w->found = divert(ctx, ip, w->to);
		return _URC_END_OF_STACK;
	}
	return w->is_runtimes(ip) ? _URC_END_OF_STACK : _URC_NO_REASON;
}

/* Return whether a walk from pc meets a frame that resumes at `to`. */
static bool is_diverted(uintptr_t pc, uintptr_t to)
{
	struct program_return w = { .pc = pc, .to = to };

	_Unwind_Backtrace(find_diverted, &w);
	return w.found;
}

bool trace_program_return(uintptr_t pc, bool (*is_runtimes)(uintptr_t pc), uintptr_t to)
{
	struct program_return w = { .pc = pc, .is_runtimes = is_runtimes, .to = to };

	_Unwind_Backtrace(find_program_return, &w);
	return w.found && (!to || ARCH_RETURN_REG < 0 || is_diverted(pc, to));
}

void trace_own(struct trace *t, uintptr_t first)
{
	trace_own_from(t, first, 0);
	if (t->n == 0)
		trace_own_from(t, 0, 0);
}

void trace_own_from(struct trace *t, uintptr_t first, int skip)
{
	t->first = first;
	t->lo = t->hi = 0;
	trace_unwind(t, skip);
}
