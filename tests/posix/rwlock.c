/* SPDX-License-Identifier: MIT */
/* Tests read-write locks. */
#define _GNU_SOURCE
#include "threads.h"

enum { SECOND = 1000 };

struct data {
	pthread_rwlock_t rw;
	long a, b;
	int arrived, inside, done, rounds;
};

static int rdlock(struct data *d, int by)
{
	struct timespec real = time_in(CLOCK_REALTIME, 100 * SECOND);
	struct timespec mono = time_in(CLOCK_MONOTONIC, 100 * SECOND);

	switch (by % 3) {
	case 0: return pthread_rwlock_rdlock(&d->rw);
	case 1: return pthread_rwlock_timedrdlock(&d->rw, &real);
	default: return pthread_rwlock_clockrdlock(&d->rw, CLOCK_MONOTONIC, &mono);
	}
}

static int wrlock(struct data *d, int by)
{
	struct timespec real = time_in(CLOCK_REALTIME, 100 * SECOND);
	struct timespec mono = time_in(CLOCK_MONOTONIC, 100 * SECOND);

	switch (by % 3) {
	case 0: return pthread_rwlock_wrlock(&d->rw);
	case 1: return pthread_rwlock_timedwrlock(&d->rw, &real);
	default: return pthread_rwlock_clockwrlock(&d->rw, CLOCK_MONOTONIC, &mono);
	}
}

static void read_and_write(void *arg)
{
	struct data *d = arg;

	for (int i = 0; i < d->rounds; i++) {
		if (i % 4 == 0) {
			CHECK_EQ(wrlock(d, i / 4), 0);
			d->a++;
			if (i % 16 == 0)
				thread_pass();
			d->b++;
		} else {
			CHECK_EQ(rdlock(d, i), 0);
			CHECK_EQ(d->a, d->b);
			if (i % 7 == 0)
				thread_pass();
			CHECK_EQ(d->a, d->b);
		}
		CHECK_EQ(pthread_rwlock_unlock(&d->rw), 0);
	}
}

static void run_mix(const pthread_rwlock_t *rw, bool outside)
{
	struct data d = { .rw = *rw, .rounds = 400 };
	struct thread t[8];

	for (int i = 0; i < 8; i++)
		(outside && i % 2 ? thread_outside : thread_start)(&t[i], read_and_write, &d);
	for (int i = 0; i < 8; i++)
		thread_end(&t[i]);
	CHECK_EQ(d.a, 8 * 100);
	CHECK_EQ(d.b, 8 * 100);
	CHECK_EQ(pthread_rwlock_trywrlock(&d.rw), 0);
	CHECK_EQ(pthread_rwlock_unlock(&d.rw), 0);
	CHECK_EQ(pthread_rwlock_destroy(&d.rw), 0);
}

static pthread_rwlock_t lock_with(int kind, int shared)
{
	pthread_rwlockattr_t a;
	pthread_rwlock_t rw;

	CHECK_EQ(pthread_rwlockattr_init(&a), 0);
	CHECK_EQ(pthread_rwlockattr_setkind_np(&a, kind), 0);
	CHECK_EQ(pthread_rwlockattr_setpshared(&a, shared), 0);
	CHECK_EQ(pthread_rwlock_init(&rw, &a), 0);
	CHECK_EQ(pthread_rwlockattr_destroy(&a), 0);
	return rw;
}

POSIX_TEST(rwlock_writer_excludes_all)
{
	static const pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;

	run_mix(&rw, false);
}

POSIX_TEST(rwlock_of_green_and_os_threads_excludes)
{
	static const pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;

	run_mix(&rw, true);
}

POSIX_TEST(rwlock_that_prefers_writers_excludes)
{
	pthread_rwlock_t rw = lock_with(PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP, 0);

	run_mix(&rw, true);
}

POSIX_TEST(rwlock_process_shared_excludes)
{
	pthread_rwlock_t rw = lock_with(PTHREAD_RWLOCK_PREFER_READER_NP, PTHREAD_PROCESS_SHARED);

	run_mix(&rw, false);
}

