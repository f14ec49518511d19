/* SPDX-License-Identifier: MIT */
/* Waiting on a condition variable with a mutex that is unlocked, but for which somebody has just been
 * woken: its word is not 0. */
#include "culprit.h"

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
	(void)arg;
	gmp_go(rival, NULL);
	run_culprit(culprit);
}

int main(void)
{
	return run_on_one_p(app);
}
