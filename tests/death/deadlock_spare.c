/* SPDX-License-Identifier: MIT */
/* The thread that makes spare OS threads, once many green threads have computed, does not prevent
 * the report of a deadlock. */
#include <stdatomic.h>

#include "deadlock_util.h"

enum { GS = 8 };

static atomic_int all_preempted;

static void compute(void *arg)
{
	(void)arg;
	while (!atomic_load(&all_preempted))
		;
}

/* It becomes runnable again and again, so the computing green threads lose the P. */
static void watch(void *arg)
{
	gmp_stats s = GMP_STATS_INIT;

	(void)arg;
	while (s.preempted < GS) {
		gmp_sleep(GMP_MS);
		gmp_stats_get(&s);
	}
	atomic_store(&all_preempted, 1);
}

static void app(void *arg)
{
	(void)arg;
	for (int i = 0; i < GS; i++)
		NEED(gmp_go(compute, NULL) == 0);
	NEED(gmp_go(watch, NULL) == 0);
	wait_forever();
}

int main(void)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = 1;
	gmp_run(app, NULL, &c);
	return 0;
}
