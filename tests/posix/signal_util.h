/* SPDX-License-Identifier: MIT */
/* Helpers for the tests of signals: handlers that count, and timers that send SIGALRM. */
#ifndef TESTS_POSIX_SIGNAL_UTIL_H
#define TESTS_POSIX_SIGNAL_UTIL_H

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "posix.h"

#define UNUSED __attribute__((unused))

enum { MS = 1000000 };

UNUSED static volatile sig_atomic_t ran, last, code, value, in_main;
static pthread_t main_self;

UNUSED static void count(int signo)
{
	ran++;
	last = signo;
	in_main = pthread_equal(pthread_self(), main_self);
}

UNUSED static void count_info(int signo, siginfo_t *info, void *context)
{
	count(signo);
	code = info->si_code;
	value = info->si_value.sival_int;
	CHECK(context != NULL);
	CHECK_EQ(info->si_signo, signo);
}

/* Begin a case: install the handler. */
UNUSED static void handle(int signo, void (*fn)(int), int flags)
{
	struct sigaction sa = { .sa_handler = fn, .sa_flags = flags };

	ran = last = code = value = in_main = 0;
	main_self = pthread_self();
	CHECK_EQ(sigaction(signo, &sa, NULL), 0);
}

UNUSED static void set_of(sigset_t *set, int signo)
{
	sigemptyset(set);
	sigaddset(set, signo);
}

UNUSED static void send_value(int signo, int n)
{
	union sigval v = { .sival_int = n };

	CHECK_EQ(sigqueue(getpid(), signo, v), 0);
}

/* SIGALRM after so many ms, and again: the first one may come before the call. */
UNUSED static void alarm_in(int ms)
{
	struct itimerval t = { .it_value = { 0, ms * 1000 }, .it_interval = { 0, 200000 } };

	CHECK_EQ(setitimer(ITIMER_REAL, &t, NULL), 0);
}

UNUSED static void alarm_once(int ms)
{
	struct itimerval t = { .it_value = { 0, ms * 1000 } };

	CHECK_EQ(setitimer(ITIMER_REAL, &t, NULL), 0);
}

/* End a case of alarm_in. */
UNUSED static void no_alarm(void)
{
	struct itimerval t = { .it_value = { 0, 0 } };

	CHECK_EQ(setitimer(ITIMER_REAL, &t, NULL), 0);
	signal(SIGALRM, SIG_DFL);
}

/* A handler runs no later than that after the signal, if no wait shows when. */
UNUSED static void wait_ran(int n)
{
	int64_t until = gmp_now() + 5000 * (int64_t)MS;

	while (ran < n && gmp_now() < until)
		;
	CHECK_EQ(ran, n);
}

/* Another OS thread may have the signal first, and makes it pending. */
UNUSED static void wait_pending(int signo)
{
	sigset_t pending;

	do
		CHECK_EQ(sigpending(&pending), 0);
	while (!sigismember(&pending, signo));
}

#endif
