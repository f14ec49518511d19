/* SPDX-License-Identifier: MIT */
/* Tests gmp_barrier_wait_until: timeouts, cancellation and shutdown take the arrival back. */
#include "util.h"

static int arrived_at(const gmp_barrier *b)
{
	return (int)__atomic_load_n(&b->arrived, __ATOMIC_RELAXED);
}

struct arrival {
	gmp_barrier *b;
	int64_t deadline;
	int result;
};

static void arrive(void *arg)
{
	struct arrival *a = arg;

	a->result = gmp_barrier_wait_until(a->b, a->deadline);
}

static void try_alone(UNUSED void *arg)
{
	gmp_barrier two = GMP_BARRIER_INIT(2), one = GMP_BARRIER_INIT(1);
	int64_t past[] = { 0, INT64_MIN, gmp_now() - 1 };

	for (int i = 0; i < 3; i++) {
		CHECK_EQ(gmp_barrier_wait_until(&two, past[i]), -ETIMEDOUT);
		CHECK_EQ(arrived_at(&two), 0);
		CHECK_EQ(gmp_barrier_wait_until(&one, past[i]), 1);
	}
}

TEST(barrier_past_deadline_without_runtime_is_a_try)
{
	try_alone(NULL);
}

RT(barrier_past_deadline_is_a_try)
{
	gmp_barrier two = GMP_BARRIER_INIT(2);
	struct ext_thread f;

	try_alone(NULL);
	ext_thread_start(&f, try_alone, NULL);
	ext_thread_join(&f);
	struct arrival a = { &two, GMP_FOREVER, -1 };
	gmp_g *g = spawn(arrive, &a);

	wait_parked(1);
	CHECK_EQ(gmp_barrier_wait_until(&two, 0), 1); /* the last arrival need not wait */
	join(g);
	CHECK_EQ(a.result, 0);
	CHECK_EQ(arrived_at(&two), 0);
}

static void time_out(void *b)
{
	int64_t deadline = gmp_deadline(2 * MS);

	CHECK_EQ(gmp_barrier_wait_until(b, deadline), -ETIMEDOUT);
	CHECK(gmp_now() >= deadline);
}

TEST(barrier_timeout_without_runtime_takes_arrival_back)
{
	gmp_barrier two = GMP_BARRIER_INIT(2);
	struct arrival a = { &two, gmp_deadline(PATIENCE), -1 };
	struct ext_thread f;

	time_out(&two);
	CHECK_EQ(arrived_at(&two), 0);
	ext_thread_start(&f, arrive, &a);
	WAIT_FOR(arrived_at(&two) == 1);
	CHECK_EQ(gmp_barrier_wait(&two), 1);
	CHECK_EQ(pthread_join(f.thread, NULL), 0);
	CHECK_EQ(a.result, 0);
}

RT(barrier_timeout_takes_arrival_back)
{
	gmp_barrier three = GMP_BARRIER_INIT(3);
	struct arrival a[2] = { { &three, GMP_FOREVER, -1 }, { &three, GMP_FOREVER, -1 } };
	struct ext_thread f;
	gmp_g *g = spawn(arrive, &a[0]);

	wait_parked(1);
	time_out(&three);
	ext_thread_start(&f, time_out, &three);
	ext_thread_join(&f);
	CHECK_EQ(arrived_at(&three), 1);
	ext_thread_start(&f, arrive, &a[1]);
	WAIT_FOR(arrived_at(&three) == 2);
	CHECK_EQ(gmp_barrier_wait_until(&three, gmp_deadline(PATIENCE)), 1);
	join(g);
	ext_thread_join(&f);
	CHECK_EQ(a[0].result, 0);
	CHECK_EQ(a[1].result, 0);
	CHECK_EQ(arrived_at(&three), 0);
}

static void wait_cancelled(void *b)
{
	CHECK_EQ(gmp_barrier_wait_until(b, GMP_FOREVER), -ECANCELED);
	CHECK_EQ(gmp_barrier_wait_until(b, 0), -ECANCELED);
	CHECK_EQ(gmp_barrier_wait_until(b, gmp_deadline(PATIENCE)), -ECANCELED);
	CHECK_EQ(gmp_cancel_mask(1), 0);
	CHECK_EQ(gmp_barrier_wait_until(b, gmp_deadline(MS)), -ETIMEDOUT);
	CHECK_EQ(gmp_cancel_mask(0), 0);
}

RT(barrier_cancelled_beats_timed_out)
{
	gmp_barrier two = GMP_BARRIER_INIT(2);
	gmp_g *g = spawn(wait_cancelled, &two);

	wait_parked(1);
	CHECK_EQ(gmp_cancel(g), 0);
	join(g);
	CHECK_EQ(arrived_at(&two), 0);
}

/* Race: deadlines expire during the last arrival. Each round that trips has three arrivals. */
static gmp_barrier raced = GMP_BARRIER_INIT(3);
static atomic_int passed, timed_out, rounds;

static void race(void *arg)
{
	for (int i = 0; i < 150; i++) {
		int64_t ns = ((intptr_t)arg * 7 + i * 13) % 60 * US;
		int r = gmp_barrier_wait_until(&raced, gmp_deadline(ns));

		CHECK(r == 0 || r == 1 || r == -ETIMEDOUT);
		atomic_fetch_add(r == -ETIMEDOUT ? &timed_out : &passed, 1);
		atomic_fetch_add(&rounds, r == 1);
	}
}

RT(barrier_deadline_racing_last_arrival_keeps_rounds_whole)
{
	atomic_store(&passed, 0);
	atomic_store(&timed_out, 0);
	atomic_store(&rounds, 0);
	run_crowd(race, 2, 6);
	CHECK_EQ(arrived_at(&raced), 0);
	CHECK_EQ(atomic_load(&passed), 3 * atomic_load(&rounds));
	CHECK_EQ(atomic_load(&passed) + atomic_load(&timed_out), 8 * 150);
}

static gmp_barrier kept = GMP_BARRIER_INIT(3);

static void killed_in_wait(UNUSED void *arg)
{
	gmp_barrier_wait_until(&kept, gmp_deadline(PATIENCE));
	CHECK(!"a green thread that was killed at shutdown ran on");
}

static struct ext_thread external_thread;
static struct arrival external;

static void leave_waiter(UNUSED void *arg)
{
	ext_thread_start(&external_thread, arrive, &external);
	WAIT_FOR(arrived_at(&kept) == 1);
	CHECK_EQ(gmp_go(killed_in_wait, NULL), 0);
	wait_parked(1);
	CHECK_EQ(arrived_at(&kept), 2);
}

TEST_PROCS(barrier_shutdown_during_timed_wait_takes_arrival_back)
{
	struct arrival late = { &kept, gmp_deadline(PATIENCE), -1 };
	struct ext_thread other;

	external = late;
	run_procs(procs, leave_waiter, NULL);
	CHECK_EQ(arrived_at(&kept), 1); /* the external thread still waits */
	ext_thread_start(&other, arrive, &late);
	WAIT_FOR(arrived_at(&kept) == 2);
	CHECK_EQ(gmp_barrier_wait_until(&kept, 0), 1);
	CHECK_EQ(pthread_join(external_thread.thread, NULL), 0);
	CHECK_EQ(pthread_join(other.thread, NULL), 0);
	CHECK_EQ(external.result, 0);
	CHECK_EQ(late.result, 0);
}
