/* SPDX-License-Identifier: MIT */
/* A timer that is due, but whose run no green thread is left for, does not prevent the report of a
 * deadlock of all green threads. */
#include "deadlock_util.h"

static void never_runs(void *arg)
{
	(void)arg;
}

static void stay(void *arg)
{
	(void)arg;
	wait_forever();
}

static void app(void *arg)
{
	gmp_timer *t = gmp_timer_new(never_runs, NULL);

	(void)arg;
	while (gmp_go(stay, NULL) == 0)
		;
	NEED(gmp_timer_set(t, gmp_deadline(GMP_MS), 0) == 0);
	wait_forever();
}

int main(void)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = 2;
	c.max_green = 10;
	gmp_run(app, NULL, &c);
	return 0;
}
