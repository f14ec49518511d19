/* SPDX-License-Identifier: MIT */
/*
 * Two green threads that run one after the other on one P, with GMP_DEBUG=check: first() up to its
 * wait, second(), the rest of first(). This happens twice; the first green thread of each pair has
 * a name.
 */
#ifndef TESTS_DEATH_PAIR_H
#define TESTS_DEATH_PAIR_H

#include <stdlib.h>

#include <gmp.h>

static void first(void *arg);
static void second(void *arg);

static void pair(const char *name)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g[2];

	a.name = name;
	if (gmp_spawn(&g[0], first, NULL, &a) || gmp_spawn(&g[1], second, NULL, NULL))
		exit(2);
	gmp_join(g[0]);
	gmp_join(g[1]);
}

static void app(void *arg)
{
	(void)arg;
	pair("waits");
	pair("again");
}

static int run_pairs(void)
{
	gmp_config c = GMP_CONFIG_INIT;

	setenv("GMP_DEBUG", "check", 1);
	setenv("GMP_SCHED", "local", 1); /* FIFO order */
	c.procs = 1;
	return gmp_run(app, NULL, &c) != 0;
}

#endif
