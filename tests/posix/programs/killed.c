/* SPDX-License-Identifier: MIT */
/*
 * A program whose main thread gets signals by pthread_kill while it computes, waits, blocks them or
 * is in sigwait: its handler runs on main, each time.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { TIMES = 50 };

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

static void *kill_main(void *arg)
{
	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
		if (pthread_kill(main_self, SIGUSR1))
			return "pthread_kill failed";
		sched_yield();
	}
	return arg;
}

static void *kill_once(void *arg)
{
	return pthread_kill(main_self, SIGUSR1) ? "pthread_kill failed" : arg;
}

static void *sleep_often(void *arg)
{
	struct timespec soon = { 0, 50000 };

	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE))
		nanosleep(&soon, NULL);
	return arg;
}

static void mask(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(how, &set, NULL);
}

static void join(pthread_t t)
{
	void *failed;

	if (pthread_join(t, &failed) == 0 && failed)
		puts(failed);
}

static void report(const char *what)
{
	printf("%s: on main: %s, elsewhere: %d\n", what, on_main ? "yes" : "no", (int)elsewhere);
	on_main = elsewhere = 0;
}

static void compute(void)
{
	while (on_main < TIMES)
		;
}

static void wait_long(void)
{
	struct timespec hour = { 3600, 0 };
	int interrupted = 0;

	while (on_main < TIMES)
		interrupted += nanosleep(&hour, NULL) && errno == EINTR;
	if (!interrupted)
		puts("no sleep was interrupted");
}

static void while_killed(void (*fn)(void), const char *what)
{
	pthread_t killer, sleeper;

	over = false;
	pthread_create(&killer, NULL, kill_main, NULL);
	pthread_create(&sleeper, NULL, sleep_often, NULL);
	fn();
	__atomic_store_n(&over, true, __ATOMIC_RELEASE);
	join(killer);
	join(sleeper);
	report(what);
}

/* A pending signal, while main may change its OS thread. */
static void blocked(void)
{
	struct timespec soon = { 0, 1000000 };
	pthread_t t;

	for (int i = 0; i < TIMES; i++) {
		mask(SIG_BLOCK);
		if (i % 2) {
			raise(SIGUSR1);
		} else {
			pthread_create(&t, NULL, kill_once, NULL);
			join(t);
		}
		nanosleep(&soon, NULL);
		if (on_main != i)
			puts("a handler ran too early");
		mask(SIG_UNBLOCK);
		if (on_main != i + 1)
			puts("no handler ran");
	}
	report("blocked");
}

static void masked_ppoll(void)
{
	sigset_t none;
	pthread_t t;
	int interrupted = 0;

	sigemptyset(&none);
	for (int i = 0; i < TIMES; i++) {
		mask(SIG_BLOCK);
		pthread_create(&t, NULL, kill_once, NULL);
		interrupted += ppoll(NULL, 0, NULL, &none) < 0 && errno == EINTR;
		join(t);
		mask(SIG_UNBLOCK);
	}
	printf("interrupted %d times\n", interrupted);
	report("ppoll");
}

static void wait_signal(void)
{
	sigset_t set;
	pthread_t t;
	int signo, taken = 0;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	mask(SIG_BLOCK);
	for (int i = 0; i < TIMES; i++) {
		pthread_create(&t, NULL, kill_once, NULL);
		taken += sigwait(&set, &signo) == 0 && signo == SIGUSR1;
		join(t);
	}
	mask(SIG_UNBLOCK);
	printf("taken %d times\n", taken);
	report("sigwait");
}

int main(void)
{
	struct sigaction sa = { .sa_handler = note };

	main_self = pthread_self();
	sigaction(SIGUSR1, &sa, NULL);
	while_killed(compute, "compute");
	while_killed(wait_long, "sleep");
	blocked();
	masked_ppoll();
	wait_signal();
	return 0;
}
