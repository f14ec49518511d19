/* SPDX-License-Identifier: MIT */
/*
 * How do the counters of a coverage build (GMP_COVERAGE) get out of a program that does not return from
 * main?  libgcov writes them in atexit, so that those of death tests and of forked children would be
 * lost.  Here stand, in front of libc's, the ways in which such programs end: _exit, abort, and a signal
 * that is given its default back.  What SIGKILL ends leaves nothing.
 */
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#define IN_FRONT __attribute__((visibility("default"))) /* of libc's, also for libstdc++ */

void __gcov_dump(void);
void plan_end(void) __attribute__((
	weak)); /* in tests/faults/harness: no more faults, or libgcov had them too */

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
	return ssignal(signo, handler); /* the same function */
}
