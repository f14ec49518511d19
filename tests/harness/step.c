/* SPDX-License-Identifier: MIT */
/* Single-steps the calling thread: SIGTRAP after each instruction calls a check (step.h). */
#include "step.h"

#include <signal.h>

static void (*step_look)(void);
static volatile sig_atomic_t taken;

static void trap(int sig)
{
	(void)sig;
	taken++;
	step_look();
}

void step_begin(void (*look)(void))
{
	struct sigaction sa = { .sa_handler = trap };

	check_skip_on_valgrind("Valgrind does not step");
	step_look = look;
	taken = 0;
	CHECK_EQ(sigaction(SIGTRAP, &sa, NULL), 0);
}

void step_end(void)
{
	CHECK(taken > 5);
	signal(SIGTRAP, SIG_DFL);
}
