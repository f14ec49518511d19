/* SPDX-License-Identifier: MIT */
/* GMP_DEBUG=check names a timer whose run began late because max_green green threads were alive. */
#include <stdatomic.h>

#include "deadlock_util.h"

static atomic_int runs;

static void expire(void *arg)
{
	(void)arg;
	atomic_fetch_add(&runs, 1);
}

static void stay(void *arg)
{
	(void)arg;
	gmp_sleep(50 * GMP_MS);
}

static void app(void *arg)
{
	gmp_timer *once = gmp_timer_new(expire, NULL), *often = gmp_timer_new(expire, NULL);

	(void)arg;
	while (gmp_go(stay, NULL) == 0)
		;
	NEED(gmp_timer_set(once, gmp_deadline(GMP_MS), 0) == 0);
	NEED(gmp_timer_set(often, gmp_deadline(GMP_MS), 10 * GMP_MS) == 0);
	while (atomic_load(&runs) < 3)
		gmp_sleep(GMP_MS);
	gmp_timer_free(once);
	gmp_timer_free(often);
}

int main(void)
{
	gmp_config c = GMP_CONFIG_INIT;

	NEED(setenv("GMP_DEBUG", "check", 1) == 0);
	c.procs = 1;
	c.max_green = 10;
	return gmp_run(app, NULL, &c) != 0;
}
