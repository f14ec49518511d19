/* SPDX-License-Identifier: MIT */
/* Deadlock in which the last Gs start to wait on Ps that gmp_set_procs has removed. */
#include <stdatomic.h>

#include <gmp.h>

static gmp_wg never = GMP_WG_INIT;
static atomic_int running;

static void run_and_wait(void *arg)
{
	int64_t until;

	(void)arg;
	atomic_fetch_add(&running, 1);
	while (atomic_load(&running) < 4)
		;
	until = gmp_now() + 10000000;
	while (gmp_now() < until)
		;
	gmp_wg_wait(&never);
}

static void app(void *arg)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g;

	(void)arg;
	gmp_wg_add(&never, 1);
	a.name = "spinner";
	for (int i = 0; i < 3; i++) {
		if (gmp_spawn(&g, run_and_wait, NULL, &a) != 0)
			return;
	}
	while (atomic_load(&running) < 3)
		;
	gmp_set_procs(1);
	atomic_fetch_add(&running, 1);
	gmp_wg_wait(&never);
}

int main(void)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = 4;
	gmp_run(app, NULL, &c);
	return 0;
}
