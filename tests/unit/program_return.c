/* SPDX-License-Identifier: MIT */
/*
 * Tests the walk that decides whether an interrupted thread is in code of the program.
 *
 * The wrapper can lose a write to a register, as LLVM's unwinder does.
 *
 * floors 0..0
 * wrap: _Unwind_SetGR
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <unwind.h>

#include "base/os.h"
#include "base/trace.h"
#include "context.h"

void __real__Unwind_SetGR(struct _Unwind_Context *ctx, int reg, uintptr_t value);
void __wrap__Unwind_SetGR(struct _Unwind_Context *ctx, int reg, uintptr_t value);

static bool found;
static bool lost;    /* _Unwind_SetGR changes nothing */
static uintptr_t to; /* the new return address; 0: none */
static jmp_buf home;

/* landing may have a misaligned stack on x86-64, which the builtins do not mind.  Clang has none
 * for the other machines. */
#if defined(__clang__) && !defined(__x86_64__)
#define set_home() setjmp(home)
#define go_home() longjmp(home, 1)
#else
#define set_home() __builtin_setjmp((void **)home)
#define go_home() __builtin_longjmp((void **)home, 1)
#endif

void __wrap__Unwind_SetGR(struct _Unwind_Context *ctx, int reg, uintptr_t value)
{
	if (!lost)
		__real__Unwind_SetGR(ctx, reg, value);
}

static noinline void inside(void (*fn)(void));

static bool is_inside(uintptr_t pc)
{
	return trace_function(pc) == (uintptr_t)inside ||
	       trace_function(pc) == (uintptr_t)run_program;
}

static void on_signal(int signo, siginfo_t *info, void *context)
{
	(void)signo;
	(void)info;
	found = trace_program_return(context_pc_sig(context), is_inside, to);
}

static noinline void compute(void)
{
	pthread_kill(pthread_self(), SIGUSR1);
	__asm__ volatile("");
}

/* Stands for a function of the runtime. */
static noinline void inside(void (*fn)(void))
{
	fn();
	__asm__ volatile("");
}

static void call_program(void *arg)
{
	(void)arg;
	compute();
	__asm__ volatile("");
}

static void call_runtime(void *arg)
{
	(void)arg;
	inside(compute);
	__asm__ volatile("");
}

static void setup(void)
{
	struct sigaction sa = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };

	CHECK_EQ(sigaction(SIGUSR1, &sa, NULL), 0);
	found = lost = false;
	to = 0;
}

/* Stands for gmp__abandoned_return: it is returned to, so the stack may be misaligned. */
noinline __attribute__((noreturn)) static void landing(void)
{
	go_home();
}

TEST(program_return_leads_to_the_runtime)
{
	setup();
	run_program(call_program, NULL);
	CHECK(found);
}

TEST(program_return_is_not_found_in_a_call_of_the_runtime)
{
	setup();
	run_program(call_runtime, NULL);
	CHECK(!found);
}

TEST(program_return_is_not_found_without_a_call_of_the_program)
{
	setup();
	compute();
	CHECK(!found);
}

/* Returns whether the program's code came back at landing. */
static noinline bool comes_back_diverted(void)
{
	if (set_home())
		return true;
	run_program(call_program, NULL);
	return false;
}

TEST(program_return_is_diverted)
{
	if (os_shadow_stack())
		check_skip("a shadow stack");
	setup();
	to = (uintptr_t)landing;
	CHECK(comes_back_diverted());
	CHECK(found);
}

TEST(program_return_that_the_unwinder_does_not_change_is_not_found)
{
	if (ARCH_RETURN_REG < 0)
		check_skip("a call pushes its return address: no register is written");
	setup();
	to = (uintptr_t)landing;
	lost = true;
	CHECK(!comes_back_diverted());
	CHECK(!found);
}
