/* SPDX-License-Identifier: MIT */
/*
 * Measures the bare switch, one way, without a scheduler.
 *
 * Two contexts switch to each other through the entry points of the core: mcall saves one context
 * and calls a function on a third stack (in place of g0), and that function resumes the other
 * context by gogo.  Every switch in the runtime does this.  "switch/direct" omits the function;
 * "switch/floor" also omits the control words and the third stack, and is the floor of this
 * machine.
 *
 * Each side switches from four places in its code, because a switch that always comes from the same
 * place is easier to predict than the switches of a program.
 *
 * "switch/fp" flips a sticky flag of mxcsr in the saved frame each time, so that the saved value
 * always differs from that of the CPU, as if one green thread has divided and another has not.  It
 * flips the flag in memory, because clearing it in the CPU costs more than the switch.  The row
 * "switch" does the same store without changing the value.
 */
#include "shim.h"

#include "context.h"

#include <stdlib.h>

#define STACK (64 << 10)
#define INEXACT 0x20

static struct context a, b;
static char *g0;
static uint32_t flip;
static int64_t turns_b;
static volatile double third;

static int to_a(void *arg)
{
	((struct context_frame *)a.sp)->mxcsr ^= *(uint32_t *)arg;
	return gmp__gogo(&a, 0, g0);
}

static int to_b(void *arg)
{
	((struct context_frame *)b.sp)->mxcsr ^= *(uint32_t *)arg;
	return gmp__gogo(&b, 0, g0);
}

static int other(void *arg)
{
	(void)arg;
	for (;;) {
		gmp__mcall(&b, to_a, &flip, g0);
		gmp__mcall(&b, to_a, &flip, g0);
		gmp__mcall(&b, to_a, &flip, g0);
		gmp__mcall(&b, to_a, &flip, g0);
		turns_b += 4;
	}
	return 0;
}

/* gogo as the function that mcall calls: the result that it passes is undefined and not used. */
static int (*const gogo)(void *) = (int (*)(void *))(void (*)(void))gmp__gogo;

static int other_direct(void *arg)
{
	(void)arg;
	for (;;) {
		gmp__mcall(&b, gogo, &a, g0);
		gmp__mcall(&b, gogo, &a, g0);
		gmp__mcall(&b, gogo, &a, g0);
		gmp__mcall(&b, gogo, &a, g0);
		turns_b += 4;
	}
	return 0;
}

static char *stack_top(void)
{
	char *s = aligned_alloc(64, STACK);

	bench_check(s, "no memory");
	return s + STACK;
}

static int (*entry)(void *);

static int start_b(void *stack)
{
	return gmp__gstart(NULL, entry, stack, gmp__fpwords(), g0);
}

static void turns(int64_t n)
{
	for (int64_t i = 0; i < n; i += 4) {
		gmp__mcall(&a, to_b, &flip, g0);
		gmp__mcall(&a, to_b, &flip, g0);
		gmp__mcall(&a, to_b, &flip, g0);
		gmp__mcall(&a, to_b, &flip, g0);
	}
}

static void turns_direct(int64_t n)
{
	for (int64_t i = 0; i < n; i += 4) {
		gmp__mcall(&a, gogo, &b, g0);
		gmp__mcall(&a, gogo, &b, g0);
		gmp__mcall(&a, gogo, &b, g0);
		gmp__mcall(&a, gogo, &b, g0);
	}
}

/*
 * The floor: the least work of a switch, which saves and restores the six callee-saved registers,
 * without control words and a third stack.
 * void floor_switch(struct context *save, struct context *to).
 */
__asm__(".text\n"
	".p2align 5\n"
	".type floor_switch, @function\n"
	"floor_switch:\n"
	"\tpushq %rbp\n\tpushq %rbx\n\tpushq %r12\n\tpushq %r13\n\tpushq %r14\n\tpushq %r15\n"
	"\tmovq %rsp, (%rdi)\n"
	"\tmovq (%rsi), %rsp\n"
	"\tpopq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbx\n\tpopq %rbp\n"
	"\tpopq %rcx\n"
	"\tjmp *%rcx\n"
	".size floor_switch, . - floor_switch\n");
void floor_switch(struct context *save, struct context *to);

static int other_floor(void *arg)
{
	(void)arg;
	for (;;) {
		floor_switch(&b, &a);
		floor_switch(&b, &a);
		floor_switch(&b, &a);
		floor_switch(&b, &a);
		turns_b += 4;
	}
	return 0;
}

static void turns_floor(int64_t n)
{
	for (int64_t i = 0; i < n; i += 4) {
		floor_switch(&a, &b);
		floor_switch(&a, &b);
		floor_switch(&a, &b);
		floor_switch(&a, &b);
	}
}

enum { BY_G0, DIRECT, FLOOR, FP };

/* c->count is the number of switches, half of them each way. */
static void switches(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	void (*fn)(int64_t) = c->mode == DIRECT  ? turns_direct
			      : c->mode == FLOOR ? turns_floor
						 : turns;
	int64_t n = c->count / 2, warm = n / 8 & ~(int64_t)3, t0, t1;

	turns_b = 0;
	flip = 0;
	g0 = stack_top();
	entry = c->mode == DIRECT ? other_direct : other;
	if (c->mode == FLOOR) {
		uint64_t *frame = (uint64_t *)stack_top() - 9;

		for (int i = 0; i < 6; i++)
			frame[i] = 0;
		frame[6] = (uint64_t)(uintptr_t)other_floor;
		b.sp = frame;
		floor_switch(&a, &b);
	} else {
		gmp__mcall(&a, start_b, stack_top() - 64, g0);
	}
	if (c->mode == FP) {
		double one = 1.0;

		__asm__ volatile("" : "+x"(one));
		third = one / 3.0;
		bench_check(gmp__fpwords() >> 32 & INEXACT, "1/3 did not set the inexact flag");
		flip = INEXACT;
	}
	fn(warm);
	t0 = bench_clock();
	fn(n);
	t1 = bench_clock();
	bench_check(turns_b == warm + n, "%lld turns, not %lld", (long long)turns_b,
		    (long long)(warm + n));
	bench_time(st, t1 - t0, c->count);
}

BENCH(switches, "switch", .procs = 0, .mode = BY_G0, .count = 40000000);
BENCH(switches, "switch/fp", .procs = 0, .mode = FP, .count = 40000000);
BENCH(switches, "switch/direct", .procs = 0, .mode = DIRECT, .count = 40000000);
BENCH(switches, "switch/floor", .procs = 0, .mode = FLOOR, .count = 40000000);
