/* SPDX-License-Identifier: MIT */
/* Helpers for the tests of the start and end of a run: Gs that loop indefinitely, or wait. */
#ifndef TESTS_RUNTIME_RUNTIME_UTIL_H
#define TESTS_RUNTIME_RUNTIME_UTIL_H

#include "util.h"

static atomic_int ran;

UNUSED static void count_run(UNUSED void *arg)
{
	atomic_fetch_add(&ran, 1);
}

UNUSED static void nothing(UNUSED void *arg)
{
}

UNUSED static void spawn_many(UNUSED void *arg)
{
	gmp_g *g[100];

	for (int i = 0; i < 100; i++)
		g[i] = spawn(count_run, NULL);
	for (int i = 0; i < 100; i++)
		join(g[i]);
}

static atomic_long steps;
static gmp_wg never;

UNUSED static void step_and_yield(UNUSED void *arg)
{
	for (;;) {
		atomic_fetch_add(&steps, 1);
		gmp_yield();
	}
}

UNUSED static void step_and_check(UNUSED void *arg)
{
	for (;;) {
		atomic_fetch_add(&steps, 1);
		gmp_checkpoint();
	}
}

UNUSED static void step_after_sleep(UNUSED void *arg)
{
	gmp_sleep(MS);
	for (;;) {
		atomic_fetch_add(&steps, 1);
		gmp_sleep(10 * US);
	}
}

UNUSED static void check_no_steps(void)
{
	long seen = atomic_load(&steps);

	CHECK_EQ(gmp_sleep(30 * MS), 0);
	CHECK_EQ(atomic_load(&steps), seen);
}

UNUSED static void wait_never(UNUSED void *arg)
{
	gmp_wg_wait(&never);
	CHECK(!"a green thread that was killed at shutdown ran on");
}

UNUSED static void wait_until_done(UNUSED void *arg)
{
	CHECK_EQ(gmp_wg_wait(&never), 0);
}

#endif
