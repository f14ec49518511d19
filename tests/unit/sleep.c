/* SPDX-License-Identifier: MIT */
/*
 * Tests the firing of a gmp_timer step by step: its next deadline, and the functions that it
 * starts.
 *
 * floors 0..6
 */
#define _GNU_SOURCE 1
#include "check.h"

#include "park.h"
#include "rt.h"
#include "timer/timerheap.h"

enum { PERIOD = 10 };

static int64_t first; /* an hour away: only fire() reaches it */
static int runs;

static void count(void *arg)
{
	(void)arg;
	runs++;
}

/* Run the timers at the time now, and then the started G.  One yield may not be enough: a G that
 * has yielded runs first if its lane has credit (PICK-4). */
static void fire(int64_t now)
{
	struct glist out = { 0 };
	int before = runs;

	CHECK_EQ(timers_run(getp(), now, &out), 1);
	ready_list(&out);
	while (runs == before)
		gmp_yield();
	CHECK_EQ(runs, before + 1);
}

static gmp_timer *begin(int64_t period)
{
	gmp_timer *t = gmp_timer_new(count, NULL);

	CHECK(t != NULL);
	first = gmp_now() + INT64_C(3600000000000);
	runs = 0;
	CHECK_EQ(gmp_timer_set(t, first, period), 0);
	CHECK_EQ(timers_next(getp()), first);
	return t;
}

static void fire_late(void *arg)
{
	gmp_timer *t = begin(PERIOD);

	(void)arg;
	fire(first + 3);
	CHECK_EQ(timers_next(getp()), first + PERIOD);
	fire(first + 3 * PERIOD + 9);
	CHECK_EQ(timers_next(getp()), first + 4 * PERIOD);
	fire(first + 4 * PERIOD);
	CHECK_EQ(timers_next(getp()), first + 5 * PERIOD);
	CHECK_EQ(runs, 3);
	gmp_timer_free(t);
	CHECK_EQ(timers_next(getp()), NEVER);
}

TEST(timer_late_run_keeps_phase_and_skips_missed_periods)
{
	run_procs(1, fire_late, NULL);
}

static void fire_once(void *arg)
{
	gmp_timer *t = begin(0);

	(void)arg;
	fire(first + 3);
	CHECK_EQ(timers_next(getp()), NEVER);
	CHECK_EQ(runs, 1);
	gmp_timer_free(t);
}

TEST(timer_without_period_fires_once)
{
	run_procs(1, fire_once, NULL);
}

static void fire_at_clock_end(void *arg)
{
	gmp_timer *t = begin(PERIOD);

	(void)arg;
	CHECK_EQ(gmp_timer_set(t, first, NEVER - first), 1);
	fire(first);
	CHECK_EQ(timers_next(getp()), NEVER);
	CHECK_EQ(gmp_timer_set(t, first, NEVER - 1 - first), 0);
	fire(first);
	CHECK_EQ(timers_next(getp()), NEVER - 1);
	fire(NEVER - 1);
	CHECK_EQ(timers_next(getp()), NEVER);
	CHECK_EQ(gmp_timer_stop(t), 0);
	CHECK_EQ(runs, 3);
	gmp_timer_free(t);
}

TEST(timer_period_beyond_clock_range_disarms)
{
	run_procs(1, fire_at_clock_end, NULL);
}
