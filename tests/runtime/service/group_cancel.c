/* SPDX-License-Identifier: MIT */
/*
 * Tests what cancels the children of a group: the first failure, the deadline, gmp_group_cancel,
 * and the cancellation of the waiter.
 */
#include "group_util.h"

/* --- failure --- */

RT(group_failure_cancels_other_children)
{
	gmp_group *g = make(0, GMP_FOREVER);

	for (int i = 0; i < 100; i++)
		CHECK_EQ(gmp_group_go(g, until_cancelled, NULL), 0);
	WAIT_FOR(atomic_load(&running) == 100);
	CHECK_EQ(gmp_group_go(g, return_arg, (void *)(intptr_t)-EIO), 0);
	CHECK_EQ(gmp_group_wait(g), -EIO);
	CHECK_EQ(atomic_load(&count), 101);
	gmp_group_free(g);
}

static int fail_at_some(void *arg)
{
	intptr_t i = (intptr_t)arg;

	if (i % 10 == 3)
		return (int)i;
	until_cancelled(NULL);
	return 0;
}

RT(group_failure_during_starts_cancels_every_child)
{
	for (int round = 0; round < (SLOW ? 20 : 200); round++) {
		gmp_group *g = make(0, GMP_FOREVER);
		int result;

		for (intptr_t i = 0; i < 50; i++)
			CHECK_EQ(gmp_group_go(g, fail_at_some, (void *)i), 0);
		result = gmp_group_wait(g);
		CHECK(result > 0 && result % 10 == 3);
		gmp_group_free(g);
	}
}

RT(group_child_started_after_failure_is_cancelled)
{
	gmp_group *g = make(3, GMP_FOREVER);

	CHECK_EQ(gmp_group_go(g, expect_not_cancelled, NULL), 0);
	CHECK_EQ(gmp_group_wait(g), 0);
	CHECK_EQ(gmp_group_go(g, return_arg, (void *)4), 0);
	CHECK_EQ(gmp_group_wait(g), 4);
	for (int i = 0; i < 20; i++)
		CHECK_EQ(gmp_group_go(g, expect_cancelled, NULL), 0);
	CHECK_EQ(gmp_group_wait(g), 4);
	CHECK_EQ(atomic_load(&count), 22);
	gmp_group_free(g);
}

static int start_one_more(UNUSED void *arg)
{
	CHECK_EQ(gmp_sleep(100 * SEC), -ECANCELED);
	CHECK_EQ(gmp_group_go(group, expect_cancelled, NULL), 0);
	return 0;
}

RT(group_child_started_by_cancelled_child_is_cancelled)
{
	group = make(0, GMP_FOREVER);
	for (int i = 0; i < 40; i++)
		CHECK_EQ(gmp_group_go(group, start_one_more, NULL), 0);
	CHECK_EQ(gmp_group_go(group, return_arg, (void *)-1), 0);
	CHECK_EQ(gmp_group_wait(group), -1);
	CHECK_EQ(atomic_load(&count), 41);
	gmp_group_free(group);
}

RT(group_cancel_reaches_all_and_sets_no_result_itself)
{
	gmp_group *g = make(0, GMP_FOREVER);

	gmp_group_cancel(g);
	CHECK_EQ(gmp_group_wait(g), 0);
	for (int i = 0; i < 10; i++)
		CHECK_EQ(gmp_group_go(g, expect_cancelled, NULL), 0);
	CHECK_EQ(gmp_group_wait(g), 0);
	gmp_group_cancel(g);
	gmp_group_free(g);

	g = make(0, GMP_FOREVER);
	for (int i = 0; i < 100; i++)
		CHECK_EQ(gmp_group_go(g, until_cancelled, NULL), 0);
	gmp_group_cancel(g);
	CHECK_EQ(gmp_group_wait(g), -ECANCELED);
	CHECK_EQ(atomic_load(&count), 110);
	gmp_group_free(g);
}

static void cancel_from_outside(UNUSED void *arg)
{
	WAIT_FOR(atomic_load(&running) == 50);
	gmp_group_cancel(group);
}

RT(group_cancel_from_external_thread_works)
{
	struct ext_thread f;

	group = make(0, GMP_FOREVER);
	ext_thread_start(&f, cancel_from_outside, NULL);
	for (int i = 0; i < 50; i++)
		CHECK_EQ(gmp_group_go(group, until_cancelled, NULL), 0);
	CHECK_EQ(gmp_group_wait(group), -ECANCELED);
	ext_thread_join(&f);
	gmp_group_free(group);
}

RT(group_free_cancels_children_and_waits)
{
	for (int i = 0; i < 30; i++) {
		gmp_group *g = make(0, i % 2 ? gmp_deadline(100 * SEC) : GMP_FOREVER);

		for (int k = 0; k < i; k++)
			CHECK_EQ(gmp_group_go(g, until_cancelled, NULL), 0);
		atomic_store(&count, 0);
		gmp_group_free(g);
		CHECK_EQ(atomic_load(&count), i);
	}
}

