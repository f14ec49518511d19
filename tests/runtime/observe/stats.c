/* SPDX-License-Identifier: MIT */
/* Tests that gmp_stats_get fills in figures that agree with what the program did. */
#include "util.h"

static gmp_wg gate;
static atomic_int count;

static void wait_gate(UNUSED void *arg)
{
	gmp_wg_wait(&gate);
}

static void nothing(UNUSED void *arg)
{
	atomic_fetch_add(&count, 1);
}

RT(stats_bad_arguments_return_einval)
{
	gmp_stats s = GMP_STATS_INIT;

	CHECK_EQ(gmp_stats_get(NULL), -EINVAL);
	s.size = 0;
	CHECK_EQ(gmp_stats_get(&s), -EINVAL);
}

RT(stats_smaller_struct_is_filled_up_to_its_size)
{
	union {
		gmp_stats s;
		unsigned char bytes[sizeof(gmp_stats)];
	} u;
	size_t size = offsetof(gmp_stats, spawns);

	memset(u.bytes, 0xa5, sizeof(u.bytes));
	u.s.size = size;
	CHECK_EQ(gmp_stats_get(&u.s), 0);
	CHECK_EQ(u.s.size, size);
	CHECK_EQ(u.s.procs, procs);
	for (size_t i = size; i < sizeof(u.bytes); i++)
		CHECK_EQ(u.bytes[i], 0xa5);
}

RT(stats_at_start_count_entry_alone)
{
	gmp_stats s = stats();

	CHECK_EQ(s.size, sizeof(s));
	CHECK_EQ(s.greens, 1);
	CHECK_EQ(s.greens_running, 1);
	CHECK_EQ(s.greens_waiting, 0);
	CHECK_EQ(s.procs, procs);
	CHECK(s.threads >= 1);
	CHECK(s.procs_idle < (uint64_t)procs);
	CHECK(s.spawns <= 1);
	CHECK_EQ(s.exits, 0);
	CHECK_EQ(s.timers, 0);
	CHECK_EQ(s.descriptors, 0);
	CHECK_EQ(s.stacks_used, 1);
	CHECK(s.stack_bytes > 0);
	CHECK(s.switches >= 1);
}

static gmp_g *spawn_at_gate(size_t stack_size)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g;

	a.stack_size = stack_size;
	CHECK_EQ(gmp_spawn(&g, wait_gate, NULL, &a), 0);
	return g;
}

RT(stats_stack_bytes_count_each_stack_size)
{
	static const size_t sizes[] = { 0, 1 << 20, 64 << 10, 0, 100 << 10, 1 << 20 };
	uint64_t one = stats().stack_bytes;
	gmp_g *g[6];

	CHECK_EQ(stats().stacks_used, 1);
	for (int round = 0; round < 2; round++) {
		gmp_wg_add(&gate, 1);
		for (int i = 0; i < 6; i++)
			g[i] = spawn_at_gate(sizes[i]);
		wait_parked(6);
		CHECK_EQ(stats().stacks_used, 7);
		CHECK_EQ(stats().stack_bytes, 3 * one + (2 << 20) + (64 << 10) + (128 << 10));
		gmp_wg_done(&gate);
		for (int i = 0; i < 6; i++)
			join(g[i]);
		WAIT_FOR(stats().stack_bytes == one);
	}
}

RT(stats_gauges_follow_greens_timers_and_fds)
{
	gmp_timer *t;
	gmp_g *g[20];
	int l;

	gmp_wg_add(&gate, 1);
	for (int i = 0; i < 20; i++)
		g[i] = spawn(wait_gate, NULL);
	wait_parked(20);
	CHECK_EQ(stats().greens, 21);
	CHECK_EQ(stats().stacks_used, 21);
	t = gmp_timer_new(nothing, NULL);
	gmp_timer_set(t, gmp_deadline(3600 * SEC), 0);
	CHECK_EQ(stats().timers, 1);
	gmp_timer_free(t);
	CHECK_EQ(stats().timers, 0);
	l = gmp_listen("tcp", "127.0.0.1:0");
	CHECK(l >= 0);
	CHECK_EQ(stats().descriptors, 1);
	CHECK_EQ(gmp_close(l), 0);
	CHECK_EQ(stats().descriptors, 0);
	gmp_wg_done(&gate);
	for (int i = 0; i < 20; i++)
		join(g[i]);
	WAIT_FOR(stats().greens == 1);
	CHECK_EQ(stats().greens_waiting, 0);
}

RT(stats_counters_count_spawns_exits_and_switches)
{
	gmp_stats before = stats(), after;

	for (int i = 0; i < 1000; i++)
		CHECK_EQ(gmp_go(nothing, NULL), 0);
	WAIT_FOR(atomic_load(&count) == 1000 && stats().greens == 1);
	after = stats();
	CHECK_EQ(after.spawns - before.spawns, 1000);
	CHECK_EQ(after.exits - before.exits, 1000);
	CHECK(after.switches - before.switches >= 1000);
	for (int i = 0; i < 500; i++)
		gmp_sleep(20 * US);
	CHECK(stats().timers_fired > after.timers_fired);
	CHECK(stats().switches > after.switches);
}

RT(stats_latency_quantiles_are_ordered)
{
	int n = (int)check_scaled(20000);
	gmp_stats s;

	for (int i = 0; i < n; i++) {
		CHECK_EQ(gmp_go(nothing, NULL), 0);
		gmp_yield();
	}
	s = stats();
	CHECK(s.latency_samples > 0);
	CHECK(s.latency_p50 <= s.latency_p90);
	CHECK(s.latency_p90 <= s.latency_p99);
	CHECK(s.latency_p99 > 0);
}

static void see_stats(UNUSED void *arg)
{
	gmp_stats s = stats();

	CHECK_EQ(s.greens, 1);
	atomic_fetch_add(&count, 1);
}

RT(stats_from_external_thread_work)
{
	struct ext_thread f;

	ext_thread_start(&f, see_stats, NULL);
	ext_thread_join(&f);
	CHECK_EQ(atomic_load(&count), 1);
}

TEST_PROCS(stats_start_afresh_in_each_run)
{
	for (int i = 0; i < 3; i++)
		run_procs(procs, see_stats, NULL);
	CHECK_EQ(atomic_load(&count), 3);
}
