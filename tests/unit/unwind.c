/* SPDX-License-Identifier: MIT */
/*
 * Tests that an unwinder called through gmp__call_above sees the frames of a parked stack with
 * their registers, and leaves that stack unchanged.
 */
#define _GNU_SOURCE 1
#include "check.h"

#include "machine/unwind.h"

#include "backtrace.h"
#include <signal.h>
#include <unwind.h>

#include "base/san.h"
#include "base/symtab.h"

/*
 * The machine's part, in unwind_<arch>.h:
 *
 *   leave, keep, step_through  see below
 *   saved[]                    the numbers of the callee-saved registers for an unwinder
 *   ENTRY_FRAME                from __builtin_frame_address to the stack pointer when the function
 *                              began, and that modulo 16
 *   STEPS_OWN                  instructions of gmp__call_above at which its caller is found; not
 *                              defined if the machine cannot be single-stepped
 */
#if defined(__x86_64__)
#include "unwind_x86_64.h"
#elif defined(__aarch64__)
#include "unwind_aarch64.h"
#elif defined(__riscv)
#include "unwind_riscv64.h"
#endif

/* AddressSanitizer does not see these switches, so functions that switch are not instrumented. */
#ifdef __clang__
#define PLAIN __attribute__((no_sanitize("address"))) noinline
#else
#define PLAIN __attribute__((no_sanitize("address"), __noipa__)) /* also keeps its name */
#endif

enum { BYTES = 64 * 1024 };

static char g0_stack[BYTES] aligned_to(16), new_stack[BYTES] aligned_to(16);
static char *const g0 = g0_stack + BYTES, *const top = new_stack + BYTES;
static struct context home, parked;

__attribute__((constructor)) static void register_stacks(void)
{
	san_stack_made(g0_stack, sizeof(g0_stack));
	san_stack_made(new_stack, sizeof(new_stack));
}

static void no_more(void)
{
	__asm__ volatile("" ::: "memory"); /* prevents a tail call before it */
}

/* --- a stack parked inside calls --- */

/* gmp__mcall with the value 0x1111 * (i + 1) in the register saved[i]. */
int leave(struct context *save, int (*fn)(void *arg), void *arg, void *stack);

PLAIN static int to_home(void *arg)
{
	(void)arg;
	return gmp__gogo(&home, 1, g0);
}

PLAIN static int inner(void)
{
	int result = leave(&parked, to_home, NULL, g0);

	no_more();
	return result;
}

PLAIN static int middle(int depth)
{
	int result = depth > 0 ? middle(depth - 1) : inner();

	no_more();
	return result;
}

PLAIN static int outer(void *depth)
{
	middle((int)(intptr_t)depth);
	return gmp__gogo(&home, 2, g0);
}

PLAIN static int begin(void *depth)
{
	return gmp__gstart(depth, outer, top, gmp__fpwords(), g0);
}

/* Parks `parked` in leave <- inner <- middle (depth + 1 times) <- outer. */
static void park_at(int depth)
{
	memset(new_stack, 0x5a, sizeof(new_stack));
	CHECK_EQ(gmp__mcall(&home, begin, (void *)(intptr_t)depth, g0), 1);
}

static const char *name_of(uintptr_t pc)
{
	static struct symbol s;

	CHECK(symtab_find_sig(pc, &s));
	return s.name;
}

static struct trace t;

static void trace_stack(void)
{
	trace_parked(&t, &parked, new_stack, top);
}

TEST(trace_parked_reaches_start_of_stack)
{
	static const char *const names[] = {
		"leave", "inner", "middle", "middle", "middle", "outer"
	};

	park_at(2);
	trace_stack();
	CHECK_EQ(t.n, countof(names) + 1);
	for (unsigned i = 0; i < countof(names); i++)
		CHECK_STR(name_of(t.pc[i]), names[i]);
	CHECK_STR(name_of(t.pc[countof(names)]), "gmp__gstart");
	CHECK(!t.more);
}

TEST(trace_parked_omits_common_entry_function)
{
	park_at(3);
	trace_ends_at((uintptr_t)outer);
	trace_stack();
	CHECK_EQ(t.n, 6);
	CHECK_STR(name_of(t.pc[5]), "middle");
	trace_ends_at((uintptr_t)name_of); /* a function that is not on this stack */
	trace_stack();
	CHECK_EQ(t.n, 8);
}

TEST(trace_parked_too_deep_sets_more)
{
	park_at(200);
	trace_stack();
	CHECK_EQ(t.n, TRACE_MOST);
	CHECK(t.more);
	CHECK_STR(name_of(t.pc[TRACE_MOST - 1]), "middle");
	park_at(1);
	trace_stack();
	CHECK_EQ(t.n, 6);
	CHECK(!t.more);
}

TEST(trace_parked_does_not_modify_stack)
{
	static char before[BYTES];

	park_at(1);
	san_head(new_stack, BYTES); /* the remains of finished calls are compared, too */
	memcpy(before, new_stack, BYTES);
	trace_stack();
	CHECK_EQ(t.n, 6);
	CHECK_EQ(memcmp(before, new_stack, BYTES), 0);
	CHECK_EQ(gmp__mcall(&home, to_home, NULL, g0), 1);
}

