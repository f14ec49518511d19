/* SPDX-License-Identifier: MIT */
/*
 * Tests gmp_group: the result, how children end, the limit, waiters and free. No child outlives the
 * wait, and none the run.
 */
#include "group_util.h"

static atomic_int most_seen;
static gmp_group *inner;

static void results(UNUSED void *unused)
{
	static const int given[][4] = {
		{ 0 }, { 1, 0 }, { 1, -7 }, { 2, -7, 0 }, { 3, -7, 0, 9 }, { 3, 0, 0, 5 }
	}; /* the number of children, then their results */

	for (unsigned i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
		gmp_group *g = make(0, GMP_FOREVER);
		int first = 0;

		CHECK_EQ(gmp_group_wait(g), 0);
		for (int k = 1; k <= given[i][0]; k++) {
			CHECK_EQ(gmp_group_go(g, return_arg, (void *)(intptr_t)given[i][k]), 0);
			if (!first)
				first = given[i][k];
			CHECK_EQ(gmp_group_wait(g), first);
			CHECK_EQ(gmp_group_wait(g), first);
		}
		gmp_group_free(g);
	}
}

RT(group_first_nonzero_result_is_returned_by_wait)
{
	struct ext_thread f;

	results(NULL);
	ext_thread_start(&f, results, NULL);
	ext_thread_join(&f);
	gmp_block_enter();
	results(NULL);
	gmp_block_leave();
}

RT(group_bad_arguments_are_rejected)
{
	gmp_group *g = make(-5, GMP_FOREVER);

	CHECK_EQ(gmp_group_go(NULL, nothing, NULL), -EINVAL);
	CHECK_EQ(gmp_group_go(g, NULL, NULL), -EINVAL);
	CHECK_EQ(gmp_group_try_go(NULL, nothing, NULL), -EINVAL);
	CHECK_EQ(gmp_group_try_go(g, NULL, NULL), -EINVAL);
	CHECK_EQ(gmp_group_wait(NULL), -EINVAL);
	gmp_group_cancel(NULL);
	gmp_group_free(NULL);
	CHECK_EQ(gmp_group_wait(g), 0);
	gmp_group_free(g);
}

static gmp_group *first_run_group;

static int sleep_forever(UNUSED void *arg)
{
	return gmp_sleep_until(GMP_FOREVER);
}

static void leave_first_run_group(UNUSED void *arg)
{
	first_run_group = make(1, GMP_FOREVER);
	CHECK_EQ(gmp_group_go(first_run_group, sleep_forever, NULL), 0);
}

static void use_first_run_group(UNUSED void *arg)
{
	CHECK_EQ(gmp_group_go(first_run_group, nothing, NULL), -ESRCH);
	CHECK_EQ(gmp_group_try_go(first_run_group, nothing, NULL), -ESRCH);
	CHECK_EQ(gmp_group_wait(first_run_group), -ESRCH);
	gmp_group_cancel(first_run_group);
	gmp_group_free(first_run_group);
}

TEST_PROCS(group_go_in_later_run_returns_esrch)
{
	run_procs(procs, leave_first_run_group, NULL);
	run_procs(procs, use_first_run_group, NULL);
}

TEST(group_new_without_runtime_returns_null)
{
	CHECK(gmp_group_new(0, GMP_FOREVER) == NULL);
}

RT(group_wait_returns_after_all_children_ended)
{
	gmp_group *g = make(0, GMP_FOREVER);

	for (int n = 1; n <= 10000; n *= 10) {
		atomic_store(&count, 0);
		for (int i = 0; i < n; i++)
			CHECK_EQ(gmp_group_go(g, nothing, NULL), 0);
		CHECK_EQ(gmp_group_wait(g), 0);
		CHECK_EQ(atomic_load(&count), n);
	}
	gmp_group_free(g);
}

static int grow_tree(void *arg)
{
	intptr_t depth = (intptr_t)arg;

	atomic_fetch_add(&count, 1);
	if (depth % 3 == 0)
		gmp_yield();
	for (int i = 0; i < 2 && depth > 0; i++)
		CHECK_EQ(gmp_group_go(group, grow_tree, (void *)(depth - 1)), 0);
	return 0;
}

