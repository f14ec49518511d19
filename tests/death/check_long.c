/* SPDX-License-Identifier: MIT */
/*
 * With GMP_DEBUG=check, a green thread that computes for more than 10 ms is reported once, with the
 * place in the program (not in gmp) and advice. It compares times: it needs a CPU.
 */
#include <stdlib.h>

#include <gmp.h>

#include "told.h"

/* Compute until it is reported: sysmon may get the CPU late. */
__attribute__((noinline)) void compute(void)
{
	for (int i = 0; i < 100; i++) {
		for (int64_t end = gmp_deadline(200000000); gmp_now() < end;)
			;
		if (told(" computed for "))
			break;
	}
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
