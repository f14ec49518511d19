/* SPDX-License-Identifier: MIT */
/* Tests pthread_cancel, pthread_testcancel, pthread_setcancelstate and pthread_setcanceltype. */
#define _GNU_SOURCE
#include <pthread.h>
#include <time.h>

#include "start.h"

static const struct timespec long_time = { 1000, 0 };

static int handled;

static void note(void *arg)
{
	struct timespec t = { 0, 1000000 };

	CHECK_EQ(nanosleep(&t, NULL), 0); /* a handler may wait */
	handled += arg ? 1 : 10;
}

static void *sleep_long(void *arg)
{
	pthread_cleanup_push(note, NULL);
	pthread_cleanup_push(note, arg);
	nanosleep(&long_time, NULL);
	pthread_cleanup_pop(0);
	pthread_cleanup_pop(0);
	return NULL;
}

POSIX_TEST(cancel_ends_a_wait_and_runs_handlers)
{
	handled = 0;
	pthread_t t = start(sleep_long, &handled);

	gmp_yield();
	CHECK_EQ(pthread_cancel(t), 0);
	CHECK(join(t) == PTHREAD_CANCELED);
	CHECK(handled == 11 || handled == 0); /* 0: before its function had begun */
}

static gmp_sem ready_sem, go;

/* Starts fn, cancels the thread when it is ready, and lets it run on. */
static void *cancel_then_go(void *(*fn)(void *), void *arg)
{
	ready_sem = go = (gmp_sem)GMP_SEM_INIT(0);
	pthread_t t = start(fn, arg);

	CHECK_EQ(gmp_sem_acquire(&ready_sem), 0);
	CHECK_EQ(pthread_cancel(t), 0);
	CHECK_EQ(gmp_sem_release(&go, 1), 0);
	return join(t);
}

static void wait_for_go(void)
{
	CHECK_EQ(gmp_sem_release(&ready_sem, 1), 0);
	while (gmp_sem_try_acquire(&go))
		gmp_yield();
}

static void *testcancel(void *arg)
{
	wait_for_go();
	pthread_testcancel();
	return arg;
}

static void *no_cancellation_point(void *arg)
{
	wait_for_go();
	return arg;
}

POSIX_TEST(testcancel_acts_on_a_pending_request)
{
	CHECK(cancel_then_go(testcancel, NULL) == PTHREAD_CANCELED);
}

POSIX_TEST(cancel_is_deferred_to_a_cancellation_point)
{
	CHECK(cancel_then_go(no_cancellation_point, &go) == &go);
}

static void *testcancel_unasked(void *arg)
{
	errno = 5;
	pthread_testcancel();
	CHECK_EQ(errno, 5);
	return arg;
}

POSIX_TEST(testcancel_without_request_returns)
{
	CHECK(join(start(testcancel_unasked, &go)) == &go);
}

static void *disabled(void *arg)
{
	struct timespec t = { 0, 2000000 };
	int old;

	CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old), 0);
	CHECK_EQ(old, PTHREAD_CANCEL_ENABLE);
	wait_for_go();
	pthread_testcancel();
	CHECK_EQ(nanosleep(&t, NULL), 0);
	CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old), 0);
	CHECK_EQ(old, PTHREAD_CANCEL_DISABLE);
	if (arg)
		return arg;
	CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old), 0);
	CHECK_EQ(old, PTHREAD_CANCEL_DISABLE);
	pthread_testcancel();
	return NULL;
}

POSIX_TEST(setcancelstate_disable_defers_a_request)
{
	CHECK(cancel_then_go(disabled, &go) == &go);
}

POSIX_TEST(setcancelstate_enable_acts_on_it_at_the_next_point)
{
	CHECK(cancel_then_go(disabled, NULL) == PTHREAD_CANCELED);
}

static void *bad_values(void *arg)
{
	int old = 77;

	CHECK_EQ(pthread_setcancelstate(77, &old), EINVAL);
	CHECK_EQ(pthread_setcanceltype(77, &old), EINVAL);
	CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL), 0);
	CHECK_EQ(pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &old), 0);
	CHECK_EQ(old, PTHREAD_CANCEL_DEFERRED);
	return arg;
}

POSIX_TEST(setcancel_of_bad_value_is_einval)
{
	bad_values(NULL);
	join(start(bad_values, NULL));
}

static void *async_self(void *arg)
{
	int old;

	CHECK_EQ(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old), 0);
	CHECK_EQ(old, PTHREAD_CANCEL_DEFERRED);
	pthread_cancel(pthread_self());
	return arg;
}

