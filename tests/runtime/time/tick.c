/* SPDX-License-Identifier: MIT */
/* Tests gmp_tick: arrival times, values, slow readers, free and shutdown. */
#include "chan/chan_util.h"

static int64_t recv_tick(gmp_chan *c)
{
	int64_t v = -1;

	CHECK_EQ(gmp_chan_recv(c, &v), 0);
	CHECK(gmp_now() >= v);
	return v;
}

static gmp_chan *tick(int64_t first, int64_t period)
{
	gmp_chan *c = gmp_tick_new(first, period);

	CHECK(c != NULL);
	return c;
}

static gmp_chan *far_tick(void)
{
	return tick(gmp_deadline(3600 * SEC), SEC);
}

/* --- when, and what --- */

RT(tick_is_channel_with_capacity_1)
{
	gmp_chan *c = far_tick();
	int64_t v = 7;

	CHECK_EQ(gmp_chan_cap(c), 1);
	CHECK_EQ(gmp_chan_len(c), 0);
	CHECK_EQ(gmp_chan_try_recv(c, &v), -EAGAIN);
	CHECK_EQ(v, 7);
	CHECK_EQ(gmp_chan_recv_until(c, &v, gmp_deadline(MS)), -ETIMEDOUT);
	CHECK_EQ(v, 7);
	gmp_tick_free(c);
}

static void read_ticks(UNUSED void *arg)
{
	int64_t first = gmp_deadline(5 * MS), period = 2 * MS, last = first - period;
	gmp_chan *c = tick(first, period);

	for (int i = 0; i < 20; i++) {
		int64_t v = recv_tick(c);

		CHECK(v > last);
		CHECK_EQ((v - first) % period, 0);
		last = v;
	}
	/* 20 ticks, none of them before its time */
	CHECK(last >= first + 19 * period);
	gmp_tick_free(c);
}

RT(tick_arrives_each_period_and_carries_its_time)
{
	struct ext_thread f;

	read_ticks(NULL);
	ext_thread_start(&f, read_ticks, NULL);
	read_ticks(NULL);
	ext_thread_join(&f);
}

RT(tick_first_is_absolute_deadline)
{
	for (int i = 0; i < 10; i++) {
		int64_t first = gmp_deadline(i * MS);
		gmp_chan *c = tick(first, 3600 * SEC);

		CHECK_EQ(recv_tick(c), first);
		CHECK_EQ(gmp_chan_recv_until(c, NULL, gmp_deadline(2 * MS)), -ETIMEDOUT);
		gmp_tick_free(c);
	}
}

RT(tick_first_in_past_is_due_at_once_and_keeps_phase)
{
	static const int64_t past[] = { 0, 1, -1, -1000000007, INT64_MIN, INT64_MIN + 1 };
	int64_t period = 3 * MS;

	for (int i = 0; i < 7; i++) {
		int64_t first = i < 6 ? past[i] : gmp_now() - 10 * period - 5, last = INT64_MIN;
		gmp_chan *c = tick(first, period);

		for (int k = 0; k < 5; k++) {
			int64_t v = recv_tick(c);

			CHECK(k == 0 || v > last);
			CHECK(gmp_now() - v < 10 * SEC || SANITIZED);
			CHECK_EQ(((uint64_t)v - (uint64_t)first) % (uint64_t)period, 0);
			last = v;
		}
		gmp_tick_free(c);
	}
}

RT(tick_period_0_ticks_once)
{
	static const int64_t past[] = { 0, -1, INT64_MIN };

	for (int i = 0; i < 5; i++) {
		int64_t first = i < 3 ? past[i] : gmp_deadline((i - 3) * 2 * MS);
		gmp_chan *c = tick(first, 0);

		CHECK_EQ(recv_tick(c), first);
		CHECK_EQ(gmp_chan_recv_until(c, NULL, gmp_deadline(5 * MS)), -ETIMEDOUT);
		CHECK_EQ(stats().timers, 0);
		gmp_tick_free(c);
	}
}

RT(tick_negative_period_returns_null)
{
	CHECK(gmp_tick_new(gmp_deadline(MS), -1) == NULL);
	CHECK(gmp_tick_new(gmp_deadline(MS), INT64_MIN) == NULL);
	CHECK(gmp_tick_new(0, -SEC) == NULL);
	CHECK(gmp_tick_new(GMP_FOREVER, -1) == NULL);
	CHECK_EQ(stats().timers, 0);
}

RT(tick_first_forever_never_ticks)
{
	for (int64_t period = 0; period <= MS; period += MS) {
		gmp_chan *c = tick(GMP_FOREVER, period);

		CHECK_EQ(gmp_chan_recv_until(c, NULL, gmp_deadline(10 * MS)), -ETIMEDOUT);
		CHECK_EQ(gmp_chan_len(c), 0);
		CHECK_EQ(stats().timers, 0);
		gmp_tick_free(c);
	}
}

