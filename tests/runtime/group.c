/* SPDX-License-Identifier: MIT */
/*
 * Tests gmp_group: the result, how children end, the limit, who waits and who frees; no child outlives
 * the wait, and none the run.
 */
#include "group_util.h"

static atomic_int most;
static gmp_group *inner;

static void results(UNUSED void *unused)
{
	static const int given[][4] = {
		{ 0 }, { 1, 0 }, { 1, -7 }, { 2, -7, 0 }, { 3, -7, 0, 9 }, { 3, 0, 0, 5 }
	}; /* how many, then what they return */

	for (unsigned i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
		gmp_group *g = make(0, GMP_FOREVER);
		int first = 0;

		CHECK_EQ(gmp_group_wait(g), 0);
		for (int k = 1; k <= given[i][0]; k++) {
			CHECK_EQ(gmp_group_go(g, give, (void *)(intptr_t)given[i][k]), 0);
			if (!first)
				first = given[i][k];
			CHECK_EQ(gmp_group_wait(g), first);
			CHECK_EQ(gmp_group_wait(g), first);
		}
		gmp_group_free(g);
	}
}

RT(the_first_result_that_is_not_0_is_the_groups)
{
	struct ext_thread f;

	results(NULL);
	ext_thread_start(&f, results, NULL);
	ext_thread_join(&f);
	gmp_block_enter();
	results(NULL);
	gmp_block_leave();
}

RT(wrong_arguments_are_refused)
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

static gmp_group *of_the_first_run;

static int never_ends(UNUSED void *arg)
{
	return gmp_sleep_until(GMP_FOREVER);
}

static void leave_a_group(UNUSED void *arg)
{
	of_the_first_run = make(1, GMP_FOREVER);
	CHECK_EQ(gmp_group_go(of_the_first_run, never_ends, NULL), 0);
}

static void use_a_former_group(UNUSED void *arg)
{
	CHECK_EQ(gmp_group_go(of_the_first_run, nothing, NULL), -ESRCH);
	CHECK_EQ(gmp_group_try_go(of_the_first_run, nothing, NULL), -ESRCH);
	CHECK_EQ(gmp_group_wait(of_the_first_run), -ESRCH);
	gmp_group_cancel(of_the_first_run);
	gmp_group_free(of_the_first_run);
}

TEST_PROCS(in_a_later_run_it_starts_nobody)
{
	run_procs(procs, leave_a_group, NULL);
	run_procs(procs, use_a_former_group, NULL);
}

TEST(without_a_runtime_there_is_no_group)
{
	CHECK(gmp_group_new(0, GMP_FOREVER) == NULL);
}

RT(all_of_many_have_ended_when_the_wait_returns)
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

RT(children_that_children_start_are_awaited_too)
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

static atomic_int behind; /* 1: it runs; 2: it may end */

static int until_behind_is_2(UNUSED void *arg)
{
	atomic_store(&behind, 1);
	while (atomic_load(&behind) != 2)
		gmp_yield();
	atomic_fetch_add(&count, 1);
	return 0;
}

static int start_one_behind(UNUSED void *arg)
{
	until_stop(NULL);
	CHECK_EQ(gmp_group_go(group, until_behind_is_2, NULL), 0);
	return 0;
}

static int until_let_out(void *arg)
{
	while (!atomic_load((atomic_int *)arg))
		gmp_yield();
	return 0;
}

static void wait_for_those_behind(UNUSED void *arg)
{
	CHECK_EQ(gmp_group_wait(group), 0);
	CHECK_EQ(atomic_load(&behind), 2);
	atomic_fetch_add(&most, 1);
}

/* A group looks at its children 32 at a time, those started last first. */
RT(one_that_is_started_where_the_wait_has_looked_is_awaited)
{
	atomic_int let_out = 0;
	gmp_g *waiter;

	group = make(0, GMP_FOREVER);
	CHECK_EQ(gmp_group_go(group, start_one_behind, NULL), 0);
	for (int i = 0; i < 40; i++)
		CHECK_EQ(gmp_group_go(group, until_let_out, &let_out), 0);
	WAIT_FOR(atomic_load(&count) == 1);
	atomic_store(&let_out, 1);
	WAIT_FOR(stats().greens == 2);
	waiter = spawn(wait_for_those_behind, NULL);
	wait_parked(1); /* it has found the one child that is left, among the first 32 */
	atomic_store(&stop, 1);
	WAIT_FOR(atomic_load(&behind) == 1);
	WAIT_FOR(stats().greens == 3); /* the child is gone; its own is among the last 32 */
	wait_parked(1);
	atomic_store(&behind, 2);
	join(waiter);
	CHECK_EQ(atomic_load(&most), 1);
	CHECK_EQ(atomic_load(&count), 2);
	gmp_group_free(group);
}