/* --- sharing and preference --- */

static void read_once(void *arg)
{
	struct data *d = arg;

	thread_count(&d->arrived);
	CHECK_EQ(pthread_rwlock_rdlock(&d->rw), 0);
	thread_count(&d->inside);
	thread_await(&d->done, 1);
	CHECK_EQ(pthread_rwlock_unlock(&d->rw), 0);
}

static void write_once(void *arg)
{
	struct data *d = arg;

	thread_count(&d->arrived);
	CHECK_EQ(pthread_rwlock_wrlock(&d->rw), 0);
	d->a++;
	CHECK_EQ(pthread_rwlock_unlock(&d->rw), 0);
}

/* Each reader stays inside until all are. */
POSIX_TEST(rwlock_readers_share)
{
	struct data d = { .rw = PTHREAD_RWLOCK_INITIALIZER };
	struct thread t[5];

	for (int i = 0; i < 5; i++)
		thread_start(&t[i], read_once, &d);
	thread_await(&d.inside, 5);
	CHECK_EQ(pthread_rwlock_tryrdlock(&d.rw), 0);
	CHECK_EQ(pthread_rwlock_trywrlock(&d.rw), EBUSY);
	CHECK_EQ(pthread_rwlock_unlock(&d.rw), 0);
	thread_count(&d.done);
	for (int i = 0; i < 5; i++)
		thread_end(&t[i]);
}

/* Default kind: a reader locks again although a writer waits. */
POSIX_TEST(rwlock_reader_may_lock_again)
{
	struct data d = { .rw = PTHREAD_RWLOCK_INITIALIZER };
	struct thread t;

	CHECK_EQ(pthread_rwlock_rdlock(&d.rw), 0);
	thread_start(&t, write_once, &d);
	thread_await(&d.arrived, 1);
	for (int i = 0; i < 20; i++) {
		thread_pass();
		CHECK_EQ(pthread_rwlock_rdlock(&d.rw), 0);
	}
	for (int i = 0; i < 21; i++)
		CHECK_EQ(pthread_rwlock_unlock(&d.rw), 0);
	thread_end(&t);
	CHECK_EQ(d.a, 1);
}

/* A parked writer of this kind keeps new readers out, until it gives up. */
static void write_timed(void *arg)
{
	struct data *d = arg;

	do {
		struct timespec t = time_in(CLOCK_MONOTONIC, 20);

		CHECK_EQ(pthread_rwlock_clockwrlock(&d->rw, CLOCK_MONOTONIC, &t), ETIMEDOUT);
	} while (!__atomic_load_n(&d->arrived, __ATOMIC_ACQUIRE));
	thread_count(&d->done);
}

POSIX_TEST(rwlock_waiting_writer_keeps_readers_out_until_it_times_out)
{
	struct data d = { .rw = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP };
	struct thread t, reader;

	CHECK_EQ(pthread_rwlock_rdlock(&d.rw), 0);
	thread_start(&t, write_timed, &d);
	while (pthread_rwlock_tryrdlock(&d.rw) == 0) {
		CHECK_EQ(pthread_rwlock_unlock(&d.rw), 0);
		thread_pass();
	}
	thread_start(&reader, read_once, &d); /* counts in arrived */
	thread_await(&d.inside, 1);
	thread_end(&t);
	thread_end(&reader);
	CHECK_EQ(pthread_rwlock_unlock(&d.rw), 0);
	CHECK_EQ(pthread_rwlock_trywrlock(&d.rw), 0);
}

static void park_many(void)
{
	struct data d = { .rw = PTHREAD_RWLOCK_INITIALIZER, .done = 1 };
	struct thread t[100];

	CHECK_EQ(pthread_rwlock_wrlock(&d.rw), 0);
	for (int i = 0; i < 100; i++)
		thread_start(&t[i], i % 2 ? read_once : write_once, &d);
	thread_await(&d.arrived, 100);
	CHECK_EQ(d.inside + d.a, 0);
	CHECK_EQ(pthread_rwlock_unlock(&d.rw), 0);
	for (int i = 0; i < 100; i++)
		thread_end(&t[i]);
	CHECK_EQ(d.inside, 50);
	CHECK_EQ(d.a, 50);
}

