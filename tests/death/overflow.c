/* SPDX-License-Identifier: MIT */
/* Stack overflow by endless recursion on a stack of the default size. */
#include <gmp.h>

#include "dig.h"

static void miner(void *arg)
{
	(void)arg;
	dig(0);
}

static void app(void *arg)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g;

	(void)arg;
	a.name = "worker";
	a.stack_size = 0;
	if (gmp_spawn(&g, miner, NULL, &a) == 0)
		gmp_join(g);
}

int main(void)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.stack_size = 256 << 10;
	gmp_run(app, NULL, &c);
	return 0;
}
