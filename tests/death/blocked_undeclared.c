/* SPDX-License-Identifier: MIT */
/*
 * With GMP_DEBUG=sched, a green thread that sleeps in the kernel without gmp_block_enter is
 * reported once while it keeps other Gs from running.
 */
#include <stdlib.h>
#include <unistd.h>

#include <gmp.h>

#include "told.h"

static int ends[2];
static volatile long got; /* so that no call is a jump */

static __attribute__((noinline)) void read_it(void)
{
	char c;

	for (int i = 0; i < 2; i++)
		got += read(ends[0], &c, 1);
}

static void sleeper(void *arg)
{
	(void)arg;
	read_it();
	got++;
}

static void app(void *arg)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g;

	(void)arg;
	a.name = "reader";
	if (pipe(ends) || gmp_spawn(&g, sleeper, NULL, &a))
		return;
	for (int i = 0; i < 2; i++) {
		gmp_yield(); /* to the reader; returns only on another M */
		gmp_sleep(30000000);
		if (write(ends[1], "x", 1) != 1)
			return;
	}
	gmp_join(g);
	gmp_block_enter();
	await_told(" sleeper+0x");
	gmp_block_leave();
	_exit(got == 3 ? 3 : 1);
}

int main(void)
{
	gmp_config c = GMP_CONFIG_INIT;

	setenv("GMP_DEBUG", "sched", 1);
	c.procs = 1;
	gmp_run(app, NULL, &c);
	return 0;
}
