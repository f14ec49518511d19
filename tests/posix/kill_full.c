/* SPDX-License-Identifier: MIT */
/*
 * Tests signals that are sent while the kernel's queue of signals is full (RLIMIT_SIGPENDING): a
 * call that succeeds runs the handler, and a call that fails leaves no signal behind.
 *
 * The kernel then drops the siginfo.  A late note of posix/signal/kill.c without siginfo looks like
 * a further signal, so the handler may run once more.
 */
#define _GNU_SOURCE
#include <semaphore.h>
#include <signal.h>
#include <sys/resource.h>

#include "threads.h"

static int ran, elsewhere, done;
static pthread_t target;
static sem_t begun;
static struct rlimit normal;

static void note(int signo)
{
	(void)signo;
	if (!pthread_equal(pthread_self(), target))
		thread_count(&elsewhere);
	thread_count(&ran);
}

static void handle(int signo)
{
	struct sigaction sa = { .sa_handler = note };

	ran = elsewhere = 0;
	CHECK_EQ(sigaction(signo, &sa, NULL), 0);
}

/* As if the processes of the user had as many signals pending as they may. */
static void fill_queue(void)
{
	struct rlimit full;

	CHECK_EQ(getrlimit(RLIMIT_SIGPENDING, &normal), 0);
	full = normal;
	full.rlim_cur = 0;
	CHECK_EQ(setrlimit(RLIMIT_SIGPENDING, &full), 0);
}

static void empty_queue(void)
{
	CHECK_EQ(setrlimit(RLIMIT_SIGPENDING, &normal), 0);
}

static void *sleep_until_done(void *arg)
{
	target = pthread_self();
	CHECK_EQ(sem_post(&begun), 0);
	while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE))
		usleep(1000);
	return arg;
}

static pthread_t start_sleeper(void)
{
	pthread_t t;

	done = 0;
	CHECK_EQ(sem_init(&begun, 0, 0), 0);
	CHECK_EQ(pthread_create(&t, NULL, sleep_until_done, NULL), 0);
	while (sem_wait(&begun))
		CHECK_EQ(errno, EINTR);
	return t;
}

static void join_sleeper(pthread_t t)
{
	thread_count(&done);
	CHECK_EQ(pthread_join(t, NULL), 0);
}

static void end_sleeper(pthread_t t)
{
	join_sleeper(t);
	CHECK_EQ(elsewhere, 0);
}

/* --- pthread_kill --- */

/* Linux queues a real-time signal, or fails; other signals need no place. */
static void expect_eagain(int signo)
{
	handle(signo);
	pthread_t t = start_sleeper();

	fill_queue();
	for (int i = 0; i < 100; i++)
		CHECK_EQ(pthread_kill(t, signo), EAGAIN);
	empty_queue();
	CHECK_EQ(pthread_kill(t, signo), 0);
	thread_await(&ran, 1);
	end_sleeper(t);
	CHECK_EQ(ran, 1);
}

POSIX_TEST(kill_of_real_time_signal_with_a_full_queue_is_eagain)
{
	expect_eagain(SIGRTMIN + 2);
}

POSIX_TEST(kill_with_a_full_queue_is_eagain)
{
	if (on_green()) {
		expect_eagain(SIGUSR1);
		return;
	}
	handle(SIGUSR1);
	pthread_t t = start_sleeper();

	fill_queue();
	CHECK_EQ(pthread_kill(t, SIGUSR1), 0);
	thread_await(&ran, 1);
	empty_queue();
	end_sleeper(t);
}

/* A call that succeeds beside others that fail: all handlers run that were promised. */
POSIX_TEST(kill_while_the_queue_fills_and_empties_loses_no_signal)
{
	enum { TIMES = 500 };
	int sent = 0;

	handle(SIGUSR1);
	pthread_t t = start_sleeper();

	for (int i = 0; i < TIMES; i++) {
		if (i % 2)
			fill_queue();
		int err = pthread_kill(t, SIGUSR1);

		if (i % 2)
			empty_queue();
		CHECK(err == 0 || err == EAGAIN);
		sent += !err;
		thread_await(&ran, sent);
	}
	CHECK(sent >= TIMES / 2);
	join_sleeper(t); /* a late note without siginfo may run the handler elsewhere */
	CHECK(ran >= sent);
}

/* --- raise, kill --- */

/* Counts from the handler runs before the call. */
static void expect_raise_runs(void)
{
	int before = ran;

	CHECK_EQ(raise(SIGUSR1), 0);
	CHECK(ran > before);
}

static void *raise_with_a_full_queue(void *arg)
{
	sigset_t pending;

	fill_queue();
	for (int i = 0; i < 100; i++)
		expect_raise_runs();
	mask(SIG_BLOCK, SIGUSR1);
	CHECK_EQ(raise(SIGUSR1), 0);
	CHECK_EQ(sigpending(&pending), 0);
	CHECK(sigismember(&pending, SIGUSR1));
	int before = ran;

	mask(SIG_UNBLOCK, SIGUSR1);
	CHECK(ran > before);
	empty_queue();
	return arg;
}

POSIX_TEST(raise_with_a_full_queue_runs_the_handler)
{
	pthread_t t;

	handle(SIGUSR1);
	raise_with_a_full_queue(NULL);
	CHECK_EQ(pthread_create(&t, NULL, raise_with_a_full_queue, NULL), 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
}

static void *send_to_process(void *arg)
{
	for (int i = 1; i <= 100; i++) {
		CHECK_EQ(kill(getpid(), SIGUSR1), 0);
		thread_await(&ran, i);
	}
	return arg;
}

POSIX_TEST(kill_of_process_with_a_full_queue_runs_the_handler)
{
	pthread_t t;

	handle(SIGUSR1);
	fill_queue();
	send_to_process(NULL);
	ran = 0;
	CHECK_EQ(pthread_create(&t, NULL, send_to_process, NULL), 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK_EQ(ran, 100);
	empty_queue();
}
