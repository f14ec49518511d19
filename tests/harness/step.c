/* SPDX-License-Identifier: MIT */
/* Single-steps the calling thread: SIGTRAP after each instruction calls a check (step.h). */
#define _GNU_SOURCE 1 /* REG_EFL */
#include "step.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <ucontext.h>

static void (*step_look)(void);
static volatile sig_atomic_t taken, stopped;

static void trap(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)info;
	(void)context;
	taken++;
	step_look();
#ifdef __x86_64__
	if (stopped)
		((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~0x100;
#endif
}

void step_stop(void)
{
	stopped = 1;
}

bool step_fork(void)
{
	pid_t pid = fork();
	int status;

	CHECK(pid >= 0);
	if (pid == 0)
		return true;
	while (waitpid(pid, &status, 0) < 0)
		CHECK_EQ(errno, EINTR);
	CHECK_EQ(status, 0);
	return false;
}

void step_begin(void (*look)(void))
{
	struct sigaction sa = { .sa_sigaction = trap, .sa_flags = SA_SIGINFO };

	check_skip_on_valgrind("Valgrind does not step");
	step_look = look;
	taken = stopped = 0;
	CHECK_EQ(sigaction(SIGTRAP, &sa, NULL), 0);
}

void step_end(void)
{
	CHECK(taken > 5 || stopped);
	signal(SIGTRAP, SIG_DFL);
}
