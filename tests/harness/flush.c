/* SPDX-License-Identifier: MIT */
/*
 * Writes the counters of a coverage build (GMP_COVERAGE) in programs that do not return from main.
 * libgcov writes them in atexit, so the counters of death tests and forked children would be lost.
 * This file replaces the libc functions that end such programs: _exit, abort, and signal() with
 * SIG_DFL. A program killed by SIGKILL still loses its counters.
 */
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

/* replaces the libc function, also for libstdc++ */
#define IN_FRONT __attribute__((visibility("default")))

void __gcov_dump(void);
void plan_end(void) __attribute__((
	weak)); /* in tests/faults/harness: ends the planned faults, which would also hit libgcov */

static void flush(void)
{
	if (plan_end)
		plan_end();
	__gcov_dump();
}

IN_FRONT void _exit(int status)
{
	flush();
	for (;;)
		syscall(SYS_exit_group, status);
}

IN_FRONT void abort(void)
{
	sigset_t set;

	__gcov_dump();
	sigemptyset(&set);
	sigaddset(&set, SIGABRT);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	raise(SIGABRT);
	ssignal(SIGABRT, SIG_DFL); /* a handler has returned */
	for (;;)
		raise(SIGABRT);
}

IN_FRONT void (*signal(int signo, void (*handler)(int)))(int)
{
	if (handler == SIG_DFL)
		flush();
	return ssignal(signo, handler); /* same as signal() */
}
