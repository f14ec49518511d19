/* SPDX-License-Identifier: MIT */
/*
 * A pool or group without memory refuses tasks, runs each accepted task, and ends.
 *
 * An accepted task may have to wait until memory is available again.  Therefore each scenario ends
 * the plan (plan_end) before its last wait.
 */
#include "faults.h"

#include <errno.h>
#include <stdatomic.h>

enum { MS = 1000000 };

static atomic_int ran;

static void task(void *arg)
{
	(void)arg;
	gmp_sleep(10000);
	atomic_fetch_add(&ran, 1);
}

/*
 * Under PLAN_ALL, accepted tasks that lack memory to start may fill the pool, so that a submit
 * times out.  Retries if no fault has fired: the machine is slow.
 */
static int submit(gmp_pool *p)
{
	int64_t patience = (plan_now() == PLAN_ALL ? 10 : 10000) * (int64_t)MS;
	int err;

	do
		err = gmp_pool_submit_until(p, task, NULL, gmp_deadline(patience));
	while (err == -ETIMEDOUT && !plan_fired());
	return err;
}

static void use_pool(void *arg)
{
	int taken = 0, before = atomic_load(&ran);
	gmp_pool *p = ASK_PTR(gmp_pool_new(8, NULL));

	(void)arg;
	if (!p)
		return;
	for (int i = 0; i < 30; i++)
		taken += ASK_OR(submit(p), -ETIMEDOUT) == 0;
	taken += ASK(gmp_pool_submit_at(p, gmp_deadline(MS), task, NULL)) == 0;
	plan_end();
	while (gmp_pool_delayed(p) > 0) /* the release would discard the delayed task */
		gmp_yield();
	CHECK_EQ(gmp_pool_release(p, GMP_FOREVER), 0);
	gmp_pool_free(p);
	CHECK_EQ(atomic_load(&ran) - before, taken);
}

SWEEP(pool_runs_accepted_tasks)
{
	in_run(procs, use_pool, NULL);
}

static void use_multipool(void *arg)
{
	int taken = 0, before = atomic_load(&ran);
	gmp_multipool *m = ASK_PTR(gmp_multipool_new(2, 4, GMP_ROUND_ROBIN, NULL));

	(void)arg;
	if (!m)
		return;
	for (int i = 0; i < 8; i++) /* a ninth task would wait for a running one, so for memory */
		taken += ASK(gmp_multipool_submit(m, task, NULL)) == 0;
	plan_end();
	CHECK_EQ(gmp_multipool_release(m, GMP_FOREVER), 0);
	gmp_multipool_free(m);
	CHECK_EQ(atomic_load(&ran) - before, taken);
}

SWEEP(multipool_runs_accepted_tasks)
{
	in_run(procs, use_multipool, NULL);
}

static int child(void *arg)
{
	task(arg);
	return 0;
}

static void use_group(void *arg)
{
	int taken = 0, before = atomic_load(&ran);
	bool failed = false;

	(void)arg;
	for (int limit = 0; limit <= 3; limit += 3) {
		gmp_group *g = ASK_PTR(gmp_group_new(limit, gmp_deadline(5000 * (int64_t)MS)));

		if (!g)
			continue;
		for (int i = 0; i < 20; i++)
			taken += ASK(gmp_group_go(g, child, NULL)) == 0;
		/* a child that had no memory to start has not run: the wait reports it */
		failed |= ASK_ONCE(gmp_group_wait(g)) == -ENOMEM;
		gmp_group_free(g);
	}
	CHECK(atomic_load(&ran) - before == taken || (failed && plan_fired()));
}

SWEEP(group_wait_joins_all_started_children)
{
	in_run(procs, use_group, NULL);
}

static int fail(void *arg)
{
	(void)arg;
	return -EDOM;
}

static int wait_forever(void *arg)
{
	(void)arg;
	return gmp_sleep(GMP_FOREVER);
}

static void fail_group(void *arg)
{
	gmp_group *g = ASK_PTR(gmp_group_new(0, GMP_FOREVER));

	(void)arg;
	if (!g)
		return;
	ASK(gmp_group_go(g, wait_forever, NULL));
	if (ASK(gmp_group_go(g, fail, NULL)) < 0)
		gmp_group_cancel(g);
	CHECK(gmp_group_wait(g) < 0 || plan_fired());
	gmp_group_free(g);
}

SWEEP(group_with_failed_child_cancels_others)
{
	in_run(procs, fail_group, NULL);
}

static int child_of_main(void *arg)
{
	return *(int *)arg;
}

/* Main is an external thread.  A helper G waits in its place, if there is memory for it. */
SWEEP(external_thread_waits_for_group_and_pool_or_gets_error)
{
	gmp_config cfg = GMP_CONFIG_INIT;
	int zero = 0, before = atomic_load(&ran), taken = 0;

	cfg.procs = procs;
	cfg.max_green = 5000;
	if (ASK(gmp_start(&cfg)) < 0)
		return;
	gmp_group *g = ASK_PTR(gmp_group_new(0, GMP_FOREVER));

	if (g) {
		ASK(gmp_group_go(g, child_of_main, &zero));
		CHECK(gmp_group_wait(g) == 0 || plan_fired());
		gmp_group_free(g);
	}
	gmp_pool *p = ASK_PTR(gmp_pool_new(1, NULL));

	for (int i = 0; p && i < 3; i++)
		taken += ASK_OR(submit(p), -ETIMEDOUT) == 0;
	plan_end();
	if (p) {
		CHECK_EQ(gmp_pool_release(p, GMP_FOREVER), 0);
		gmp_pool_free(p);
		CHECK_EQ(atomic_load(&ran) - before, taken);
	}
	CHECK_EQ(gmp_stop(), 0);
}
