/* SPDX-License-Identifier: MIT */
/* Tests gmp_group_wait_until and gmp_group_running: timeouts, cancellation and shutdown. */
#include "group_util.h"

static int return_arg_at_stop(void *arg)
{
	until_stop(NULL);
	return (int)(intptr_t)arg;
}

static void wait_until_timeout(void *g)
{
	int64_t deadline = gmp_deadline(2 * MS);

	CHECK_EQ(gmp_group_wait_until(g, deadline), -ETIMEDOUT);
	CHECK(gmp_now() >= deadline);
	CHECK_EQ(gmp_group_wait_until(g, 0), -ETIMEDOUT);
	CHECK_EQ(gmp_group_wait_until(g, INT64_MIN), -ETIMEDOUT);
}

RT(group_timeout_leaves_group_intact)
{
	enum { N = 70 }; /* more than two chunks */
	gmp_group *g = make(0, GMP_FOREVER);
	struct ext_thread f;

	CHECK_EQ(gmp_group_wait_until(g, 0), 0);
	CHECK_EQ(gmp_group_running(g), 0);
	for (intptr_t i = 0; i < N; i++)
		CHECK_EQ(gmp_group_go(g, return_arg_at_stop, (void *)(i == 7 ? 12 : i * 0)), 0);
	CHECK_EQ(gmp_group_running(g), N);
	WAIT_FOR(atomic_load(&count) == N);
	wait_until_timeout(g);
	ext_thread_start(&f, wait_until_timeout, g);
	ext_thread_join(&f);
	CHECK_EQ(gmp_group_running(g), N);
	atomic_store(&stop, 1);
	CHECK_EQ(gmp_group_wait_until(g, gmp_deadline(PATIENCE)), 12);
	CHECK_EQ(gmp_group_running(g), 0);
	CHECK_EQ(gmp_group_wait_until(g, 0), 12); /* no child runs: no timeout */
	CHECK_EQ(gmp_group_wait(g), 12);
	gmp_group_free(g);
}

RT(group_used_again_after_timeout_works)
{
	gmp_group *g = make(2, GMP_FOREVER);

	for (int i = 0; i < 20; i++) {
		atomic_store(&stop, 0);
		atomic_store(&count, 0);
		CHECK_EQ(gmp_group_go(g, until_stop, NULL), 0);
		CHECK_EQ(gmp_group_wait_until(g, gmp_deadline(i * 20 * US)), -ETIMEDOUT);
		CHECK_EQ(gmp_group_go(g, nothing, NULL), 0);
		atomic_store(&stop, 1);
		CHECK_EQ(i % 2 ? gmp_group_wait(g) : gmp_group_wait_until(g, GMP_FOREVER), 0);
		CHECK_EQ(atomic_load(&count), 2);
	}
	gmp_group_free(g);
}

RT(group_own_deadline_is_result_not_timeout)
{
	gmp_group *g = make(0, gmp_deadline(5 * MS));

	for (int i = 0; i < 3; i++)
		CHECK_EQ(gmp_group_go(g, until_cancelled, NULL), 0);
	CHECK_EQ(gmp_group_wait_until(g, gmp_deadline(PATIENCE)), -ETIMEDOUT);
	CHECK_EQ(gmp_group_running(g), 0);
	CHECK_EQ(atomic_load(&count), 3);
	gmp_group_free(g);
}

static void wait_cancelled(UNUSED void *arg)
{
	CHECK_EQ(gmp_group_wait_until(group, GMP_FOREVER), -ECANCELED);
	CHECK_EQ(gmp_group_wait_until(group, 0), -ECANCELED);
	CHECK_EQ(gmp_group_wait_until(group, gmp_deadline(PATIENCE)), -ECANCELED);
	CHECK_EQ(gmp_cancel_mask(1), 0);
	CHECK_EQ(gmp_group_wait_until(group, gmp_deadline(MS)), -ETIMEDOUT);
	CHECK_EQ(gmp_cancel_mask(0), 0);
	atomic_store(&stop, 1);
	gmp_cancel_mask(1);
	CHECK_EQ(gmp_group_wait_until(group, GMP_FOREVER), 0);
	gmp_cancel_mask(0);
	CHECK_EQ(gmp_group_wait_until(group, GMP_FOREVER), 0); /* no child runs: no wait */
}

static int not_cancelled_until_stop(UNUSED void *arg)
{
	while (!atomic_load(&stop))
		CHECK_EQ(gmp_sleep(100 * US), 0);
	return 0;
}

RT(group_cancelled_wait_leaves_children_uncancelled)
{
	group = make(0, GMP_FOREVER);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(gmp_group_go(group, not_cancelled_until_stop, NULL), 0);
	gmp_g *waiter = spawn(wait_cancelled, NULL);

	gmp_sleep(MS);
	CHECK_EQ(gmp_cancel(waiter), 0);
	join(waiter);
	gmp_group_free(group);
}

static int sleep_for(void *ns)
{
	gmp_sleep((intptr_t)ns);
	atomic_fetch_add(&count, 1);
	return 0;
}

/* After a wait that returned 0 the group may be freed, however many waits timed out before. */
RT(group_deadline_racing_last_child_waits_for_all)
{
	for (int i = 0; i < 100; i++) {
		gmp_group *g = make(0, GMP_FOREVER);
		int result;

		atomic_store(&count, 0);
		for (int k = 0; k < 3; k++)
			CHECK_EQ(gmp_group_go(g, sleep_for, (void *)(intptr_t)(k * 20 * US)), 0);
		while ((result = gmp_group_wait_until(g, gmp_deadline(i % 10 * 10 * US))) != 0) {
			CHECK_EQ(result, -ETIMEDOUT);
			gmp_yield(); /* an expired wait does not switch */
		}
		CHECK_EQ(result, 0);
		CHECK_EQ(atomic_load(&count), 3);
		gmp_group_free(g);
	}
}

static void wait_on_external_thread(void *g)
{
	CHECK_EQ(gmp_group_wait_until(g, gmp_deadline(PATIENCE)), -ESRCH);
}

static struct ext_thread external_waiter;

static void leave_external_wait(UNUSED void *arg)
{
	group = make(0, GMP_FOREVER);
	CHECK_EQ(gmp_group_go(group, until_cancelled, NULL), 0);
	ext_thread_start(&external_waiter, wait_on_external_thread, group);
	wait_parked(2); /* the child, and the green thread that waits for the external one */
}

TEST_PROCS(group_shutdown_during_external_wait_returns_esrch)
{
	run_procs(procs, leave_external_wait, NULL);
	CHECK_EQ(pthread_join(external_waiter.thread, NULL), 0);
	CHECK_EQ(gmp_group_wait_until(group, GMP_FOREVER), -ESRCH);
	CHECK_EQ(gmp_group_running(group), -ESRCH);
	gmp_group_free(group);
	CHECK_EQ(gmp_group_wait_until(NULL, 0), -EINVAL);
	CHECK_EQ(gmp_group_running(NULL), -EINVAL);
}