/* --- the deadline --- */

RT(group_deadline_cancels_children_and_is_result)
{
	int64_t deadline = gmp_deadline(5 * MS);
	gmp_group *g = make(0, deadline);

	for (int i = 0; i < 50; i++)
		CHECK_EQ(gmp_group_go(g, until_cancelled, NULL), 0);
	CHECK_EQ(gmp_group_wait(g), -ETIMEDOUT);
	CHECK(gmp_now() >= deadline);
	CHECK_EQ(atomic_load(&count), 50);
	CHECK_EQ(gmp_group_go(g, expect_cancelled, NULL), 0);
	CHECK_EQ(gmp_group_wait(g), -ETIMEDOUT);
	gmp_group_free(g);
}

RT(group_deadline_without_waiter_cancels_children)
{
	gmp_group *g = make(0, gmp_deadline(2 * MS));

	for (int i = 0; i < 20; i++)
		CHECK_EQ(gmp_group_go(g, until_cancelled, NULL), 0);
	WAIT_FOR(atomic_load(&count) == 20);
	CHECK_EQ(gmp_group_wait(g), -ETIMEDOUT);
	gmp_group_free(g);
}

static int spin_past(void *arg)
{
	while (gmp_now() <= *(int64_t *)arg)
		; /* on one P no timer fires meanwhile */
	return 0;
}

static int exit_past(void *arg)
{
	spin_past(arg);
	gmp_exit();
	return 0;
}

static int fail_past(void *arg)
{
	spin_past(arg);
	return -EIO;
}

RT(group_child_ending_after_deadline_gives_etimedout)
{
	static int (*const fns[])(void *) = { spin_past, exit_past, fail_past };

	for (int i = 0; i < 3; i++) {
		int64_t deadline = gmp_deadline(2 * MS);
		gmp_group *g = make(0, deadline);

		CHECK_EQ(gmp_group_go(g, fns[i], &deadline), 0);
		CHECK_EQ(gmp_group_wait(g), -ETIMEDOUT);
		gmp_group_free(g);
	}
}

RT(group_children_ending_before_deadline_give_0)
{
	for (int i = 0; i < 20; i++) {
		int64_t deadline = gmp_deadline(i % 2 ? 100 * SEC : 20 * MS);
		gmp_group *g = make(0, deadline);
		int result;

		for (int k = 0; k < 10; k++)
			CHECK_EQ(gmp_group_go(g, return_arg, NULL), 0);
		result = gmp_group_wait(g);
		CHECK(result == 0 || (result == -ETIMEDOUT && gmp_now() >= deadline));
		gmp_group_free(g);
	}
}

RT(group_child_started_after_deadline_is_cancelled)
{
	for (int i = 0; i < 3; i++) {
		int64_t past[] = { 0, INT64_MIN, gmp_now() - 1 };
		gmp_group *g = make(1, past[i]);

		CHECK_EQ(gmp_group_wait(g), 0);
		CHECK_EQ(gmp_group_go(g, expect_cancelled, NULL), 0);
		CHECK_EQ(gmp_group_wait(g), -ETIMEDOUT);
		gmp_group_free(g);
	}
}

RT(group_failure_before_deadline_is_result)
{
	gmp_group *g = make(0, gmp_deadline(100 * SEC));

	CHECK_EQ(gmp_group_go(g, until_cancelled, NULL), 0);
	CHECK_EQ(gmp_group_go(g, return_arg, (void *)12), 0);
	CHECK_EQ(gmp_group_wait(g), 12);
	gmp_group_free(g);
}

/* --- the deadline if max_green leaves no green thread for it --- */

enum { MAX_GREEN = 8 };

static void run_at_max_green(int procs, gmp_fn fn)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = procs;
	c.max_green = MAX_GREEN;
	CHECK_EQ(gmp_run(fn, NULL, &c), 0);
}

/* A child whose function has returned may still count against max_green. */
static void go_retrying(gmp_group *g, int (*fn)(void *arg))
{
	int err;

	while ((err = gmp_group_go(g, fn, NULL)) == -EAGAIN)
		gmp_yield();
	CHECK_EQ(err, 0);
}

static void wait_at_max_green(UNUSED void *arg)
{
	gmp_group *g = make(0, gmp_deadline(10 * MS));

	go_retrying(g, until_cancelled);
	for (int i = 1; i < MAX_GREEN; i++) /* the last spawn fails, or all are late */
		(void)gmp_group_go(g, until_cancelled, NULL);
	CHECK_EQ(gmp_group_wait(g), -ETIMEDOUT);
	gmp_group_free(g);
}

TEST_PROCS(group_wait_at_max_green_enforces_deadline)
{
	run_at_max_green(procs, wait_at_max_green);
}

static void sleep_long(UNUSED void *arg)
{
	gmp_sleep(1000 * SEC);
}

