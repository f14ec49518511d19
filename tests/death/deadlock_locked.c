/* SPDX-License-Identifier: MIT */
/* Deadlock of green threads that are locked to their OS threads. */
#include <gmp.h>

static gmp_wg never = GMP_WG_INIT;
static volatile int woken; /* so that no call is a jump */

static void stuck(void *arg)
{
	(void)arg;
	gmp_lock_thread();
	gmp_wg_wait(&never);
	woken = 1;
}

/* One call site, also if the compiler unrolls the loop. */
__attribute__((noinline)) static gmp_g *make_stuck(void)
{
	gmp_g *g;

	if (gmp_spawn(&g, stuck, NULL, NULL))
		return NULL;
	__asm__ volatile("");
	return g;
}

static void app(void *arg)
{
	gmp_g *g = NULL;

	(void)arg;
	gmp_lock_thread();
	gmp_wg_add(&never, 1);
	for (int i = 0; i < 3; i++)
		if (!(g = make_stuck()))
			return;
	gmp_join(g);
	woken = 1;
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
