/* SPDX-License-Identifier: MIT */
/* Tests gmp_multipool: tasks are spread over several pools. */
#include "pool_util.h"

#include <limits.h>

static void fill_evenly(gmp_multipool *m)
{
	atomic_store(&begun, 0);
	CHECK_EQ(gmp_multipool_capacity(m), 50);
	for (int i = 0; i < 50; i++)
		CHECK_EQ(gmp_multipool_submit(m, gate_task, NULL), 0);
	CHECK_EQ(gmp_multipool_running(m), 50);
	CHECK_EQ(gmp_multipool_waiting(m), 0);
	CHECK_EQ(gmp_multipool_idle(m), 0);
	for (int i = 0; i < 10; i++) {
		gmp_pool *p = gmp_multipool_at(m, i);

		CHECK_EQ(gmp_pool_running(p), 5);
		CHECK_EQ(gmp_pool_waiting(p), 0);
	}
	CHECK(gmp_multipool_at(m, -1) == NULL);
	CHECK(gmp_multipool_at(m, 10) == NULL);
	let_through(50);
	CHECK_EQ(gmp_multipool_release(m, gmp_deadline(PATIENCE)), 0);
	CHECK_EQ(gmp_multipool_release(m, gmp_deadline(PATIENCE)), -EPIPE);
	CHECK_EQ(gmp_multipool_submit(m, NULL, NULL), -EPIPE);
	CHECK_EQ(gmp_multipool_running(m), 0);
}

RT(multipool_spreads_tasks_evenly)
{
	static const gmp_spread spreads[] = { GMP_ROUND_ROBIN, GMP_LEAST_BUSY };

	for (int i = 0; i < 2; i++) {
		gmp_multipool *m = gmp_multipool_new(10, 5, spreads[i], NULL);

		CHECK(m != NULL);
		fill_evenly(m);
		CHECK_EQ(gmp_multipool_reboot(m), 0);
		fill_evenly(m);
		gmp_multipool_free(m);
	}
}

RT(multipool_skips_full_pool)
{
	gmp_pool_opts o = GMP_POOL_OPTS_INIT;

	o.nonblocking = 1;
	o.fn = gate_task;
	gmp_multipool *m = gmp_multipool_new(3, 2, GMP_ROUND_ROBIN, &o);

	for (int i = 0; i < 2; i++)
		submit(gmp_multipool_at(m, 0), gate_task, NULL);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(gmp_multipool_invoke(m, NULL), 0);
	CHECK_EQ(gmp_multipool_invoke(m, NULL), -EAGAIN);
	CHECK_EQ(gmp_multipool_resize(m, 3), 0);
	CHECK_EQ(gmp_multipool_capacity(m), 9);
	CHECK_EQ(gmp_multipool_invoke(m, NULL), 0);
	let_through(7);
	gmp_multipool_free(m);
	CHECK_EQ(atomic_load(&ended), 7);
}

static void keep_submitting(void *arg)
{
	for (int i = 0, n = (int)check_scaled(1000); i < n; i++)
		CHECK_EQ(gmp_multipool_submit(arg, yield_task, (void *)(intptr_t)(i % 2)), 0);
}

RT(multipool_full_makes_submitters_wait)
{
	gmp_multipool *m = gmp_multipool_new(3, 2, GMP_ROUND_ROBIN, NULL);
	gmp_g *g[6];

	for (int i = 0; i < 6; i++)
		g[i] = spawn(keep_submitting, m);
	for (int i = 0; i < 6; i++)
		join(g[i]);
	CHECK_EQ(gmp_multipool_release(m, GMP_FOREVER), 0);
	CHECK_EQ(atomic_load(&ended), 6 * check_scaled(1000));
	CHECK(atomic_load(&most_inside) <= 6);
	gmp_multipool_free(m);
}

RT(multipool_reboot_after_release_timeout_works)
{
	static const gmp_spread spreads[] = { GMP_ROUND_ROBIN, GMP_LEAST_BUSY };
	gmp_pool_opts o = GMP_POOL_OPTS_INIT;

	o.fn = gate_task;
	for (int i = 0; i < 2; i++) {
		gmp_multipool *m = gmp_multipool_new(10, 5, spreads[i], &o);

		for (int round = 0; round < 2; round++) {
			for (int k = 0; k < 50; k++)
				CHECK_EQ(gmp_multipool_invoke(m, NULL), 0);
			CHECK_EQ(gmp_multipool_release(m, 0), -ETIMEDOUT);
			CHECK_EQ(gmp_multipool_invoke(m, NULL), -EPIPE);
			CHECK_EQ(gmp_multipool_release(m, GMP_FOREVER), -EPIPE);
			CHECK_EQ(gmp_multipool_running(m), 50);
			let_through(50);
			WAIT_FOR(gmp_multipool_running(m) == 0);
			CHECK_EQ(gmp_multipool_reboot(m), 0);
		}
		gmp_multipool_free(m);
	}
	CHECK_EQ(atomic_load(&ended), 200);
}