/* If a waiter blocked the only P, the owner would never unlock. */
TEST(rwlock_waiters_park)
{
	thread_run(1, park_many);
}

/* --- results --- */

POSIX_TEST(rwlock_owner_gets_edeadlk)
{
	pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
	struct timespec real = time_in(CLOCK_REALTIME, 100 * SECOND);
	struct timespec mono = time_in(CLOCK_MONOTONIC, 100 * SECOND);

	CHECK_EQ(pthread_rwlock_wrlock(&rw), 0);
	thread_pass();
	CHECK_EQ(pthread_rwlock_rdlock(&rw), EDEADLK);
	CHECK_EQ(pthread_rwlock_wrlock(&rw), EDEADLK);
	CHECK_EQ(pthread_rwlock_timedrdlock(&rw, &real), EDEADLK);
	CHECK_EQ(pthread_rwlock_timedwrlock(&rw, &real), EDEADLK);
	CHECK_EQ(pthread_rwlock_clockrdlock(&rw, CLOCK_MONOTONIC, &mono), EDEADLK);
	CHECK_EQ(pthread_rwlock_clockwrlock(&rw, CLOCK_MONOTONIC, &mono), EDEADLK);
	CHECK_EQ(pthread_rwlock_tryrdlock(&rw), EBUSY);
	CHECK_EQ(pthread_rwlock_trywrlock(&rw), EBUSY);
	CHECK_EQ(pthread_rwlock_unlock(&rw), 0);
	CHECK_EQ(pthread_rwlock_rdlock(&rw), 0);
	CHECK_EQ(pthread_rwlock_unlock(&rw), 0);
}

static void time_out(void *arg)
{
	pthread_rwlock_t *rw = arg;
	struct timespec t = time_in(CLOCK_REALTIME, 20);

	errno = 77;
	CHECK_EQ(pthread_rwlock_timedrdlock(rw, &t), ETIMEDOUT);
	CHECK(time_is_past(CLOCK_REALTIME, &t));
	t = time_in(CLOCK_REALTIME, 20);
	CHECK_EQ(pthread_rwlock_timedwrlock(rw, &t), ETIMEDOUT);
	CHECK(time_is_past(CLOCK_REALTIME, &t));
	t = time_in(CLOCK_MONOTONIC, 20);
	CHECK_EQ(pthread_rwlock_clockrdlock(rw, CLOCK_MONOTONIC, &t), ETIMEDOUT);
	CHECK(time_is_past(CLOCK_MONOTONIC, &t));
	t = time_in(CLOCK_MONOTONIC, 20);
	CHECK_EQ(pthread_rwlock_clockwrlock(rw, CLOCK_MONOTONIC, &t), ETIMEDOUT);
	CHECK(time_is_past(CLOCK_MONOTONIC, &t));
	CHECK_EQ(errno, 77);
}

POSIX_TEST(rwlock_held_times_out)
{
	pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
	struct thread t;

	CHECK_EQ(pthread_rwlock_wrlock(&rw), 0);
	thread_start(&t, time_out, &rw);
	thread_end(&t);
	thread_outside(&t, time_out, &rw);
	thread_end(&t);
	CHECK_EQ(pthread_rwlock_unlock(&rw), 0);
}

POSIX_TEST(rwlock_bad_time_or_clock_is_einval)
{
	static const struct timespec bad[] = { { 1, -1 }, { 1, 1000000000 } };
	struct timespec t = time_in(CLOCK_REALTIME, 20);
	pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;

	for (int i = 0; i < 2; i++) {
		CHECK_EQ(pthread_rwlock_timedrdlock(&rw, &bad[i]), EINVAL);
		CHECK_EQ(pthread_rwlock_timedwrlock(&rw, &bad[i]), EINVAL);
		CHECK_EQ(pthread_rwlock_clockrdlock(&rw, CLOCK_REALTIME, &bad[i]), EINVAL);
		CHECK_EQ(pthread_rwlock_clockwrlock(&rw, CLOCK_REALTIME, &bad[i]), EINVAL);
	}
	CHECK_EQ(pthread_rwlock_clockrdlock(&rw, CLOCK_THREAD_CPUTIME_ID, &t), EINVAL);
	CHECK_EQ(pthread_rwlock_clockwrlock(&rw, CLOCK_THREAD_CPUTIME_ID, &t), EINVAL);
	CHECK_EQ(pthread_rwlock_trywrlock(&rw), 0);
	CHECK_EQ(pthread_rwlock_unlock(&rw), 0);
}