RT(group_wait_includes_children_started_by_children)
{
	for (int i = 0; i < 20; i++) {
		group = make(0, GMP_FOREVER);
		atomic_store(&count, 0);
		CHECK_EQ(gmp_group_go(group, grow_tree, (void *)9), 0);
		CHECK_EQ(gmp_group_wait(group), 0);
		CHECK_EQ(atomic_load(&count), (1 << 10) - 1);
		gmp_group_free(group);
	}
}

static atomic_int late; /* state of the late child: 1 runs, 2 may end */

static int run_late_child(UNUSED void *arg)
{
	atomic_store(&late, 1);
	while (atomic_load(&late) != 2)
		gmp_yield();
	atomic_fetch_add(&count, 1);
	return 0;
}

static int start_late_child(UNUSED void *arg)
{
	until_stop(NULL);
	CHECK_EQ(gmp_group_go(group, run_late_child, NULL), 0);
	return 0;
}

static int until_may_end(void *arg)
{
	while (!atomic_load((atomic_int *)arg))
		gmp_yield();
	return 0;
}

static void wait_for_late_child(UNUSED void *arg)
{
	CHECK_EQ(gmp_group_wait(group), 0);
	CHECK_EQ(atomic_load(&late), 2);
	atomic_fetch_add(&most_seen, 1);
}

/* A wait scans the children in chunks of 32, the youngest chunk first. */
RT(group_wait_includes_child_started_in_scanned_chunk)
{
	atomic_int may_end = 0;
	gmp_g *waiter;

	group = make(0, GMP_FOREVER);
	CHECK_EQ(gmp_group_go(group, start_late_child, NULL), 0);
	for (int i = 0; i < 40; i++)
		CHECK_EQ(gmp_group_go(group, until_may_end, &may_end), 0);
	WAIT_FOR(atomic_load(&count) == 1);
	atomic_store(&may_end, 1);
	WAIT_FOR(stats().greens == 2);
	waiter = spawn(wait_for_late_child, NULL);
	wait_parked(1); /* it waits for the one child left, in the oldest chunk */
	atomic_store(&stop, 1);
	WAIT_FOR(atomic_load(&late) == 1);
	WAIT_FOR(stats().greens == 3); /* the late child, in a chunk already scanned, is left */
	wait_parked(1);
	atomic_store(&late, 2);
	join(waiter);
	CHECK_EQ(atomic_load(&most_seen), 1);
	CHECK_EQ(atomic_load(&count), 2);
	gmp_group_free(group);
}

/* --- how children end --- */

static int exit_early(void *arg)
{
	atomic_fetch_add(&count, 1);
	if (arg)
		gmp_yield();
	gmp_exit();
	return 77;
}

RT(group_child_gmp_exit_counts_as_0_and_frees_place)
{
	gmp_group *g = make(2, gmp_deadline(100 * SEC));

	for (int i = 0; i < 100; i++)
		CHECK_EQ(gmp_group_go(g, exit_early, i % 2 ? g : NULL), 0);
	CHECK_EQ(gmp_group_wait(g), 0);
	CHECK_EQ(atomic_load(&count), 100);
	gmp_group_free(g);
}

static gmp_key key;

static void destroy_late(UNUSED void *v)
{
	CHECK_EQ(gmp_cancel_mask(1), 0);
	CHECK_EQ(gmp_sleep(MS), 0);
	atomic_fetch_add(&count, 1);
}

static int with_local(void *arg)
{
	CHECK_EQ(gmp_key_set(key, &count), 0);
	if (arg)
		gmp_exit();
	return 0;
}

RT(group_wait_includes_destructors_of_locals)
{
	gmp_group *g = make(0, GMP_FOREVER);

	CHECK_EQ(gmp_key_create(&key, destroy_late), 0);
	for (int i = 0; i < 50; i++)
		CHECK_EQ(gmp_group_go(g, with_local, i % 2 ? g : NULL), 0);
	CHECK_EQ(gmp_group_wait(g), 0);
	CHECK_EQ(atomic_load(&count), 50);
	gmp_group_free(g);
}

