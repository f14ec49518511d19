/* SPDX-License-Identifier: MIT */
/* Deadlock of green threads that begin to wait while they run without a P: sysmon took it. */
#include <stdatomic.h>

#include <gmp.h>

static gmp_wg never = GMP_WG_INIT;
static atomic_int taken;

/* It computes until both Ps have been taken, and then waits. */
static void compute_and_wait(void *arg)
{
	(void)arg;
	while (!atomic_load(&taken))
		;
	gmp_wg_wait(&never);
}

static void watch(void *arg)
{
	gmp_stats s = GMP_STATS_INIT;

	(void)arg;
	while (!atomic_load(&taken)) {
		gmp_yield();
		gmp_stats_get(&s);
		if (s.preempted == 2)
			atomic_store(&taken, 1);
	}
}

static void app(void *arg)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g;

	(void)arg;
	gmp_wg_add(&never, 1);
	a.name = "computer";
	for (int i = 0; i < 2; i++)
		if (gmp_spawn(&g, compute_and_wait, NULL, &a) != 0)
			return;
	for (int i = 0; i < 3; i++) /* as long as they yield, they want both Ps */
		if (gmp_go(watch, NULL) != 0)
			return;
	gmp_wg_wait(&never);
}

int main(void)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = 2;
	gmp_run(app, NULL, &c);
	return 0;
}
