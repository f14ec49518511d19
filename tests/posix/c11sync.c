/* SPDX-License-Identifier: MIT */
/* Tests mutexes, condition variables and once of C11. */
#define _GNU_SOURCE
#include <threads.h>

#include "threads.h"

enum { SECOND = 1000 };

static struct {
	mtx_t m;
	cnd_t c;
	once_flag flag;
	long n;
	int waiting, permits, arrived, calls;
} s;

static void set_up(int type)
{
	memset(&s, 0, sizeof(s));
	s.flag = (once_flag)ONCE_FLAG_INIT;
	CHECK_EQ(mtx_init(&s.m, type), thrd_success);
	CHECK_EQ(cnd_init(&s.c), thrd_success);
}

static void run_threads(int n, void (*fn)(void *), bool outside)
{
	struct thread t[100];

	for (int i = 0; i < n; i++)
		(outside && i % 2 ? thread_outside : thread_start)(&t[i], fn, NULL);
	for (int i = 0; i < n; i++)
		thread_end(&t[i]);
}

static void add(void *arg)
{
	(void)arg;
	for (int i = 0; i < 300; i++) {
		struct timespec t = time_in(CLOCK_REALTIME, 100 * SECOND);

		if (i % 2)
			CHECK_EQ(mtx_lock(&s.m), thrd_success);
		else
			CHECK_EQ(mtx_timedlock(&s.m, &t), thrd_success);
		s.n++;
		if (i % 16 == 0)
			thread_pass();
		CHECK_EQ(mtx_unlock(&s.m), thrd_success);
	}
}

POSIX_TEST(mtx_excludes)
{
	set_up(mtx_timed);
	run_threads(6, add, false);
	CHECK_EQ(s.n, 6 * 300);
	mtx_destroy(&s.m);
}

POSIX_TEST(mtx_of_green_and_os_threads_excludes)
{
	set_up(mtx_timed);
	run_threads(6, add, true);
	CHECK_EQ(s.n, 6 * 300);
}

static void time_out(void *arg)
{
	struct timespec t = time_in(CLOCK_REALTIME, 20), bad = { 1, 1000000000 };

	(void)arg;
	CHECK_EQ(mtx_timedlock(&s.m, &t), thrd_timedout);
	CHECK(time_is_past(CLOCK_REALTIME, &t));
	CHECK_EQ(mtx_timedlock(&s.m, &bad), thrd_error);
	CHECK_EQ(mtx_trylock(&s.m), thrd_busy);
}

POSIX_TEST(mtx_held_times_out)
{
	set_up(mtx_timed);
	CHECK_EQ(mtx_lock(&s.m), thrd_success);
	run_threads(2, time_out, false);
	CHECK_EQ(mtx_unlock(&s.m), thrd_success);
}

POSIX_TEST(mtx_recursive_counts)
{
	struct timespec t = time_in(CLOCK_REALTIME, 100 * SECOND);

	set_up(mtx_recursive | mtx_timed);
	CHECK_EQ(mtx_lock(&s.m), thrd_success);
	CHECK_EQ(mtx_lock(&s.m), thrd_success);
	CHECK_EQ(mtx_timedlock(&s.m, &t), thrd_success);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(mtx_unlock(&s.m), thrd_success);
	CHECK_EQ(mtx_unlock(&s.m), thrd_error);
}

static void lock_once(void *arg)
{
	struct timespec t = time_in(CLOCK_REALTIME, 100 * SECOND);

	(void)arg;
	thread_count(&s.arrived);
	CHECK_EQ(s.arrived % 2 ? mtx_lock(&s.m) : mtx_timedlock(&s.m, &t), thrd_success);
	s.n++;
	CHECK_EQ(mtx_unlock(&s.m), thrd_success);
}

static void unlock_for_many(void *arg)
{
	(void)arg;
	thread_await(&s.arrived, 50);
	CHECK_EQ(s.n, 0);
	CHECK_EQ(mtx_unlock(&s.m), thrd_success);
}

static void park_for_mtx(void)
{
	struct thread t;

	set_up(mtx_timed);
	CHECK_EQ(mtx_lock(&s.m), thrd_success);
	thread_start(&t, unlock_for_many, NULL);
	run_threads(50, lock_once, false);
	thread_end(&t);
	CHECK_EQ(s.n, 50);
}

