/* SPDX-License-Identifier: MIT */
/* Deadlock of hundreds of green threads that wait alike. */
#ifndef TESTS_DEATH_ALIKE_H
#define TESTS_DEATH_ALIKE_H

#include <gmp.h>

static gmp_wg never = GMP_WG_INIT;
static volatile int woken; /* so that no call is a jump */

static void stuck(void *arg)
{
	(void)arg;
	gmp_wg_wait(&never);
	woken = 1;
}

/* One call site, also if the compiler peels the first call off the loop. */
__attribute__((noinline)) static int make_stuck(void)
{
	int err = gmp_go(stuck, NULL);

	__asm__ volatile("");
	return err;
}

static void app(void *arg)
{
	(void)arg;
	gmp_wg_add(&never, 1);
	for (int i = 0; i < 300; i++)
		if (make_stuck())
			return;
	gmp_wg_wait(&never);
	woken = 1;
}

static int run_alike(void)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.procs = 1;
	return gmp_run(app, NULL, &cfg);
}

#endif