static long written[500];

static int write_plain(void *arg)
{
	long *w = arg;

	if ((w - written) % 3 == 0)
		gmp_yield();
	*w = w - written;
	return 0;
}

RT(group_wait_makes_writes_of_children_visible)
{
	gmp_group *g = make(0, GMP_FOREVER);

	for (int round = 0; round < 20; round++) {
		memset(written, 0xff, sizeof(written));
		for (int i = 0; i < 500; i++)
			CHECK_EQ(gmp_group_go(g, write_plain, &written[i]), 0);
		CHECK_EQ(gmp_group_wait(g), 0);
		for (int i = 0; i < 500; i++)
			CHECK_EQ(written[i], i);
	}
	gmp_group_free(g);
}

/* --- the limit --- */

static int count_running(UNUSED void *arg)
{
	int now = atomic_fetch_add(&running, 1) + 1, seen = atomic_load(&most_seen);

	while (now > seen && !atomic_compare_exchange_weak(&most_seen, &seen, now))
		;
	gmp_sleep(US);
	atomic_fetch_sub(&running, 1);
	return 0;
}

static void start_many(void *arg)
{
	for (int i = 0; i < 300; i++)
		CHECK_EQ(gmp_group_go(arg, count_running, NULL), 0);
}

RT(group_limit_bounds_running_children)
{
	for (int limit = 1; limit < 100; limit = limit * 3 + 1) {
		gmp_group *g = make(limit, GMP_FOREVER);
		struct ext_thread f;
		gmp_g *other = spawn(start_many, g);

		ext_thread_start(&f, start_many, g);
		start_many(g);
		join(other);
		ext_thread_join(&f);
		CHECK_EQ(gmp_group_wait(g), 0);
		CHECK(atomic_load(&most_seen) <= limit);
		CHECK_EQ(atomic_load(&running), 0);
		gmp_group_free(g);
	}
}

RT(group_try_go_at_limit_returns_eagain)
{
	gmp_group *g = make(42, GMP_FOREVER);

	for (int round = 0; round < 3; round++) {
		atomic_store(&stop, 0);
		for (int i = 0; i < 42; i++)
			CHECK_EQ(gmp_group_try_go(g, until_stop, NULL), 0);
		CHECK_EQ(gmp_group_try_go(g, until_stop, NULL), -EAGAIN);
		atomic_store(&stop, 1);
		CHECK_EQ(gmp_group_wait(g), 0);
	}
	CHECK_EQ(atomic_load(&count), 3 * 42);
	gmp_group_free(g);
	g = make(0, GMP_FOREVER);
	for (int i = 0; i < 1000; i++)
		CHECK_EQ(gmp_group_try_go(g, nothing, NULL), 0);
	CHECK_EQ(gmp_group_wait(g), 0);
	gmp_group_free(g);
}

static void go_at_the_limit(void *arg)
{
	CHECK_EQ(gmp_group_go(arg, nothing, NULL), -ECANCELED);
	atomic_fetch_add(&running, 1);
}

RT(group_go_cancelled_at_limit_returns_ecanceled)
{
	gmp_group *g = make(1, GMP_FOREVER);
	gmp_g *caller;

	CHECK_EQ(gmp_group_go(g, until_stop, NULL), 0);
	caller = spawn(go_at_the_limit, g);
	WAIT_FOR(atomic_load(&count) == 1);
	CHECK_EQ(gmp_cancel(caller), 0);
	join(caller);
	CHECK_EQ(atomic_load(&running), 1);
	atomic_store(&stop, 1);
	CHECK_EQ(gmp_group_wait(g), 0);
	CHECK_EQ(atomic_load(&count), 1);
	CHECK_EQ(gmp_group_try_go(g, nothing, NULL), 0); /* the cancelled call holds no place */
	CHECK_EQ(gmp_group_wait(g), 0);
	gmp_group_free(g);
}

/* --- several waiters, and free --- */

