/* SPDX-License-Identifier: MIT */
/*
 * Tests the walk that decides whether an interrupted thread is in code of the program.
 *
 * floors 0..0
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <pthread.h>
#include <signal.h>

#include "base/trace.h"
#include "context.h"

static bool found;

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
	found = trace_way_back(context_pc_sig(context), is_inside, 0);
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
	found = false;
}

TEST(way_back_of_program_code_is_its_return_to_the_runtime)
{
	setup();
	run_program(call_program, NULL);
	CHECK(found);
}

TEST(way_back_is_not_found_in_a_call_of_the_runtime)
{
	setup();
	run_program(call_runtime, NULL);
	CHECK(!found);
}

TEST(way_back_is_not_found_without_a_call_of_the_program)
{
	setup();
	compute();
	CHECK(!found);
}
