/* SPDX-License-Identifier: MIT */
/* All wait, each on a thread of its own. */
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

static void app(void *arg)
{
	gmp_g *g;

	(void)arg;
	gmp_lock_thread();
	gmp_wg_add(&never, 1);
	for (int i = 0; i < 3; i++)
		if (gmp_spawn(&g, stuck, NULL, NULL))
			return;
	gmp_join(g);
	woken = 1;
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
