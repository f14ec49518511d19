/* SPDX-License-Identifier: MIT */
/*
 * Deadlock of all green threads: reported with the name of each, status 2, and without atexit
 * functions.
 */
#include <stdio.h>
#include <stdlib.h>

#include <gmp.h>

static gmp_wg never = GMP_WG_INIT;
static volatile int woken; /* so that no call is a jump */

static void wait_for_godot(void *arg)
{
	(void)arg;
	gmp_wg_wait(&never);
	woken = 1;
}

static void app(void *arg)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g;

	(void)arg;
	gmp_wg_add(&never, 1);
	a.name = "vladimir";
	if (gmp_spawn(&g, wait_for_godot, NULL, &a) == 0)
		gmp_join(g);
	woken = 1;
}

static void at_exit(void)
{
	fprintf(stderr, "atexit ran\n");
}

int main(void)
{
	atexit(at_exit);
	gmp_run(app, NULL, NULL);
	return 0;
}