TEST(mtx_lock_parks_the_green_thread)
{
	thread_run(1, park_for_mtx);
}

/* --- condition variables --- */

static void take(void *arg)
{
	struct timespec t = time_in(CLOCK_REALTIME, 100 * SECOND);

	(void)arg;
	CHECK_EQ(mtx_lock(&s.m), thrd_success);
	bool timed = s.waiting++ % 2;

	while (s.permits == 0)
		CHECK_EQ(timed ? cnd_timedwait(&s.c, &s.m, &t) : cnd_wait(&s.c, &s.m),
			 thrd_success);
	s.permits--;
	s.n++;
	CHECK_EQ(mtx_unlock(&s.m), thrd_success);
}

static void lock_when_waiting(int n)
{
	for (;;) {
		CHECK_EQ(mtx_lock(&s.m), thrd_success);
		if (s.waiting == n)
			return;
		CHECK_EQ(mtx_unlock(&s.m), thrd_success);
		thread_pass();
	}
}

static void broadcast(void *n)
{
	lock_when_waiting(*(int *)n);
	s.permits = *(int *)n;
	CHECK_EQ(cnd_broadcast(&s.c), thrd_success);
	CHECK_EQ(mtx_unlock(&s.m), thrd_success);
}

static void signal_each(void *n)
{
	lock_when_waiting(*(int *)n);
	for (int i = 0; i < *(int *)n; i++) {
		s.permits++;
		CHECK_EQ(cnd_signal(&s.c), thrd_success);
	}
	CHECK_EQ(mtx_unlock(&s.m), thrd_success);
}

static void run_takers(int n, void (*wake)(void *), bool outside)
{
	struct thread t;

	set_up(mtx_plain);
	thread_start(&t, wake, &n);
	run_threads(n, take, outside);
	thread_end(&t);
	CHECK_EQ(s.n, n);
	cnd_destroy(&s.c);
}

POSIX_TEST(cnd_broadcast_wakes_all)
{
	run_takers(10, broadcast, false);
}

POSIX_TEST(cnd_signal_wakes_one_each)
{
	run_takers(10, signal_each, false);
}

POSIX_TEST(cnd_wakes_green_and_os_threads)
{
	run_takers(10, broadcast, true);
	run_takers(10, signal_each, true);
}

static void park_for_cnd(void)
{
	run_takers(60, broadcast, false);
	run_takers(60, signal_each, false);
}

TEST(cnd_wait_parks_the_green_thread)
{
	thread_run(1, park_for_cnd);
}

POSIX_TEST(cnd_timedwait_times_out_with_the_mutex)
{
	struct timespec t = time_in(CLOCK_REALTIME, 20), bad = { 1, -1 };

	set_up(mtx_plain);
	CHECK_EQ(cnd_signal(&s.c), thrd_success);
	CHECK_EQ(cnd_broadcast(&s.c), thrd_success);
	CHECK_EQ(mtx_lock(&s.m), thrd_success);
	CHECK_EQ(cnd_timedwait(&s.c, &s.m, &t), thrd_timedout);
	CHECK(time_is_past(CLOCK_REALTIME, &t));
	CHECK_EQ(mtx_trylock(&s.m), thrd_busy);
	CHECK_EQ(cnd_timedwait(&s.c, &s.m, &bad), thrd_error);
	CHECK_EQ(mtx_unlock(&s.m), thrd_success);
}

/* --- once --- */

static void init(void)
{
	thread_await(&s.arrived, 8);
	s.calls++;
}

static void call(void *arg)
{
	(void)arg;
	thread_count(&s.arrived);
	call_once(&s.flag, init);
	CHECK_EQ(s.calls, 1);
}

POSIX_TEST(call_once_runs_once_and_all_wait)
{
	set_up(mtx_plain);
	run_threads(8, call, false);
	CHECK_EQ(s.calls, 1);
}

POSIX_TEST(call_once_of_green_and_os_threads_runs_once)
{
	set_up(mtx_plain);
	run_threads(8, call, true);
	CHECK_EQ(s.calls, 1);
}

static void once_on_one_p(void)
{
	set_up(mtx_plain);
	run_threads(8, call, false);
	CHECK_EQ(s.calls, 1);
}

/* The function waits until all have called: a waiter that blocked the P would stop it. */
TEST(call_once_waiters_park)
{
	thread_run(1, once_on_one_p);
}
