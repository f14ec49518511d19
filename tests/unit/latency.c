/* SPDX-License-Identifier: MIT */
/*
 * Tests the latency histogram's buckets, and what sysmon records of a P that does not switch. Its
 * cases compare times: each needs a CPU.
 */
#define _GNU_SOURCE 1
#include "check.h"

#include "observe/latency.h"

static struct p pp;
static struct g g;

static void begin(void)
{
	sched.start_now = os_now();
	sched.start_ticks = cpu_ticks();
	pp.timers.next = NEVER;
	pp.watched.since = NEVER;
	pp.sample_in = 1;
	pp.status = P_RUNNING;
}

TEST(latency_bucket_bound_is_at_most_a_quarter_above)
{
	for (uint64_t t = 0; t < UINT64_C(1) << 43; t += t / 7 + 1) {
		unsigned b = latency_bucket(t);

		CHECK(b < LATENCY_BUCKETS);
		CHECK(latency_bound(b) >= t);
		CHECK(latency_bound(b) <= t + t / 4);
		CHECK(b == 0 || latency_bound(b - 1) < t);
	}
	CHECK_EQ(latency_bucket(UINT64_MAX), LATENCY_BUCKETS - 1);
}

TEST(latency_draw_samples_one_in_64)
{
	int drawn = 0;

	begin();
	for (int i = 0; i < 640000; i++) {
		if (!latency_draw(&pp))
			continue;
		drawn++;
		latency_sample(&pp, &g, GMP_LATENCY_YIELD);
		CHECK(g.resume & RESUME_MEASURED);
		latency_record(&pp, &g);
		CHECK(!(g.resume & RESUME_MEASURED));
	}
	CHECK(drawn > 640000 / 96 && drawn < 640000 / 33);
	CHECK_EQ(pp.latency[GMP_LATENCY_YIELD].samples, drawn);
}

TEST(latency_of_a_timer_counts_from_its_deadline)
{
	begin();
	while (os_now() < sched.start_now + MS)
		;
	g.ready_at = (uint64_t)(os_now() - 500 * MS);
	latency_stamp(&g, GMP_LATENCY_TIMER, false);
	latency_record(&pp, &g);
	double ns_per_tick =
		(double)(os_now() - sched.start_now) / (double)(cpu_ticks() - sched.start_ticks);

	CHECK((double)pp.latency[GMP_LATENCY_TIMER].max * ns_per_tick > 400.0 * MS);
	CHECK((double)pp.latency[GMP_LATENCY_TIMER].max * ns_per_tick < 2000.0 * MS);
}

TEST(latency_run_without_a_switch_is_noted)
{
	begin();
	latency_watch(&pp, 100 * MS);
	CHECK_EQ(sched.longest.run, 0);
	latency_note_running(&pp, 103 * MS);
	CHECK_EQ(sched.longest.run, 3 * MS);
	latency_watch(&pp, 110 * MS);
	CHECK_EQ(sched.longest.run, 10 * MS);
	pp.count.switches++;
	latency_note_running(&pp, 112 * MS);
	latency_watch(&pp, 120 * MS);
	CHECK_EQ(sched.longest.run, 10 * MS);
	latency_note_running(&pp, 125 * MS);
	CHECK_EQ(sched.longest.run, 10 * MS);
}

/* A run that ends between two checks of sysmon. */
TEST(latency_longest_run_never_falls)
{
	begin();
	latency_watch(&pp, 100 * MS);
	latency_note_running(&pp, 109 * MS);
	CHECK_EQ(sched.longest.run, 9 * MS);
	pp.count.switches++;
	latency_note_running(&pp, 110 * MS);
	CHECK_EQ(sched.longest.run, 9 * MS);
	latency_watch(&pp, 110 * MS);
	CHECK_EQ(sched.longest.run, 9 * MS);
}

TEST(latency_idle_p_has_no_run)
{
	begin();
	latency_watch(&pp, 100 * MS);
	pp.status = P_IDLE;
	latency_note_running(&pp, 200 * MS);
	CHECK_EQ(sched.longest.run, 0);
	latency_watch(&pp, 200 * MS);
	latency_watch(&pp, 300 * MS);
	CHECK_EQ(sched.longest.run, 0);
	pp.status = P_RUNNING;
	latency_watch(&pp, 310 * MS);
	CHECK_EQ(sched.longest.run, 0);
	latency_watch(&pp, 320 * MS);
	CHECK_EQ(sched.longest.run, 10 * MS);
}

TEST(latency_head_of_queue_that_stays_is_noted)
{
	begin();
	latency_watch(&pp, 100 * MS);
	pp.ring[LANE_NEW][0] = &g;
	pp.tail[LANE_NEW] = 1;
	latency_watch(&pp, 110 * MS); /* from here on it is known to be queued */
	CHECK_EQ(sched.longest.queued, 0);
	latency_watch(&pp, 130 * MS);
	CHECK_EQ(sched.longest.queued, 20 * MS);
	pp.head[LANE_NEW] = 1; /* a thief took it */
	latency_watch(&pp, 170 * MS);
	CHECK_EQ(sched.longest.queued, 20 * MS);
	pp.runnext = &g;
	latency_watch(&pp, 180 * MS);
	latency_watch(&pp, 220 * MS);
	CHECK_EQ(sched.longest.queued, 40 * MS);
}
