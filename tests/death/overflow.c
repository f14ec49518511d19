/* SPDX-License-Identifier: MIT */
/* Endless recursion on a stack of the default size. */
#include <gmp.h>

int dig(volatile int depth);

__attribute__((noinline)) int dig(volatile int depth)
{
	volatile char earth[200];

	earth[0] = (char)depth;
	return depth < 0 ? 0 : dig(depth + 1) + earth[0];
}

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