static void cancel_writer(void)
{
	struct data d = { .rw = PTHREAD_RWLOCK_INITIALIZER };
	gmp_g *g;

	CHECK_EQ(pthread_rwlock_wrlock(&d.rw), 0);
	CHECK_EQ(gmp_spawn(&g, write_once, &d, NULL), 0);
	thread_await(&d.arrived, 1);
	CHECK_EQ(gmp_cancel(g), 0);
	for (int i = 0; i < 10; i++)
		gmp_yield();
	CHECK_EQ(d.a, 0);
	CHECK_EQ(pthread_rwlock_unlock(&d.rw), 0);
	CHECK_EQ(gmp_join(g), 0);
	CHECK_EQ(d.a, 1);
}

TEST_PROCS(rwlock_is_no_cancellation_point)
{
	thread_run(procs, cancel_writer);
}

/* Green threads without own thread-locals wait as blocking code. */
static void mix_kinds(void *arg)
{
	gmp_attr own = GMP_ATTR_INIT;
	gmp_g *g[6];

	own.flags = GMP_OWN_TLS;
	for (int i = 0; i < 6; i++) {
		int err = gmp_spawn(&g[i], read_and_write, arg, i % 2 ? &own : NULL);

		if (err == -ENOTSUP)
			check_skip("no own thread-locals on this machine");
		CHECK_EQ(err, 0);
	}
	for (int i = 0; i < 6; i++)
		CHECK_EQ(gmp_join(g[i]), 0);
}

TEST_PROCS(rwlock_of_both_kinds_of_green_threads_excludes)
{
	struct data d = { .rw = PTHREAD_RWLOCK_INITIALIZER, .rounds = 40 };

	run_procs(procs, mix_kinds, &d);
	CHECK_EQ(d.a, 6 * 10);
}

/* Green threads that are OS threads. */
static void hold_until_done(void *arg)
{
	struct data *d = arg;

	CHECK_EQ(pthread_rwlock_wrlock(&d->rw), 0);
	__atomic_store_n(&d->inside, 1, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&d->done, __ATOMIC_SEQ_CST))
		CHECK_EQ(gmp_sleep(1000000), 0);
	CHECK_EQ(pthread_rwlock_unlock(&d->rw), 0);
}

static void time_out_beside_holder(void *arg)
{
	struct data *d = arg;
	gmp_g *g;

	CHECK_EQ(gmp_spawn(&g, hold_until_done, d, NULL), 0);
	while (!__atomic_load_n(&d->inside, __ATOMIC_SEQ_CST))
		CHECK_EQ(gmp_sleep(1000000), 0);
	struct timespec soon = time_in(CLOCK_REALTIME, 20);

	CHECK_EQ(pthread_rwlock_timedwrlock(&d->rw, &soon), ETIMEDOUT);
	CHECK_EQ(pthread_rwlock_timedrdlock(&d->rw, &soon), ETIMEDOUT);
	__atomic_store_n(&d->done, 1, __ATOMIC_SEQ_CST);
	CHECK_EQ(gmp_join(g), 0);
}

TEST(rwlock_times_out_if_green_threads_are_os_threads)
{
	struct data d = { .rw = PTHREAD_RWLOCK_INITIALIZER };
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.sched = GMP_SCHED_THREAD;
	int err = gmp_run(time_out_beside_holder, &d, &cfg);

	if (err == -ENOTSUP)
		check_skip("not with GMP_DEBUG=chaos");
	CHECK_EQ(err, 0);
}
