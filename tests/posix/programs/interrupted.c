/* SPDX-License-Identifier: MIT */
/*
 * A program whose main thread waits, while another thread sends SIGTERM to the process until the
 * wait ends: a handler without SA_RESTART ends it with EINTR, also of a timer.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

#include "../waits_ended.h"

static volatile sig_atomic_t on_main, elsewhere;
static pthread_t main_self;
static bool over; /* atomic */

static void note(int signo)
{
	(void)signo;
	if (pthread_equal(pthread_self(), main_self))
		on_main++;
	else
		elsewhere++;
}

static void *send_sigterm(void *arg)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
		kill(getpid(), SIGTERM);
		usleep(2000);
	}
	return arg;
}

static void show(const char *what, int result, int err)
{
	printf("%s: %d %s, main: %d, elsewhere: %d\n", what, result, strerror(err), on_main > 0,
	       elsewhere);
}

static void by_thread(const char *what, int (*call)(void))
{
	pthread_t t;

	on_main = elsewhere = 0;
	__atomic_store_n(&over, false, __ATOMIC_RELEASE);
	if (pthread_create(&t, NULL, send_sigterm, NULL))
		return;
	int result = call(), err = errno;

	__atomic_store_n(&over, true, __ATOMIC_RELEASE);
	pthread_join(t, NULL);
	show(what, result, err);
}

static void by_timer(const char *what, int (*call)(void))
{
	struct itimerval on = { { 0, 5000 }, { 0, 5000 } }, off = { { 0, 0 }, { 0, 0 } };

	on_main = elsewhere = 0;
	setitimer(ITIMER_REAL, &on, NULL);
	int result = call(), err = errno;

	setitimer(ITIMER_REAL, &off, NULL);
	show(what, result, err);
}

int main(void)
{
	static int (*const calls[])(void) = { do_accept, do_read, do_poll, do_sem_wait };
	static const char *const names[] = { "accept", "read", "poll", "sem_wait" };
	struct sigaction sa = { .sa_handler = note };

	main_self = pthread_self();
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGALRM, &sa, NULL);
	sem_init(&sem, 0, 0);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return 1;
	for (int i = 0; i < 4; i++) {
		by_thread(names[i], calls[i]);
		by_timer(names[i], calls[i]);
	}
	return 0;
}
