/* SPDX-License-Identifier: MIT */
/*
 * gmp_cond_wait with an unlocked mutex whose word is not 0, because a waiter has just been woken:
 * fatal error.
 */
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
		if (gmp_mutex_try_lock(&m) == 0) { /* otherwise it was handed over */
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