static void submit_during_release(void *arg)
{
	come_in();
	gmp_sem_acquire(&gate);
	for (int i = 0; i < 6; i++)
		CHECK_EQ(gmp_multipool_submit(arg, count_task, NULL), -EPIPE);
	go_out();
}

static void free_multipool(void *arg)
{
	gmp_multipool_free(arg);
}

RT(multipool_submit_by_task_during_release_returns_epipe)
{
	for (int released = 0; released < 2; released++) {
		gmp_multipool *m = gmp_multipool_new(3, 2, GMP_ROUND_ROBIN, NULL);

		submit(gmp_multipool_at(m, released), submit_during_release, m);
		if (released)
			CHECK_EQ(gmp_multipool_release(m, 0), -ETIMEDOUT);
		gmp_g *g = spawn(free_multipool, m);

		wait_parked(2); /* the task, and the G that frees m */
		let_through(1);
		join(g);
		CHECK_EQ(atomic_load(&ended), released + 1);
	}
}

static void free_own(void *arg)
{
	gmp_multipool_free(arg);
	go_out();
}

RT(multipool_free_by_own_task_works)
{
	gmp_multipool *m = gmp_multipool_new(3, 2, GMP_ROUND_ROBIN, NULL);

	for (int i = 0; i < 3; i++)
		submit(gmp_multipool_at(m, i), gate_task, NULL);
	submit(gmp_multipool_at(m, 1), free_own, m);
	wait_parked(4);
	let_through(3);
	WAIT_FOR(atomic_load(&ended) == 4);
	WAIT_FOR(stats().greens == 1);
}

RT(multipool_capacity_saturates_at_int_max)
{
	for (int n = 1; n <= 5; n++) {
		gmp_multipool *m = gmp_multipool_new(n, 1 << 30, GMP_ROUND_ROBIN, NULL);

		CHECK_EQ(gmp_multipool_capacity(m), n == 1 ? 1 << 30 : INT_MAX);
		gmp_multipool_free(m);
	}
}

RT(multipool_bad_arguments_are_rejected)
{
	gmp_pool_opts o = GMP_POOL_OPTS_INIT;

	CHECK(gmp_multipool_new(0, 1, GMP_ROUND_ROBIN, NULL) == NULL);
	CHECK(gmp_multipool_new(-1, 1, GMP_ROUND_ROBIN, NULL) == NULL);
	CHECK(gmp_multipool_new(1, 1, (gmp_spread)9, NULL) == NULL);
	o.idle_ns = -1;
	CHECK(gmp_multipool_new(3, 1, GMP_ROUND_ROBIN, &o) == NULL);
	gmp_multipool *m = gmp_multipool_new(2, -1, GMP_LEAST_BUSY, NULL);

	CHECK_EQ(gmp_multipool_capacity(m), -1);
	CHECK_EQ(gmp_multipool_submit(m, NULL, NULL), -EINVAL);
	CHECK_EQ(gmp_multipool_invoke(m, NULL), -EINVAL);
	gmp_multipool_free(m);
	gmp_multipool_free(NULL);
	CHECK_EQ(gmp_multipool_submit(NULL, count_task, NULL), -EINVAL);
	CHECK_EQ(gmp_multipool_running(NULL), -EINVAL);
	CHECK_EQ(gmp_multipool_release(NULL, 0), -EINVAL);
	CHECK_EQ(gmp_multipool_reboot(NULL), -EINVAL);
	CHECK_EQ(gmp_multipool_resize(NULL, 1), -EINVAL);
}

static gmp_multipool *of_run;

static void make_and_release(void *release)
{
	of_run = gmp_multipool_new(2, 1, GMP_ROUND_ROBIN, NULL);
	if (release)
		CHECK_EQ(gmp_multipool_release(of_run, GMP_FOREVER), 0);
}

TEST(multipool_of_ended_run_returns_esrch)
{
	for (int released = 0; released < 2; released++) {
		run_procs(1, make_and_release, released ? &of_run : NULL);
		CHECK_EQ(gmp_multipool_submit(of_run, count_task, NULL), -ESRCH);
		CHECK_EQ(gmp_multipool_release(of_run, 0), -ESRCH);
		CHECK_EQ(gmp_multipool_release(of_run, 0), -ESRCH);
		CHECK_EQ(gmp_multipool_running(of_run), -ESRCH);
		gmp_multipool_free(of_run);
	}
}
