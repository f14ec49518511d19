/* SPDX-License-Identifier: MIT */
/*
 * Deadlock of two onces whose functions wait for each other: the report names the runner of each.
 */
#include <gmp.h>

static gmp_once first = GMP_ONCE_INIT, second = GMP_ONCE_INIT;
static gmp_barrier both_run = GMP_BARRIER_INIT(2);

static void nothing(void *arg)
{
	(void)arg;
}

static void then_second(void *arg)
{
	(void)arg;
	gmp_barrier_wait(&both_run);
	gmp_once_do(&second, nothing, NULL);
}

static void then_first(void *arg)
{
	(void)arg;
	gmp_barrier_wait(&both_run);
	gmp_once_do(&first, nothing, NULL);
}

static void begin_first(void *arg)
{
	(void)arg;
	gmp_once_do(&first, then_second, NULL);
}

static void begin_second(void *arg)
{
	(void)arg;
	gmp_once_do(&second, then_first, NULL);
}

static void app(void *arg)
{
	gmp_g *g[2];

	(void)arg;
	if (gmp_spawn(&g[0], begin_first, NULL, NULL) != 0 ||
	    gmp_spawn(&g[1], begin_second, NULL, NULL) != 0)
		return;
	gmp_join(g[0]);
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
