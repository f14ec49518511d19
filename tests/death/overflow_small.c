/* SPDX-License-Identifier: MIT */
/* Stack overflow by endless recursion on a small stack set in gmp_attr, beside 999 other Gs. */
#include <gmp.h>

#include "dig.h"

static gmp_wg gate = GMP_WG_INIT;

static void other(void *arg)
{
	(void)arg;
	gmp_wg_wait(&gate);
}

static void miner(void *arg)
{
	(void)arg;
	gmp_yield();
	dig(0);
}

static void app(void *arg)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g;

	(void)arg;
	gmp_wg_add(&gate, 1);
	a.stack_size = 64 << 10;
	for (int i = 0; i < 1000; i++) {
		a.name = i == 500 ? "digger" : "idler";
		if (gmp_spawn(&g, i == 500 ? miner : other, NULL, &a) != 0)
			return;
	}
	gmp_wg_wait(&gate);
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