static void go_at_max_green(UNUSED void *arg)
{
	for (int i = 2; i < MAX_GREEN; i++)
		CHECK_EQ(gmp_go(sleep_long, NULL), 0);
	gmp_group *g = make(1, gmp_deadline(10 * MS));

	go_retrying(g, until_cancelled);
	go_retrying(g, expect_cancelled); /* waits until the first has ended */
	CHECK_EQ(atomic_load(&running), 1);
	CHECK_EQ(gmp_group_wait(g), -ETIMEDOUT);
	CHECK_EQ(atomic_load(&count), 2);
	gmp_group_free(g);
}

TEST_PROCS(group_go_at_max_green_enforces_deadline)
{
	run_at_max_green(procs, go_at_max_green);
}

/* --- nesting, and the waiter --- */

static int nested(void *arg)
{
	gmp_group *g = make(0, GMP_FOREVER);
	intptr_t depth = (intptr_t)arg;
	int result;

	for (int i = 0; i < 3; i++) {
		if (depth > 0)
			CHECK_EQ(gmp_group_go(g, nested, (void *)(depth - 1)), 0);
		else
			CHECK_EQ(gmp_group_go(g, until_cancelled, NULL), 0);
	}
	result = gmp_group_wait(g);
	CHECK_EQ(result, -ECANCELED);
	gmp_group_free(g);
	return result;
}

RT(group_cancellation_propagates_to_nested_groups)
{
	gmp_group *g = make(0, GMP_FOREVER);

	for (int i = 0; i < 3; i++)
		CHECK_EQ(gmp_group_go(g, nested, (void *)2), 0);
	WAIT_FOR(atomic_load(&running) == 81);
	CHECK_EQ(gmp_group_go(g, return_arg, (void *)-5), 0);
	CHECK_EQ(gmp_group_wait(g), -5);
	CHECK_EQ(atomic_load(&count), 82);
	gmp_group_free(g);
}

static int inner_fails(UNUSED void *arg)
{
	gmp_group *g = make(0, GMP_FOREVER);

	CHECK_EQ(gmp_group_go(g, until_cancelled, NULL), 0);
	CHECK_EQ(gmp_group_go(g, return_arg, (void *)-9), 0);
	CHECK_EQ(gmp_group_wait(g), -9);
	CHECK_EQ(gmp_cancelled(), 0);
	gmp_group_free(g);
	return 0;
}

RT(group_failure_stays_in_nested_group)
{
	gmp_group *g = make(0, GMP_FOREVER);

	for (int i = 0; i < 10; i++)
		CHECK_EQ(gmp_group_go(g, inner_fails, NULL), 0);
	CHECK_EQ(gmp_group_wait(g), 0);
	gmp_group_free(g);
}

static int ignore_cancellation(UNUSED void *arg)
{
	atomic_fetch_add(&running, 1);
	CHECK_EQ(gmp_sleep(100 * SEC), -ECANCELED);
	CHECK_EQ(gmp_cancel_mask(1), 0);
	CHECK_EQ(gmp_sleep(5 * MS), 0);
	atomic_fetch_add(&count, 1);
	return 0;
}

static void wait_for_group(UNUSED void *arg)
{
	CHECK_EQ(gmp_group_wait(group), 0);
	CHECK_EQ(atomic_load(&count), 10);
	CHECK_EQ(gmp_cancelled(), 1);
	CHECK_EQ(gmp_sleep(SEC), -ECANCELED); /* the wait has restored the mask */
}

RT(group_wait_cancelled_cancels_and_awaits_children)
{
	gmp_g *waiter;

	group = make(0, GMP_FOREVER);
	for (int i = 0; i < 10; i++)
		CHECK_EQ(gmp_group_go(group, ignore_cancellation, NULL), 0);
	WAIT_FOR(atomic_load(&running) == 10);
	waiter = spawn(wait_for_group, NULL);
	CHECK_EQ(gmp_cancel(waiter), 0);
	join(waiter);
	gmp_group_free(group);
}

static void wait_masked(UNUSED void *arg)
{
	CHECK_EQ(gmp_cancel_mask(1), 0);
	atomic_store(&running, 1);
	CHECK_EQ(gmp_group_wait(group), 0);
	CHECK_EQ(gmp_cancelled(), 1);
	CHECK_EQ(gmp_cancel_mask(0), 0);
}

static int not_cancelled_until_stop(UNUSED void *arg)
{
	while (!atomic_load(&stop))
		CHECK_EQ(gmp_sleep(100 * US), 0);
	return 0;
}

RT(group_wait_masked_does_not_cancel_children)
{
	gmp_g *waiter;

	group = make(0, GMP_FOREVER);
	CHECK_EQ(gmp_group_go(group, not_cancelled_until_stop, NULL), 0);
	waiter = spawn(wait_masked, NULL);
	WAIT_FOR(atomic_load(&running) == 1);
	CHECK_EQ(gmp_cancel(waiter), 0);
	gmp_sleep(2 * MS);
	atomic_store(&stop, 1);
	join(waiter);
	gmp_group_free(group);
}
