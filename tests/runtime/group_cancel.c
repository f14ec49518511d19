/* SPDX-License-Identifier: MIT */
/*
 * Tests what cancels the children of a group: the first failure, the deadline, one who says so, and the
 * cancellation of the one who waits.
 */
#include "group_util.h"

/* --- failure --- */

RT(a_failure_cancels_the_others)
{
	gmp_group *g = make(0, GMP_FOREVER);

	for (int i = 0; i < 100; i++)
		CHECK_EQ(gmp_group_go(g, until_cancelled, NULL), 0);
	WAIT_FOR(atomic_load(&running) == 100);
	CHECK_EQ(gmp_group_go(g, give, (void *)(intptr_t)-EIO), 0);
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

RT(none_is_missed_however_early_the_failure)
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

RT(after_a_failure_a_child_starts_cancelled)
{
	gmp_group *g = make(3, GMP_FOREVER);

	CHECK_EQ(gmp_group_go(g, expect_not_cancelled, NULL), 0);
	CHECK_EQ(gmp_group_wait(g), 0);
	CHECK_EQ(gmp_group_go(g, give, (void *)4), 0);
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

RT(what_a_cancelled_child_starts_is_cancelled_too)
{
	group = make(0, GMP_FOREVER);
	for (int i = 0; i < 40; i++)
		CHECK_EQ(gmp_group_go(group, start_one_more, NULL), 0);
	CHECK_EQ(gmp_group_go(group, give, (void *)-1), 0);
	CHECK_EQ(gmp_group_wait(group), -1);
	CHECK_EQ(atomic_load(&count), 41);
	gmp_group_free(group);
}

RT(cancel_reaches_all_and_the_result_is_what_they_make_of_it)
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

RT(a_plain_thread_may_cancel)
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

RT(free_cancels_and_waits)
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

RT(the_deadline_cancels_and_is_the_result)
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

RT(the_deadline_cancels_though_nobody_waits)
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
		; /* and no timer fires on one P */
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

RT(one_that_ends_late_is_late_whatever_it_says)
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

RT(those_who_end_in_time_are_not_late)
{
	for (int i = 0; i < 20; i++) {
		int64_t deadline = gmp_deadline(i % 2 ? 100 * SEC : 20 * MS);
		gmp_group *g = make(0, deadline);
		int result;

		for (int k = 0; k < 10; k++)
			CHECK_EQ(gmp_group_go(g, give, NULL), 0);
		result = gmp_group_wait(g);
		CHECK(result == 0 || (result == -ETIMEDOUT && gmp_now() >= deadline));
		gmp_group_free(g);
	}
}

RT(after_the_deadline_a_child_starts_cancelled_and_late)
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

RT(a_failure_before_the_deadline_is_the_result)
{
	gmp_group *g = make(0, gmp_deadline(100 * SEC));

	CHECK_EQ(gmp_group_go(g, until_cancelled, NULL), 0);
	CHECK_EQ(gmp_group_go(g, give, (void *)12), 0);
	CHECK_EQ(gmp_group_wait(g), 12);
	gmp_group_free(g);
}

/* --- the deadline, where no green thread can be had for it --- */

enum { MOST = 8 }; /* alive at once */

static void run_crowded(int procs, gmp_fn fn)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = procs;
	c.max_green = MOST;
	CHECK_EQ(gmp_run(fn, NULL, &c), 0);
}

/* One that has ended may still be on its way out. */
static void go_when_there_is_room(gmp_group *g, int (*fn)(void *arg))
{
	int err;

	while ((err = gmp_group_go(g, fn, NULL)) == -EAGAIN)
		gmp_yield();
	CHECK_EQ(err, 0);
}

static void wait_crowded(UNUSED void *arg)
{
	gmp_group *g = make(0, gmp_deadline(10 * MS));

	go_when_there_is_room(g, until_cancelled);
	for (int i = 1; i < MOST; i++) /* the last one has no room, or all are late */
		(void)gmp_group_go(g, until_cancelled, NULL);
	CHECK_EQ(gmp_group_wait(g), -ETIMEDOUT);
	gmp_group_free(g);
}

TEST_PROCS(whoever_waits_for_a_group_sees_to_its_deadline)
{
	run_crowded(procs, wait_crowded);
}

static void sleep_beside(UNUSED void *arg)
{
	gmp_sleep(1000 * SEC);
}

static void go_crowded(UNUSED void *arg)
{
	for (int i = 2; i < MOST; i++)
		CHECK_EQ(gmp_go(sleep_beside, NULL), 0);
	gmp_group *g = make(1, gmp_deadline(10 * MS));

	go_when_there_is_room(g, until_cancelled);
	go_when_there_is_room(g, expect_cancelled); /* waits until the first has ended */
	CHECK_EQ(atomic_load(&running), 1);
	CHECK_EQ(gmp_group_wait(g), -ETIMEDOUT);
	CHECK_EQ(atomic_load(&count), 2);
	gmp_group_free(g);
}

TEST_PROCS(whoever_waits_for_a_place_in_a_group_sees_to_its_deadline)
{
	run_crowded(procs, go_crowded);
}

/* --- nesting, and the one who waits --- */

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

RT(cancellation_goes_down_through_nested_groups)
{
	gmp_group *g = make(0, GMP_FOREVER);

	for (int i = 0; i < 3; i++)
		CHECK_EQ(gmp_group_go(g, nested, (void *)2), 0);
	WAIT_FOR(atomic_load(&running) == 81);
	CHECK_EQ(gmp_group_go(g, give, (void *)-5), 0);
	CHECK_EQ(gmp_group_wait(g), -5);
	CHECK_EQ(atomic_load(&count), 82);
	gmp_group_free(g);
}

static int inner_fails(UNUSED void *arg)
{
	gmp_group *g = make(0, GMP_FOREVER);

	CHECK_EQ(gmp_group_go(g, until_cancelled, NULL), 0);
	CHECK_EQ(gmp_group_go(g, give, (void *)-9), 0);
	CHECK_EQ(gmp_group_wait(g), -9);
	CHECK_EQ(gmp_cancelled(), 0);
	gmp_group_free(g);
	return 0;
}

RT(the_failure_of_a_nested_group_is_its_own)
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
	CHECK_EQ(gmp_sleep(SEC), -ECANCELED); /* the mask is as it was */
}

RT(the_wait_of_a_cancelled_one_passes_it_on_and_waits_for_all)
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

static int not_cancelled_while(UNUSED void *arg)
{
	while (!atomic_load(&stop))
		CHECK_EQ(gmp_sleep(100 * US), 0);
	return 0;
}

RT(the_wait_of_one_that_masks_cancellation_does_not_pass_it_on)
{
	gmp_g *waiter;

	group = make(0, GMP_FOREVER);
	CHECK_EQ(gmp_group_go(group, not_cancelled_while, NULL), 0);
	waiter = spawn(wait_masked, NULL);
	WAIT_FOR(atomic_load(&running) == 1);
	CHECK_EQ(gmp_cancel(waiter), 0);
	gmp_sleep(2 * MS);
	atomic_store(&stop, 1);
	join(waiter);
	gmp_group_free(group);
}
