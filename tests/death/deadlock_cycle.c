/* SPDX-License-Identifier: MIT */
/*
 * Deadlock of two green threads that lock two mutexes in opposite orders: the report shows the
 * cycle.
 */
#include <gmp.h>

static gmp_mutex fork_l = GMP_MUTEX_INIT, fork_r = GMP_MUTEX_INIT;
static gmp_barrier both_hold = GMP_BARRIER_INIT(2);

static void eat_left_first(void *arg)
{
	(void)arg;
	gmp_mutex_lock(&fork_l);
	gmp_barrier_wait(&both_hold);
	gmp_mutex_lock(&fork_r);
}

static void eat_right_first(void *arg)
{
	(void)arg;
	gmp_mutex_lock(&fork_r);
	gmp_barrier_wait(&both_hold);
	gmp_mutex_lock(&fork_l);
}

static void app(void *arg)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g[2];

	(void)arg;
	a.name = "platon";
	if (gmp_spawn(&g[0], eat_left_first, NULL, &a) != 0)
		return;
	a.name = "kant";
	if (gmp_spawn(&g[1], eat_right_first, NULL, &a) != 0)
		return;
	gmp_join(g[0]);
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
