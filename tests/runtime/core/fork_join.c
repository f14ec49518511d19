/* SPDX-License-Identifier: MIT */
/*
 * Tests trees of green threads that fork and join: they run depth first, and are fair to other Gs.
 */
#define _GNU_SOURCE 1
#include "util.h"

#include <stdbool.h>

enum { N = SANITIZED ? 14 : 20, RESULT = SANITIZED ? 377 : 6765 };

struct call {
	int n;
	int64_t result;
};

static atomic_int begun, most_begun;

/* Fibonacci numbers, a green thread for every second call. */
static void fib(void *arg)
{
	struct call *self = arg;

	if (self->n < 2) {
		self->result = self->n;
		return;
	}
	struct call a = { .n = self->n - 1 }, b = { .n = self->n - 2 };
	gmp_g *g = spawn(fib, &a);

	fib(&b);
	join(g);
	self->result = a.result + b.result;
}

static void count_and_fib(void *arg)
{
	struct call *self = arg;
	int n = atomic_fetch_add(&begun, 1) + 1;

	if (n > atomic_load(&most_begun))
		atomic_store(&most_begun, n);
	if (self->n < 2) {
		self->result = self->n;
	} else {
		struct call a = { .n = self->n - 1 }, b = { .n = self->n - 2 };
		gmp_g *g = spawn(count_and_fib, &a), *h = spawn(count_and_fib, &b);

		join(h);
		join(g);
		self->result = a.result + b.result;
	}
	atomic_fetch_sub(&begun, 1);
}

RT(fork_join_tree_returns_result)
{
	struct call c = { .n = N };

	fib(&c);
	CHECK_EQ(c.result, RESULT);
}

/*
 * On one P the calls that have begun and not ended are a path from the root, plus one path for each
 * time slice that ends.
 */
RT(fork_join_tree_on_one_p_is_depth_first)
{
	struct call c = { .n = N };
	int64_t begun_at = gmp_now();

	check_skip_on_valgrind("the many time slices would leave too many calls begun");
	if (procs > 1 || getenv("GMP_DEBUG"))
		check_skip("needs one P and the default order");
	count_and_fib(&c);
	CHECK_EQ(c.result, RESULT);
	int slices = (int)((gmp_now() - begun_at) / (10 * MS));

	CHECK(atomic_load(&most_begun) <= (4 + slices) * N);
}

static atomic_bool over;
static atomic_long yields;

static void count_yields(UNUSED void *arg)
{
	while (!atomic_load(&over)) {
		atomic_fetch_add(&yields, 1);
		gmp_yield();
	}
}

RT(fork_join_tree_does_not_starve_others)
{
	struct call c = { .n = N };
	gmp_g *g[3];
	long before;

	for (int i = 0; i < 3; i++)
		g[i] = spawn(count_yields, NULL);
	for (int k = 0; k < 3; k++) {
		int64_t limit = gmp_deadline(PATIENCE);

		before = atomic_load(&yields);
		/* a tree may need less than a time slice */
		while (atomic_load(&yields) <= before + 3) {
			CHECK(gmp_now() < limit);
			fib(&c);
			CHECK_EQ(c.result, RESULT);
		}
	}
	atomic_store(&over, true);
	for (int i = 0; i < 3; i++)
		join(g[i]);
}

static void record_order(void *arg)
{
	static atomic_int order;

	*(int *)arg = atomic_fetch_add(&order, 1);
}

static void spawn_recorders(gmp_g *g[4], int at[4])
{
	for (int i = 0; i < 4; i++)
		g[i] = spawn(record_order, &at[i]);
}

/* The G that was spawned last and has not run yet runs before Gs that became runnable earlier. */
RT(join_in_reverse_runs_gs_in_reverse)
{
	int at[4];
	gmp_g *g[4];

	if (procs > 1 || getenv("GMP_DEBUG"))
		check_skip("needs one P and the default order");
	spawn_recorders(g, at);
	for (int i = 4; i-- > 0;)
		join(g[i]);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(at[i], 3 - i);
}

/*
 * The G spawned last is in runnext and runs first. A join does not move an earlier G ahead of the
 * others.
 */
RT(join_in_order_runs_gs_in_order_after_runnext)
{
	static const int order[4] = { 1, 2, 3, 0 };
	int at[4];
	gmp_g *g[4];

	if (procs > 1 || getenv("GMP_DEBUG"))
		check_skip("needs one P and the default order");
	spawn_recorders(g, at);
	for (int i = 0; i < 4; i++)
		join(g[i]);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(at[i], order[i]);
}

/* --- timers --- */

static gmp_g *sleeper_b;
static int64_t wake_at;

static void sleep_until_wake_at(UNUSED void *arg)
{
	CHECK_EQ(gmp_sleep_until(wake_at), 0);
}

/* The timer has put both Gs in front of the ring; the join takes the other one back from it. */
static void sleep_join_and_sleep(UNUSED void *arg)
{
	CHECK_EQ(gmp_sleep_until(wake_at), 0);
	join(sleeper_b);
	CHECK_EQ(gmp_sleep(1 * MS), 0);
}

static void nothing(UNUSED void *arg)
{
}

static void go_nothing(UNUSED void *arg)
{
	CHECK_EQ(gmp_go(nothing, NULL), 0);
}

static void join_of_g_from_timer(UNUSED void *arg)
{
	struct ext_thread f;
	gmp_g *a;

	wake_at = gmp_deadline(5 * MS);
	a = spawn(sleep_join_and_sleep, NULL);
	gmp_yield(); /* the timers fire in this order */
	sleeper_b = spawn(sleep_until_wake_at, NULL);
	gmp_yield();
	ext_thread_start(&f, go_nothing, NULL);
	ext_thread_join(&f); /* a G is in the global queue, so Gs of timers go in front */
	while (gmp_now() < wake_at)
		;
	join(a);
}

/* Gs of timers count as present in the ring only as far as the ring reaches. */
TEST(join_of_g_that_timer_put_first_does_not_stop_timers)
{
	for (int i = 0; i < 20; i++)
		run_cooperative(1, join_of_g_from_timer, NULL);
}
