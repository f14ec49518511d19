/* SPDX-License-Identifier: MIT */
/* Tests gmp_once_do_until: timeout, cancellation, races with the end of fn, and shutdown. */
#include "util.h"

static gmp_once o;
static gmp_wg gate;
static atomic_int runs;
static int value; /* not atomic: published by the once */

static void set(UNUSED void *arg)
{
	atomic_fetch_add(&runs, 1);
	CHECK_EQ(gmp_wg_wait(&gate), 0);
	value = 42;
}

static void run_it(UNUSED void *arg)
{
	CHECK_EQ(gmp_once_do_until(&o, set, NULL, GMP_FOREVER), 0);
	CHECK_EQ(value, 42);
}

static void never(UNUSED void *arg)
{
	CHECK(!"fn ran a second time");
}

static void time_out(UNUSED void *arg)
{
	int64_t deadline = gmp_deadline(2 * MS);

	CHECK_EQ(gmp_once_do_until(&o, never, NULL, deadline), -ETIMEDOUT);
	CHECK(gmp_now() >= deadline);
	CHECK_EQ(gmp_once_do_until(&o, never, NULL, 0), -ETIMEDOUT);
	CHECK_EQ(gmp_once_do_until(&o, never, NULL, INT64_MIN), -ETIMEDOUT);
}

static void wait_for_it(UNUSED void *arg)
{
	CHECK_EQ(gmp_once_do_until(&o, never, NULL, gmp_deadline(PATIENCE)), 0);
	CHECK_EQ(value, 42);
}

static void reset_once(void)
{
	o = (gmp_once)GMP_ONCE_INIT;
	gate = (gmp_wg)GMP_WG_INIT;
	gmp_wg_add(&gate, 1);
	atomic_store(&runs, 0);
	value = 0;
}

static void count(UNUSED void *arg)
{
	atomic_fetch_add(&runs, 1);
}

static void try_new(UNUSED void *arg)
{
	gmp_once once = GMP_ONCE_INIT;

	atomic_store(&runs, 0);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(gmp_once_do_until(&once, count, NULL, 0), 0);
	CHECK_EQ(gmp_once_do(&once, count, NULL), 0);
	CHECK_EQ(atomic_load(&runs), 1);
}

TEST(once_past_deadline_without_runtime_runs_fn)
{
	try_new(NULL);
}

RT(once_past_deadline_runs_fn)
{
	struct ext_thread f;

	try_new(NULL);
	ext_thread_start(&f, try_new, NULL);
	ext_thread_join(&f);
}

static void check_timeout(struct ext_thread *f)
{
	WAIT_FOR(atomic_load(&runs) == 1);
	time_out(NULL);
	ext_thread_start(f, time_out, NULL);
	ext_thread_join(f);
	ext_thread_start(f, wait_for_it, NULL);
	gmp_sleep(MS);
	gmp_wg_done(&gate);
	wait_for_it(NULL);
	ext_thread_join(f);
	CHECK_EQ(gmp_once_do_until(&o, never, NULL, 0), 0); /* done beats a past deadline */
	CHECK_EQ(atomic_load(&runs), 1);
}

TEST(once_timeout_without_runtime_leaves_fn_running)
{
	struct ext_thread f, runner;

	reset_once();
	ext_thread_start(&runner, run_it, NULL);
	check_timeout(&f);
	CHECK_EQ(pthread_join(runner.thread, NULL), 0);
}

RT(once_timeout_leaves_fn_running)
{
	struct ext_thread f;

	reset_once();
	gmp_g *g = spawn(run_it, NULL), *h;

	WAIT_FOR(atomic_load(&runs) == 1);
	h = spawn(wait_for_it, NULL); /* later callers time out behind it */
	wait_parked(2);
	check_timeout(&f);
	join(g);
	join(h);
}

static void wait_cancelled(UNUSED void *arg)
{
	CHECK_EQ(gmp_once_do_until(&o, never, NULL, GMP_FOREVER), -ECANCELED);
	CHECK_EQ(gmp_once_do_until(&o, never, NULL, 0), -ECANCELED);
	CHECK_EQ(gmp_once_do_until(&o, never, NULL, gmp_deadline(PATIENCE)), -ECANCELED);
	CHECK_EQ(gmp_cancel_mask(1), 0);
	CHECK_EQ(gmp_once_do_until(&o, never, NULL, gmp_deadline(MS)), -ETIMEDOUT);
	CHECK_EQ(gmp_cancel_mask(0), 0);
}

RT(once_cancelled_beats_timed_out)
{
	reset_once();
	gmp_g *g = spawn(run_it, NULL), *h;

	WAIT_FOR(atomic_load(&runs) == 1);
	h = spawn(wait_cancelled, NULL);
	wait_parked(2);
	CHECK_EQ(gmp_cancel(h), 0);
	join(h);
	CHECK_EQ(gmp_once_do_until(&o, never, NULL, gmp_deadline(MS)), -ETIMEDOUT);
	gmp_wg_done(&gate);
	join(g);
	CHECK_EQ(atomic_load(&runs), 1);
}

/* Deadlines that pass while fn returns. */
enum { RACERS = 6 };

static void take_a_moment(void *ns)
{
	gmp_sleep(*(int64_t *)ns);
	value = 42;
}

static int64_t moment;

static void race(void *arg)
{
	int64_t ns = ((intptr_t)arg * 11 + moment / 1000) % 80 * US;
	int r = gmp_once_do_until(&o, take_a_moment, &moment, gmp_deadline(ns));

	CHECK(r == 0 || r == -ETIMEDOUT);
	if (r == 0)
		CHECK_EQ(value, 42);
	CHECK_EQ(gmp_once_do(&o, never, NULL), 0); /* fn ends, whichever caller ran it */
	CHECK_EQ(value, 42);
}

RT(once_deadline_racing_end_of_fn_sees_value_or_times_out)
{
	for (int i = 0; i < 40; i++) {
		o = (gmp_once)GMP_ONCE_INIT;
		value = 0;
		moment = i % 20 * 5 * US;
		run_crowd(race, i % 5 == 0, RACERS);
	}
}

static gmp_once kept;
static struct ext_thread outside;
static atomic_int waits;

static void sleep_on(UNUSED void *arg)
{
	gmp_sleep_until(GMP_FOREVER);
	CHECK(!"a green thread that was killed at shutdown ran on");
}

static void run_kept(UNUSED void *arg)
{
	gmp_once_do_until(&kept, sleep_on, NULL, GMP_FOREVER);
	CHECK(!"a green thread that was killed at shutdown ran on");
}

static void wait_outside(UNUSED void *arg)
{
	atomic_store(&waits, 1);
	CHECK_EQ(gmp_once_do_until(&kept, never, NULL, gmp_deadline(50 * MS)), -ETIMEDOUT);
}

static void leave_running_fn(UNUSED void *arg)
{
	for (int i = 0; i < 3; i++)
		CHECK_EQ(gmp_go(run_kept, NULL), 0);
	wait_parked(3);
	ext_thread_start(&outside, wait_outside, NULL);
	WAIT_FOR(atomic_load(&waits));
}

TEST_PROCS(once_shutdown_in_fn_lets_waiters_time_out)
{
	kept = (gmp_once)GMP_ONCE_INIT;
	run_procs(procs, leave_running_fn, NULL);
	CHECK_EQ(pthread_join(outside.thread, NULL), 0);
	CHECK_EQ(gmp_once_do_until(&kept, never, NULL, gmp_deadline(MS)), -ETIMEDOUT);
}