RT(tick_huge_period_does_not_overflow)
{
	static const int64_t first[] = { INT64_MIN, -1, 0, 1 };

	for (int i = 0; i < 4; i++) {
		gmp_chan *c = tick(first[i], INT64_MAX);
		int64_t v = recv_tick(c);

		CHECK(v == first[i] || v == first[i] + INT64_MAX);
		CHECK_EQ(gmp_chan_recv_until(c, NULL, gmp_deadline(5 * MS)), -ETIMEDOUT);
		gmp_tick_free(c);
	}
}

RT(tick_beyond_clock_end_is_not_armed)
{
	gmp_chan *c = tick(gmp_deadline(MS), INT64_MAX);
	int64_t limit = gmp_deadline(20 * SEC);

	recv_tick(c);
	while (stats().timers > 0) {
		CHECK(gmp_now() < limit);
		gmp_yield();
	}
	gmp_tick_free(c);
}

RT(tick_period_1_ns_does_not_starve_others)
{
	gmp_chan *c = tick(0, 1);
	int64_t last = -1;

	for (int i = 0; i < 1000; i++) {
		int64_t v = recv_tick(c);

		CHECK(v > last);
		last = v;
		if (i % 10 == 0)
			gmp_yield();
	}
	gmp_tick_free(c);
}

/* --- readers --- */

static void read_slowly(UNUSED void *arg)
{
	int64_t period = MS;
	gmp_chan *c = tick(gmp_deadline(period), period);

	for (int i = 0; i < 4; i++) {
		int64_t begun = gmp_now(); /* a period before the next */

		CHECK_EQ(gmp_sleep(20 * period + period / 2), 0);
		/* the first tick; later ticks found the buffer full */
		CHECK_EQ(recv_tick(c), begun + period);
		CHECK_EQ(recv_tick(c), begun + 21 * period);
	}
	gmp_tick_free(c);
}

/* In virtual time no tick is late, however slow the machine is. */
TEST_PROCS(tick_slow_reader_loses_ticks_and_keeps_phase)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.procs = procs;
	cfg.flags = GMP_VIRTUAL_TIME;
	CHECK_EQ(gmp_run(read_slowly, NULL, &cfg), 0);
}

static void compute(UNUSED void *arg)
{
	int64_t until = gmp_now() + 3 * MS / 2;

	while (gmp_now() < until)
		;
}

/* Ticks of several periods may become runnable before any of them runs. */
RT(tick_late_is_not_delivered_twice)
{
	int64_t first = gmp_deadline(MS), last = 0;
	gmp_chan *c = tick(first, MS);

	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 6; i++)
			CHECK_EQ(gmp_go(compute, NULL), 0);
		for (int i = 0; i < 15; i++) {
			int64_t v = recv_tick(c);

			CHECK(v > last);
			CHECK_EQ((v - first) % MS, 0);
			last = v;
		}
	}
	gmp_tick_free(c);
	WAIT_FOR(stats().greens == 1);
}

static gmp_chan *shared;
static _Atomic int64_t latest;
static atomic_int taken;

static void share(UNUSED void *arg)
{
	while (atomic_load(&taken) < 60) {
		int64_t v, before = INT64_MIN;

		if (gmp_chan_recv_until(shared, &v, gmp_deadline(3 * MS)) != 0)
			continue;
		/* each tick is received by one reader only */
		CHECK(v > before);
		before = v;
		CHECK(atomic_exchange(&latest, v) != v);
		atomic_fetch_add(&taken, 1);
	}
}

RT(tick_is_shared_by_green_and_external_readers)
{
	struct ext_thread f[2];
	gmp_g *g[3];

	shared = tick(0, 500 * US);
	for (int i = 0; i < 2; i++)
		ext_thread_start(&f[i], share, NULL);
	for (int i = 0; i < 3; i++)
		g[i] = spawn(share, NULL);
	for (int i = 0; i < 3; i++)
		join(g[i]);
	for (int i = 0; i < 2; i++)
		ext_thread_join(&f[i]);
	gmp_tick_free(shared);
}

static void wait_for_ticks_alone(UNUSED void *arg)
{
	gmp_chan *c = tick(gmp_deadline(30 * MS), 0);

	CHECK_EQ(gmp_chan_recv(c, NULL), 0);
	gmp_tick_free(c);
	c = tick(gmp_deadline(30 * MS), 30 * MS);
	CHECK_EQ(gmp_chan_recv(c, NULL), 0);
	CHECK_EQ(gmp_chan_recv(c, NULL), 0);
	gmp_tick_free(c);
}

/* The only G waits for a tick, and no external thread exists. */
TEST_PROCS(tick_armed_is_no_deadlock)
{
	run_procs(procs, wait_for_ticks_alone, NULL);
}

/* --- free and shutdown --- */

RT(tick_free_disarms)
{
	for (int i = 0; i < 500; i++) {
		gmp_chan *c = tick(gmp_deadline(i % 20 * 10 * US), i % 2 ? 10 * US : 0);

		for (int k = i % 5; k > 0; k--)
			gmp_yield();
		if (i % 3 == 0)
			CHECK(gmp_chan_recv(c, NULL) == 0);
		gmp_tick_free(c);
	}
	CHECK_EQ(stats().timers, 0);
	WAIT_FOR(stats().greens == 1);
	gmp_tick_free(NULL);
}