POSIX_TEST(setcanceltype_asynchronous_acts_in_cancel_of_self)
{
	CHECK(join(start(async_self, &go)) == PTHREAD_CANCELED);
}

static void *async_later(void *arg)
{
	wait_for_go();
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	return arg;
}

POSIX_TEST(setcanceltype_asynchronous_acts_on_a_pending_request)
{
	CHECK(cancel_then_go(async_later, &go) == PTHREAD_CANCELED);
}

static void *cancel_self(void *arg)
{
	CHECK_EQ(pthread_cancel(pthread_self()), 0);
	nanosleep(&long_time, NULL);
	return arg;
}

POSIX_TEST(cancel_of_self_acts_at_the_next_point)
{
	CHECK(join(start(cancel_self, NULL)) == PTHREAD_CANCELED);
}

static void *give_back(void *arg)
{
	return arg;
}

POSIX_TEST(cancel_of_ended_thread_returns_0)
{
	for (int i = 0; i < 50; i++) {
		pthread_t t = start(give_back, &go);

		gmp_yield();
		CHECK_EQ(pthread_cancel(t), 0);
		void *value = join(t);

		CHECK(value == &go || value == PTHREAD_CANCELED);
	}
}

static void *join_given(void *t)
{
	CHECK_EQ(gmp_sem_release(&ready_sem, 1), 0);
	pthread_join(*(pthread_t *)t, NULL);
	return NULL;
}

static void *wait_for_permit(void *arg)
{
	CHECK_EQ(gmp_sem_acquire(arg), 0);
	return arg;
}

POSIX_TEST(join_is_a_cancellation_point_and_leaves_its_thread_joinable)
{
	gmp_sem permit = GMP_SEM_INIT(0);
	pthread_t t = start(wait_for_permit, &permit);

	ready_sem = (gmp_sem)GMP_SEM_INIT(0);
	pthread_t joiner = start(join_given, &t);

	CHECK_EQ(gmp_sem_acquire(&ready_sem), 0);
	CHECK_EQ(pthread_cancel(joiner), 0);
	CHECK(join(joiner) == PTHREAD_CANCELED);
	CHECK_EQ(gmp_sem_release(&permit, 1), 0);
	CHECK(join(t) == &permit);
}

/* 100 requests against waits that begin at the same time: none is lost. */
static void *sleep_again(void *arg)
{
	struct timespec t = { 0, 1000 };

	CHECK_EQ(gmp_sem_release(&ready_sem, 1), 0);
	for (;;)
		nanosleep(&t, NULL);
	return arg;
}

POSIX_TEST(cancel_is_not_lost_beside_short_waits)
{
	for (int i = 0; i < 100; i++) {
		ready_sem = (gmp_sem)GMP_SEM_INIT(0);
		pthread_t t = start(sleep_again, NULL);

		CHECK_EQ(gmp_sem_acquire(&ready_sem), 0);
		CHECK_EQ(pthread_cancel(t), 0);
		CHECK(join(t) == PTHREAD_CANCELED);
	}
}

/* --- green threads only --- */

struct sleeper {
	gmp_sem ready;
	int err;
};

static void sleep_green(void *arg)
{
	struct sleeper *s = arg;

	CHECK_EQ(gmp_sem_release(&s->ready, 1), 0);
	errno = 0;
	s->err = nanosleep(&long_time, NULL) ? errno : 0;
}

static void cancel_green(void *arg)
{
	struct sleeper s = { GMP_SEM_INIT(0), 0 };
	gmp_g *g;

	(void)arg;
	CHECK_EQ(gmp_spawn(&g, sleep_green, &s, NULL), 0);
	CHECK_EQ(gmp_sem_acquire(&s.ready), 0);
	CHECK_EQ(gmp_cancel(g), 0);
	CHECK_EQ(gmp_join(g), 0);
	CHECK_EQ(s.err, ECANCELED);
}

TEST_PROCS(gmp_cancel_makes_a_wait_fail_with_ecanceled)
{
	run_configured(procs, 0, GMP_OWN_TLS, cancel_green, NULL);
}

static void *async_enabled_later(void *arg)
{
	CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL), 0);
	CHECK_EQ(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL), 0);
	wait_for_go();
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	return arg;
}

static void enable_green(void *arg)
{
	CHECK(cancel_then_go(async_enabled_later, arg) == PTHREAD_CANCELED);
}

/* glibc 2.36 does not act. */
TEST_PROCS(setcancelstate_enable_of_asynchronous_thread_acts)
{
	run_configured(procs, 0, GMP_OWN_TLS, enable_green, &go);
}