/* --- how children end --- */

static int exit_in_the_middle(void *arg)
{
	atomic_fetch_add(&count, 1);
	if (arg)
		gmp_yield();
	gmp_exit();
	return 77;
}

RT(a_child_that_exits_has_ended_well_and_left_its_place)
{
	gmp_group *g = make(2, gmp_deadline(100 * SEC));

	for (int i = 0; i < 100; i++)
		CHECK_EQ(gmp_group_go(g, exit_in_the_middle, i % 2 ? g : NULL), 0);
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

RT(the_wait_includes_destructors_of_locals)
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

RT(the_wait_sees_what_the_children_wrote)
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
	int now = atomic_fetch_add(&running, 1) + 1, seen = atomic_load(&most);

	while (now > seen && !atomic_compare_exchange_weak(&most, &seen, now))
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

RT(no_more_run_at_a_time_than_the_limit_allows)
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
		CHECK(atomic_load(&most) <= limit);
		CHECK_EQ(atomic_load(&running), 0);
		gmp_group_free(g);
	}
}

RT(try_go_refuses_at_the_limit)
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

RT(a_cancelled_caller_does_not_wait_at_the_limit)
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
	CHECK_EQ(gmp_group_try_go(g, nothing, NULL), 0); /* its turn was not lost */
	CHECK_EQ(gmp_group_wait(g), 0);
	gmp_group_free(g);
}

/* --- several who wait, and the one who frees --- */

static void wait_and_count(UNUSED void *arg)
{
	CHECK_EQ(gmp_group_wait(group), 3);
	CHECK_EQ(atomic_load(&count), 1);
	atomic_fetch_add(&most, 1);
}

static int fail_at_stop(UNUSED void *arg)
{
	until_stop(NULL);
	return 3;
}

RT(several_may_wait)
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
	CHECK_EQ(atomic_load(&most), 23);
	gmp_group_free(group);
}

RT(it_may_be_freed_when_the_wait_has_returned)
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

static void wait_till_the_end(UNUSED void *arg)
{
	atomic_store(&most, gmp_group_wait(group));
	CHECK_EQ(gmp_group_wait(group), -ESRCH);
	gmp_group_cancel(group);
	gmp_group_free(group);
}

static void go_till_the_end(UNUSED void *arg)
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

static struct ext_thread waits, goes;

static void leave_children(UNUSED void *arg)
{
	atomic_store(&running, 0);
	group = make(0, gmp_deadline(100 * SEC));
	inner = make(1, GMP_FOREVER);
	for (int i = 0; i < 50; i++)
		CHECK_EQ(gmp_group_go(group, sleep_long, NULL), 0);
	CHECK_EQ(gmp_group_go(inner, sleep_long, NULL), 0);
	ext_thread_start(&waits, wait_till_the_end, NULL);
	ext_thread_start(&goes, go_till_the_end, NULL);
	WAIT_FOR(atomic_load(&running) == 51);
	wait_parked(53); /* and those on behalf of the two */
}

TEST_PROCS(at_the_end_of_a_run_plain_threads_hear_of_it)
{
	for (int i = 0; i < 3; i++) {
		run_procs(procs, leave_children, NULL);
		ext_thread_join(&waits);
		ext_thread_join(&goes);
		CHECK_EQ(atomic_load(&most), -ESRCH);
	}
}

static void leave_group(UNUSED void *arg)
{
	atomic_store(&running, 0);
	group = make(0, gmp_deadline(100 * SEC));
	CHECK_EQ(gmp_group_go(group, sleep_long, NULL), 0);
	WAIT_FOR(atomic_load(&running) == 1);
}

static void find_group(UNUSED void *arg)
{
	CHECK_EQ(gmp_group_wait(group), -ESRCH);
	gmp_group_cancel(group);
	gmp_group_free(group);
}

TEST_PROCS(a_group_of_an_earlier_run_can_still_be_freed)
{
	run_procs(procs, leave_group, NULL);
	CHECK_EQ(gmp_group_wait(group), -ESRCH);
	gmp_group_cancel(group);
	gmp_group_free(group);
	run_procs(procs, leave_group, NULL);
	run_procs(procs, find_group, NULL);
}
