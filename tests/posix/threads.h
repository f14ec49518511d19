/* SPDX-License-Identifier: MIT */
/*
 * Threads for conformance tests: OS threads natively, green threads in a run.
 *
 *   struct thread t;
 *   thread_start(&t, fn, arg);      of the caller's kind
 *   thread_outside(&t, fn, arg);    an OS thread, from a green thread too
 *   thread_end(&t);                 wait for its end
 *   mask(SIG_BLOCK, signo);         pthread_sigmask of one signal
 */
#ifndef TESTS_POSIX_THREADS_H
#define TESTS_POSIX_THREADS_H

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "posix.h"

struct thread {
	gmp_g *g;
	pthread_t p;
	void (*fn)(void *arg);
	void *arg;
};

__attribute__((unused)) static void *thread_main(void *t)
{
	((struct thread *)t)->fn(((struct thread *)t)->arg);
	return NULL;
}

__attribute__((unused)) static void thread_green(void *t)
{
	((struct thread *)t)->fn(((struct thread *)t)->arg);
}

/* In blocking code, where pthread_create is libc's. */
__attribute__((unused)) static void thread_outside(struct thread *t, void (*fn)(void *), void *arg)
{
	*t = (struct thread){ .fn = fn, .arg = arg };
	gmp_block_enter();
	int err = pthread_create(&t->p, NULL, thread_main, t);

	gmp_block_leave();
	CHECK_EQ(err, 0);
}

__attribute__((unused)) static void thread_start(struct thread *t, void (*fn)(void *), void *arg)
{
	if (!on_green()) {
		thread_outside(t, fn, arg);
		return;
	}
	*t = (struct thread){ .fn = fn, .arg = arg };
	CHECK_EQ(gmp_spawn(&t->g, thread_green, t, NULL), 0);
}

__attribute__((unused)) static void thread_end(struct thread *t)
{
	if (t->g) {
		CHECK_EQ(gmp_join(t->g), 0);
		return;
	}
	gmp_block_enter();
	int err = pthread_join(t->p, NULL);

	gmp_block_leave();
	CHECK_EQ(err, 0);
}

/* Let others run. */
__attribute__((unused)) static void thread_pass(void)
{
	if (on_green())
		gmp_yield();
	else
		sched_yield();
}

/* Wait until *n, which other threads count up, is at least `least`. */
__attribute__((unused)) static void thread_await(const int *n, int least)
{
	while (__atomic_load_n(n, __ATOMIC_ACQUIRE) < least)
		thread_pass();
}

__attribute__((unused)) static void thread_count(int *n)
{
	__atomic_fetch_add(n, 1, __ATOMIC_RELEASE);
}

/* Four threads wait in `wait`, which counts its argument up at its end; each run of the handler
 * ends one of the waits. */
__attribute__((unused)) static void check_handler_wakes(void (*handler)(int), void (*wait)(void *))
{
	struct sigaction sa = { .sa_handler = handler, .sa_flags = SA_RESTART };
	struct thread t[4];
	int got = 0;

	CHECK_EQ(sigaction(SIGUSR1, &sa, NULL), 0);
	for (int i = 0; i < 4; i++)
		thread_start(&t[i], wait, &got);
	for (int i = 0; i < 4; i++) {
		CHECK_EQ(raise(SIGUSR1), 0);
		thread_await(&got, i + 1);
	}
	for (int i = 0; i < 4; i++)
		thread_end(&t[i]);
}

/* The time of a clock in so many ms. */
__attribute__((unused)) static struct timespec time_in(clockid_t clock, long ms)
{
	struct timespec t;

	clock_gettime(clock, &t);
	t.tv_sec += ms / 1000;
	t.tv_nsec += ms % 1000 * 1000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_nsec -= 1000000000;
		t.tv_sec++;
	}
	return t;
}

__attribute__((unused)) static bool time_is_past(clockid_t clock, const struct timespec *t)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec > t->tv_sec || (now.tv_sec == t->tv_sec && now.tv_nsec >= t->tv_nsec);
}

/* fn as a green thread with own thread-locals, on so many Ps. */
__attribute__((unused)) static void thread_run(int procs, void (*fn)(void))
{
	posix_run(fn, procs);
}

__attribute__((unused)) static void mask(int how, int signo)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signo);
	CHECK_EQ(pthread_sigmask(how, &set, NULL), 0);
}

#endif
