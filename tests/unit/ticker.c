/* SPDX-License-Identifier: MIT */
/*
 * Tests the firing of a tick step by step: the value sent, the next deadline, and the Gs made
 * runnable. Its cases compare times: each needs a CPU.
 *
 * floors 0..6
 */
#define _GNU_SOURCE 1
#include "check.h"

#include "chan.h"
#include "rt.h"
#include "timer/timerheap.h"

enum { PERIOD = 10 };
static const int64_t HOUR = 3600 * INT64_C(1000) * MS;

static int64_t first; /* far enough away: only fire() reaches it */
static gmp_chan *c;

static void begin(void)
{
	first = gmp_now() + HOUR;
	c = gmp_tick_new(first, PERIOD);
	CHECK(c != NULL);
}

/* Run the timers at the time now; returns the number of Gs made runnable. */
static int fire(int64_t now)
{
	struct glist out = { 0 };

	CHECK_EQ(timers_run(getp(), now, &out), 1);
	int n = out.n;

	ready_list(&out);
	return n;
}

static void expect_tick(int64_t at)
{
	int64_t v = 0;

	CHECK_EQ(gmp_chan_try_recv(c, &v), 0);
	CHECK_EQ(v, at);
}

static void fire_late(void *arg)
{
	(void)arg;
	begin();
	CHECK_EQ(timers_next(getp()), first);
	CHECK_EQ(fire(first + 3), 0);
	CHECK_EQ(timers_next(getp()), first + PERIOD);
	expect_tick(first);
	/*
	 * three periods have passed: the tick has the time of the last, and the next is one period
	 * later
	 */
	CHECK_EQ(fire(first + 3 * PERIOD + 9), 0);
	expect_tick(first + 3 * PERIOD);
	CHECK_EQ(timers_next(getp()), first + 4 * PERIOD);
	gmp_tick_free(c);
	CHECK_EQ(timers_next(getp()), NEVER);
}

TEST(tick_late_has_time_of_last_period_and_keeps_phase)
{
	run_procs(1, fire_late, NULL);
}

static void fire_unread(void *arg)
{
	(void)arg;
	begin();
	fire(first);
	fire(first + PERIOD);
	expect_tick(first);
	CHECK_EQ(gmp_chan_len(c), 0);
	fire(first + 2 * PERIOD);
	expect_tick(first + 2 * PERIOD);
	gmp_tick_free(c);
}

TEST(tick_to_full_channel_is_lost)
{
	run_procs(1, fire_unread, NULL);
}

static void fire_locked(void *arg)
{
	(void)arg;
	begin();
	CHECK(try_lock_against(&c->lock, LR_CHAN)); /* as a caller that is about to park holds it */
	CHECK_EQ(fire(first), 0);
	unlock(&c->lock, LR_CHAN);
	CHECK_EQ(gmp_chan_len(c), 0);
	CHECK(timers_next(getp()) > first);
	CHECK(timers_next(getp()) <= first + MS);
	int64_t again = timers_next(getp()), periods = (again - first) / PERIOD;

	fire(again);
	expect_tick(first + periods * PERIOD);
	CHECK_EQ(timers_next(getp()), first + (periods + 1) * PERIOD);
	gmp_tick_free(c);
}

TEST(tick_with_locked_channel_is_retried)
{
	run_procs(1, fire_locked, NULL);
}

static int64_t received;

static void receive_tick(void *arg)
{
	(void)arg;
	CHECK_EQ(gmp_chan_recv(c, &received), 0);
}

static void fire_for_reader(void *arg)
{
	gmp_g *reader;

	(void)arg;
	begin();
	CHECK_EQ(gmp_spawn(&reader, receive_tick, NULL, NULL), 0);
	gmp_yield(); /* until the reader waits */
	CHECK_EQ(fire(first), 1);
	CHECK_EQ(received, first); /* without a switch to another G */
	CHECK_EQ(gmp_join(reader), 0);
	gmp_tick_free(c);
}

TEST(tick_readies_waiting_reader_only)
{
	run_procs(1, fire_for_reader, NULL);
}

static void fire_at_clock_end(void *arg)
{
	(void)arg;
	first = gmp_now() + HOUR;
	c = gmp_tick_new(first, NEVER - first);
	CHECK(c != NULL);
	fire(first);
	expect_tick(first);
	CHECK_EQ(timers_next(getp()), NEVER);
	gmp_tick_free(c);
	c = gmp_tick_new(first, NEVER - 1 - first);
	CHECK(c != NULL);
	fire(first);
	expect_tick(first);
	CHECK_EQ(timers_next(getp()), NEVER - 1);
	fire(NEVER - 1);
	expect_tick(NEVER - 1);
	CHECK_EQ(timers_next(getp()), NEVER);
	gmp_tick_free(c);
}

TEST(tick_period_beyond_clock_range_disarms)
{
	run_procs(1, fire_at_clock_end, NULL);
}
