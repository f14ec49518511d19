/* SPDX-License-Identifier: MIT */
/*
 * Deadlock of 200 green threads that each hold a mutex and wait for the next: the cycle is one
 * line.
 */
#include <gmp.h>

enum { N = 200 };

static gmp_mutex mutexes[N];
static gmp_barrier all_hold = GMP_BARRIER_INIT(N);

static void hold_and_want(void *arg)
{
	gmp_mutex *mine = arg, *next = mine == &mutexes[N - 1] ? mutexes : mine + 1;

	gmp_mutex_lock(mine);
	gmp_barrier_wait(&all_hold);
	gmp_mutex_lock(next);
}

static void app(void *arg)
{
	gmp_g *g = NULL;

	(void)arg;
	for (int i = 0; i < N; i++) {
		if (gmp_spawn(&g, hold_and_want, &mutexes[i], NULL) != 0)
			return;
	}
	gmp_join(g);
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
