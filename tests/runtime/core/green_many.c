/* SPDX-License-Identifier: MIT */
/*
 * Tests 100,000 and 1,000,000 green threads at once, and the memory that each of them uses. Each
 * case computes for seconds: it needs a CPU.
 */
#include "green_util.h"

static void tree(void *arg)
{
	intptr_t depth = (intptr_t)arg;
	gmp_g *a, *b;

	atomic_fetch_add(&count, 1);
	if (depth == 0)
		return;
	a = spawn(tree, (void *)(depth - 1));
	b = spawn(tree, (void *)(depth - 1));
	join(a);
	join(b);
}

RT(spawn_tree_is_joined_from_the_leaves_up)
{
	int depth = SLOW ? 9 : 14;

	join(spawn(tree, (void *)(intptr_t)depth));
	CHECK_EQ(atomic_load(&count), (2 << depth) - 1);
}

RT(spawn_100000_green_threads_all_run)
{
	int n = SLOW ? 5000 : 100000;
	gmp_g **g = calloc((size_t)n, sizeof(gmp_g *));

	CHECK(g != NULL);
	for (int i = 0; i < n; i++)
		g[i] = spawn(add_one, NULL);
	for (int i = 0; i < n; i++)
		join(g[i]);
	CHECK_EQ(atomic_load(&count), n);
	CHECK_EQ(stats().greens, 1);
	free(g);
}

static long footprint_kb(void)
{
	return rss_kb() + proc_kb("/proc/self/status", "VmPTE");
}

static void park_many(int n)
{
	atomic_store(&count, 0);
	gmp_wg_add(&gate, 1);
	for (int i = 0; i < n; i++)
		CHECK_EQ(gmp_go(wait_gate, NULL), 0);
	wait_parked((uint64_t)n);
}

static void release_many(int n)
{
	gmp_wg_done(&gate);
	WAIT_FOR(atomic_load(&count) == n && stats().greens == 1);
}

/* Memory of the global queue, which stays: 32 bytes for each G of 65,536 that were in it, since the
 * G that spawns them all may lose its P. */
enum { QUEUE_KB = 2048 };

RT(parked_100000_green_threads_use_at_most_5000_bytes_each)
{
	int n = SLOW ? 2000 : 100000;
	long before = footprint_kb(), after;

	park_many(n);
	after = footprint_kb();
	if (!SLOW)
		CHECK((after - before - QUEUE_KB) * 1024 / n <= 5000);
	release_many(n);
	/* A second wave reuses the memory of the first. */
	park_many(n);
	if (!SLOW)
		CHECK(footprint_kb() <= after + after / 10);
	release_many(n);
}

RT(parked_million_green_threads_work_at_system_defaults)
{
	int n = 1000000;
	long before = footprint_kb();

	if (SLOW || procs == 2)
		check_skip("too slow in this build, or covered at 1 and 4 Ps");
	if (proc_kb("/proc/meminfo", "MemAvailable") < (8L << 20))
		check_skip("less than 8 GiB of memory");
	park_many(n);
	CHECK((footprint_kb() - before) * 1024 / n <= 5000);
	release_many(n);
}

static void spawn_without_running(UNUSED void *arg)
{
	int n = (int)check_scaled(100000);
	long before = rss_kb();
	uint64_t used = stats().stacks_used;

	for (int i = 0; i < n; i++)
		CHECK_EQ(gmp_go(add_one, NULL), 0);
	CHECK_EQ(stats().stacks_used, used);
	if (!SLOW)
		CHECK((rss_kb() - before) * 1024 / n <= 1000);
	WAIT_FOR(atomic_load(&count) == n);
}

TEST(green_thread_that_has_not_run_has_no_stack)
{
	run_cooperative(1, spawn_without_running, NULL);
}