static void make_and_free(UNUSED void *arg)
{
	for (int i = 0; i < 200; i++) {
		gmp_chan *c = tick(gmp_now(), 20 * US);

		if (i % 2)
			recv_tick(c);
		gmp_tick_free(c);
	}
}

RT(tick_new_and_free_from_many_threads_work)
{
	struct ext_thread f[2];
	gmp_g *g[3];

	for (int i = 0; i < 2; i++)
		ext_thread_start(&f[i], make_and_free, NULL);
	for (int i = 0; i < 3; i++)
		g[i] = spawn(make_and_free, NULL);
	for (int i = 0; i < 3; i++)
		join(g[i]);
	for (int i = 0; i < 2; i++)
		ext_thread_join(&f[i]);
	CHECK_EQ(stats().timers, 0);
}

RT(tick_free_after_recv_until_works)
{
	for (int i = 0; i < 300; i++) {
		gmp_chan *c = tick(gmp_deadline(30 * US), 0);
		int err = gmp_chan_recv_until(c, NULL, gmp_deadline(i % 60 * US));

		gmp_tick_free(c);
		CHECK(err == 0 || err == -ETIMEDOUT);
	}
}

RT(tick_closed_gives_buffered_tick_then_epipe)
{
	gmp_chan *c = tick(0, MS);
	int64_t v = 7;

	WAIT_FOR(gmp_chan_len(c) == 1);
	CHECK_EQ(gmp_chan_close(c), 0);
	CHECK_EQ(gmp_chan_recv(c, &v), 0);
	CHECK_EQ(gmp_chan_recv(c, &v), -EPIPE);
	CHECK_EQ(v, 0);
	gmp_sleep(5 * MS);
	CHECK_EQ(gmp_chan_len(c), 0);
	gmp_tick_free(c);
}

TEST(tick_new_without_runtime_returns_null)
{
	CHECK(gmp_tick_new(gmp_now(), MS) == NULL);
	CHECK(gmp_tick_new(GMP_FOREVER, 0) == NULL);
	gmp_tick_free(NULL);
}

static void leave_ticks(UNUSED void *arg)
{
	shared = tick(0, 100 * US);
	WAIT_FOR(gmp_chan_len(shared) == 1);
}

static void check_no_tick(UNUSED void *arg)
{
	int64_t v = 7;

	CHECK_EQ(gmp_chan_try_recv(shared, &v), -EAGAIN);
	gmp_sleep(3 * MS);
	CHECK_EQ(gmp_chan_len(shared), 0);
	CHECK_EQ(gmp_chan_recv(shared, &v), -ESRCH);
	CHECK_EQ(gmp_chan_recv_until(shared, &v, gmp_deadline(3600 * SEC)), -ESRCH);
	CHECK_EQ(gmp_chan_recv_until(shared, &v, 0), -ETIMEDOUT);
	CHECK_EQ(v, 7);
}

/* A buffered tick stays readable; a wait for the next returns -ESRCH. */
TEST_PROCS(tick_recv_after_run_ended_returns_esrch)
{
	for (int i = 0; i < 20; i++) {
		run_procs(procs, leave_ticks, NULL);
		CHECK_EQ(gmp_chan_len(shared), 1);
		CHECK_EQ(gmp_chan_recv(shared, NULL), 0);
		check_no_tick(NULL);
		if (i % 2)
			run_procs(procs, check_no_tick, NULL);
		gmp_tick_free(shared);
	}
}

static struct peer reader;
static int64_t read_value;

static void leave_reader(UNUSED void *arg)
{
	shared = far_tick();
	peer_kind = EXTERNAL;
	read_value = 7;
	start_recv(&reader, shared, &read_value,
		   arg == NULL ? GMP_FOREVER : gmp_deadline(3600 * SEC));
	until_waiting(&reader, 1);
}

TEST_PROCS(tick_waiter_on_external_thread_gets_esrch_at_shutdown)
{
	for (int i = 0; i < 20; i++) {
		run_procs(procs, leave_reader, i % 2 ? &reader : NULL);
		CHECK_EQ(finish(&reader), -ESRCH);
		CHECK_EQ(read_value, 7);
		gmp_tick_free(shared);
	}
}

static void read_until_shutdown(UNUSED void *arg)
{
	int err;

	while ((err = gmp_chan_recv(shared, NULL)) == 0)
		;
	CHECK_EQ(err, -ESRCH);
}

static struct ext_thread busy_reader;

static void leave_busy_reader(UNUSED void *arg)
{
	shared = tick(0, 10 * US);
	ext_thread_start(&busy_reader, read_until_shutdown, NULL);
	for (int i = 0; i < 20; i++)
		gmp_yield();
}

TEST_PROCS(tick_reader_on_external_thread_gets_esrch_at_shutdown)
{
	for (int i = 0; i < (SLOW ? 30 : 150); i++) {
		run_procs(procs, leave_busy_reader, NULL);
		CHECK_EQ(pthread_join(busy_reader.thread, NULL), 0);
		gmp_tick_free(shared);
	}
}
