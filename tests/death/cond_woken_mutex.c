/* SPDX-License-Identifier: MIT */
/* Waiting on a condition variable with a mutex that is unlocked, but for which somebody has just been
 * woken: its word is not 0. */
#include <gmp.h>

static gmp_mutex m = GMP_MUTEX_INIT;
static gmp_cond c = GMP_COND_INIT;
static volatile int survived;

static void rival(void *arg)
{
	(void)arg;
	for (;;) {
		gmp_mutex_lock(&m);
		gmp_mutex_unlock(&m);
		gmp_yield();
	}
}

static void culprit(void *arg)
{
	(void)arg;
	for (;;) {
		gmp_mutex_lock(&m);
		for (int i = 0; i < 5; i++)
			gmp_yield(); /* the rival waits now */
		gmp_mutex_unlock(&m);
		if (gmp_mutex_try_lock(&m) == 0) { /* else it was handed over */
			gmp_mutex_unlock(&m);
			gmp_cond_wait(&c, &m);
			survived = 1;
		}
		gmp_yield();
	}
}

static void app(void *arg)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g;

	(void)arg;
	gmp_go(rival, NULL);
	a.name = "the-culprit";
	if (gmp_spawn(&g, culprit, NULL, &a) == 0)
		gmp_join(g);
}

int main(void)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.procs = 1;
	gmp_run(app, NULL, &cfg);
	return 0;
}
