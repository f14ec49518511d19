/* SPDX-License-Identifier: MIT */
/*
 * A frame larger than the guard puts the stack pointer on a neighbour's untouched stack: the green
 * thread of `digger` calls jump() between two neighbours.
 */
#ifndef TESTS_DEATH_NEIGHBOUR_H
#define TESTS_DEATH_NEIGHBOUR_H

#include <gmp.h>

/* What the test does with the stack pointer there. */
static inline __attribute__((always_inline)) void there(void);

static int __attribute__((noinline)) jump(volatile int depth)
{
	volatile char array[300 << 10]; /* from the top across the whole stack and its guard */

	__asm__ volatile("" : : "r"(array) : "memory"); /* clang would make it smaller */
	array[250 << 10] = (char)depth;
	there();
	return array[250 << 10];
}

static void digger(void *arg)
{
	(void)arg;
	jump(1);
}

static void idler(void *arg)
{
	(void)arg;
	gmp_sleep(GMP_FOREVER);
}

static void app(void *arg)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g;

	(void)arg;
	a.stack_size = 128 << 10;
	gmp_spawn(&g, idler, NULL, &a);
	gmp_spawn(&g, idler, NULL, &a);
	gmp_yield();
	gmp_yield();
	if (gmp_spawn(&g, digger, NULL, &a) == 0)
		gmp_join(g);
}

static int run_digger(void)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = 1;
	return gmp_run(app, NULL, &c);
}

#endif
