/* SPDX-License-Identifier: MIT */
/* With GMP_DEBUG=check: a green thread that runs for more than 10 ms without a wait is told of, once. */
#include <stdlib.h>

#include <gmp.h>

__attribute__((noinline)) void compute(void)
{
	int64_t end = gmp_deadline(200000000);

	while (gmp_now() < end)
		;
}

static void busy(void *arg)
{
	(void)arg;
	compute();
}

static void app(void *arg)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g;

	(void)arg;
	a.name = "cruncher";
	if (gmp_spawn(&g, busy, NULL, &a) == 0)
		gmp_join(g);
}

int main(void)
{
	setenv("GMP_DEBUG", "check", 1);
	return gmp_run(app, NULL, NULL) != 0;
}