static void wait_and_count(UNUSED void *arg)
{
	CHECK_EQ(gmp_group_wait(group), 3);
	CHECK_EQ(atomic_load(&count), 1);
	atomic_fetch_add(&most_seen, 1);
}

static int fail_at_stop(UNUSED void *arg)
{
	until_stop(NULL);
	return 3;
}

RT(group_wait_by_several_waiters_wakes_all)
{
	struct ext_thread f[3];
	gmp_g *g[20];

	group = make(0, GMP_FOREVER);
	CHECK_EQ(gmp_group_go(group, fail_at_stop, NULL), 0);
	for (int i = 0; i < 20; i++)
		g[i] = spawn(wait_and_count, NULL);
	for (int i = 0; i < 3; i++)
		ext_thread_start(&f[i], wait_and_count, NULL);
	gmp_yield();
	atomic_store(&stop, 1);
	for (int i = 0; i < 20; i++)
		join(g[i]);
	for (int i = 0; i < 3; i++)
		ext_thread_join(&f[i]);
	CHECK_EQ(atomic_load(&most_seen), 23);
	gmp_group_free(group);
}

RT(group_free_right_after_wait_works)
{
	for (int i = 0; i < (SLOW ? 200 : 3000); i++) {
		gmp_group *g = make(i % 3, i % 5 ? GMP_FOREVER : gmp_deadline(100 * SEC));

		for (int k = 0; k < i % 40; k++)
			CHECK_EQ(gmp_group_go(g, nothing, NULL), 0);
		CHECK_EQ(gmp_group_wait(g), 0);
		gmp_group_free(g);
	}
}

/* --- the end of a run --- */

static void wait_until_shutdown(UNUSED void *arg)
{
	atomic_store(&most_seen, gmp_group_wait(group));
	CHECK_EQ(gmp_group_wait(group), -ESRCH);
	gmp_group_cancel(group);
	gmp_group_free(group);
}

static void go_until_shutdown(UNUSED void *arg)
{
	CHECK_EQ(gmp_group_go(inner, nothing, NULL), -ESRCH);
	gmp_group_free(inner);
}

static int sleep_long(UNUSED void *arg)
{
	atomic_fetch_add(&running, 1);
	gmp_sleep(100 * SEC);
	return 0;
}

static struct ext_thread external_waiter, external_starter;

static void leave_children(UNUSED void *arg)
{
	atomic_store(&running, 0);
	group = make(0, gmp_deadline(100 * SEC));
	inner = make(1, GMP_FOREVER);
	for (int i = 0; i < 50; i++)
		CHECK_EQ(gmp_group_go(group, sleep_long, NULL), 0);
	CHECK_EQ(gmp_group_go(inner, sleep_long, NULL), 0);
	ext_thread_start(&external_waiter, wait_until_shutdown, NULL);
	ext_thread_start(&external_starter, go_until_shutdown, NULL);
	WAIT_FOR(atomic_load(&running) == 51);
	wait_parked(53); /* 51 children, and a G for each external thread */
}

TEST_PROCS(group_shutdown_wakes_external_threads_with_esrch)
{
	for (int i = 0; i < 3; i++) {
		run_procs(procs, leave_children, NULL);
		ext_thread_join(&external_waiter);
		ext_thread_join(&external_starter);
		CHECK_EQ(atomic_load(&most_seen), -ESRCH);
	}
}

static void leave_group(UNUSED void *arg)
{
	atomic_store(&running, 0);
	group = make(0, gmp_deadline(100 * SEC));
	CHECK_EQ(gmp_group_go(group, sleep_long, NULL), 0);
	WAIT_FOR(atomic_load(&running) == 1);
}

static void use_former_group(UNUSED void *arg)
{
	CHECK_EQ(gmp_group_wait(group), -ESRCH);
	gmp_group_cancel(group);
	gmp_group_free(group);
}

TEST_PROCS(group_free_after_run_ended_works)
{
	run_procs(procs, leave_group, NULL);
	CHECK_EQ(gmp_group_wait(group), -ESRCH);
	gmp_group_cancel(group);
	gmp_group_free(group);
	run_procs(procs, leave_group, NULL);
	run_procs(procs, use_former_group, NULL);
}