TEST(trace_parked_stays_inside_stack_bounds)
{
	park_at(20);
	trace_parked(&t, &parked, new_stack, (char *)parked.sp + sizeof(struct context_frame) + 1);
	CHECK_EQ(t.n, 1);
	trace_parked(&t, &parked, top, top);
	CHECK_EQ(t.n, 0);
}

/* --- gmp__call_above itself --- */

/* of the frame in `leave`; the stack pointer is the last */
static uintptr_t registers[countof(saved) + 1];
static uintptr_t entered_sp;

static _Unwind_Reason_Code note_registers(struct _Unwind_Context *ctx, void *arg)
{
	(void)arg;
	if (_Unwind_GetIP(ctx) != ((struct context_frame *)parked.sp)->pc)
		return _URC_NO_REASON;
	for (unsigned i = 0; i < countof(saved); i++)
		registers[i] = _Unwind_GetGR(ctx, saved[i]);
	registers[countof(saved)] = _Unwind_GetCFA(ctx);
	return _URC_END_OF_STACK;
}

static void unwind_registers(void *arg)
{
	entered_sp = (uintptr_t)__builtin_frame_address(0) + ENTRY_FRAME;
	_Unwind_Backtrace(note_registers, arg);
}

TEST(call_above_shows_saved_registers_to_unwinder)
{
	park_at(0);
	gmp__call_above(unwind_registers, NULL, parked.sp);
	for (unsigned i = 0; i < countof(saved); i++)
		CHECK_EQ(registers[i], 0x1111 * (i + 1));
	CHECK_EQ(registers[countof(saved)], (uintptr_t)parked.sp + sizeof(struct context_frame));
	CHECK_EQ(entered_sp % 16, ENTRY_FRAME);
}

static void *frames[64];
static int nframes;

static void libc_backtrace(void *arg)
{
	(void)arg;
	nframes = backtrace(frames, 64);
}

TEST(call_above_is_followed_by_libc_backtrace)
{
	int at = 0;

	park_at(0);
	gmp__call_above(libc_backtrace, NULL, parked.sp);
	while (at < nframes && (uintptr_t)frames[at] != ((struct context_frame *)parked.sp)->pc)
		at++;
	CHECK_EQ(nframes - at, 5);
	CHECK_STR(name_of((uintptr_t)frames[at + 3] - 1), "outer");
}

static void count_call(void *arg)
{
	++*(int *)arg;
}

/*
 * gmp__call_above with the value 0x1111 * (i + 1) in the register saved[i]; out receives their
 * values after it.
 */
void keep(void (*fn)(void *arg), void *arg, const void *sp, uint64_t *out);

TEST(call_above_preserves_callee_saved_registers)
{
	uint64_t out[countof(saved)] = { 0 };
	int calls = 0;

	park_at(0);
	keep(count_call, &calls, parked.sp, out);
	CHECK_EQ(calls, 1);
	for (unsigned i = 0; i < countof(saved); i++)
		CHECK_EQ(out[i], 0x1111 * (i + 1));
}

/* --- at each of its instructions --- */

#ifdef STEPS_OWN

static struct steps {
	unsigned own, above; /* instructions at which its caller was found, and the parked frame */
	bool lost;
} steps;

struct caller_search {
	bool inside; /* the previous frame is the interrupted gmp__call_above */
	uintptr_t caller;
};

static _Unwind_Reason_Code look_for_caller(struct _Unwind_Context *ctx, void *arg)
{
	struct caller_search *l = arg;
	int at_insn = 0;
	uintptr_t ip = _Unwind_GetIPInfo(ctx, &at_insn);

	if (l->inside) {
		l->caller = ip;
		return _URC_END_OF_STACK;
	}
	l->inside = at_insn && _Unwind_GetRegionStart(ctx) == (uintptr_t)gmp__call_above;
	return _URC_NO_REASON;
}

extern char stepped_call_returns[];

static void on_step(int signo)
{
	struct caller_search l = { .inside = false };

	(void)signo;
	_Unwind_Backtrace(look_for_caller, &l);
	if (!l.inside)
		return;
	if (l.caller == (uintptr_t)stepped_call_returns)
		steps.own++;
	else if (l.caller == ((struct context_frame *)parked.sp)->pc)
		steps.above++;
	else
		steps.lost = true;
}

/* gmp__call_above with the trap flag set: a signal after each instruction. */
void step_through(void (*fn)(void *arg), void *arg, const void *sp);

TEST(call_above_can_be_unwound_at_each_instruction)
{
	struct sigaction sa = { .sa_handler = on_step };
	int calls = 0;

	check_skip_on_valgrind("Valgrind does not step");
	park_at(0);
	CHECK_EQ(sigaction(SIGTRAP, &sa, NULL), 0);
	step_through(count_call, &calls, parked.sp);
	CHECK_EQ(calls, 1);
	CHECK(!steps.lost);
	CHECK_EQ(steps.own, STEPS_OWN);
	CHECK_EQ(steps.above, 1); /* the call instruction, which covers all of fn */
}

#endif
