/* SPDX-License-Identifier: MIT */
/* What gmp_once promises. */
#include "util.h"

enum { N = 16 };

static gmp_once o;
static int value; /* plain: published by the once */
static atomic_int runs, seen;
static gmp_wg gate;

static void set(UNUSED void *arg)
{
	atomic_fetch_add(&runs, 1);
	gmp_yield();
	gmp_cancel_mask(1);
	CHECK_EQ(gmp_wg_wait(&gate), 0);
	gmp_cancel_mask(0);
	value = 42;
}

static void do_it(UNUSED void *arg)
{
	CHECK_EQ(gmp_once_do(&o, set, NULL), 0);
	CHECK_EQ(value, 42);
	atomic_fetch_add(&seen, 1);
}

RT(it_runs_once_and_the_others_wait_for_its_end)
{
	gmp_g *g[N];
	struct foreign f;

	o = (gmp_once)GMP_ONCE_INIT;
	value = 0;
	atomic_store(&runs, 0);
	atomic_store(&seen, 0);
	gmp_wg_add(&gate, 1);
	for (int i = 0; i < N; i++)
		g[i] = spawn(do_it, NULL);
	wait_parked(N);
	foreign_start(&f, do_it, NULL);
	for (int i = 0; i < N; i++)
		CHECK_EQ(gmp_cancel(g[i]), 0); /* it is not cut short */
	for (int i = 0; i < 10; i++)
		gmp_yield();
	CHECK_EQ(atomic_load(&seen), 0);
	gmp_wg_done(&gate);
	for (int i = 0; i < N; i++)
		join(g[i]);
	foreign_join(&f);
	do_it(NULL);
	CHECK_EQ(atomic_load(&runs), 1);
	CHECK_EQ(atomic_load(&seen), N + 2);
}

static void set_and_exit(UNUSED void *arg)
{
	atomic_fetch_add(&runs, 1);
	gmp_yield();
	gmp_exit();
}

static void do_and_exit(UNUSED void *arg)
{
	gmp_once_do(&o, set_and_exit, NULL);
	atomic_fetch_add(&seen, 1);
}

RT(one_that_exits_in_it_has_done_it)
{
	gmp_g *g[N];

	o = (gmp_once)GMP_ONCE_INIT;
	atomic_store(&runs, 0);
	atomic_store(&seen, 0);
	for (int i = 0; i < N; i++)
		g[i] = spawn(do_and_exit, NULL);
	for (int i = 0; i < N; i++)
		join(g[i]);
	CHECK_EQ(atomic_load(&runs), 1);
	CHECK_EQ(atomic_load(&seen), N - 1);
}

static gmp_once inner;

static void count_inner(UNUSED void *arg)
{
	atomic_fetch_add(&runs, 1);
}

static void nest(UNUSED void *arg)
{
	CHECK_EQ(gmp_once_do(&inner, count_inner, NULL), 0);
	atomic_fetch_add(&runs, 1);
}

RT(one_may_run_in_another)
{
	o = inner = (gmp_once)GMP_ONCE_INIT;
	atomic_store(&runs, 0);
	CHECK_EQ(gmp_once_do(&o, nest, NULL), 0);
	CHECK_EQ(gmp_once_do(&o, nest, NULL), 0);
	CHECK_EQ(atomic_load(&runs), 2);
}
