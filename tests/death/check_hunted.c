/* SPDX-License-Identifier: MIT */
/*
 * With GMP_DEBUG=check, a green thread that loses its P before it has slept for 10 ms is reported
 * when it has, once for each place: sysmon takes the P of the first sleeper after 10 ms, and hunts
 * for further sleepers from then on.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <gmp.h>

#include "told.h"

static atomic_int failed;

static const struct timespec length = { .tv_nsec = 200000000 };

#define NO_JUMP() __asm__ volatile("" ::: "memory") /* prevents a tail call before it */

/* A function that sleeps, and a G that calls it. */
#define SLEEPER(name)                                                                              \
	__attribute__((noinline)) void sleep_##name(void)                                          \
	{                                                                                          \
		if (nanosleep(&length, NULL) != 0)                                                 \
			atomic_store(&failed, 1);                                                  \
	}                                                                                          \
	static void name(void *arg)                                                                \
	{                                                                                          \
		(void)arg;                                                                         \
		sleep_##name();                                                                    \
		NO_JUMP();                                                                         \
	}

SLEEPER(first)
SLEEPER(a)
SLEEPER(b)
SLEEPER(c)
SLEEPER(d)

/* The last sleepers keep their Ps, since no G is queued any more. */
static const gmp_fn round_of[] = {
	first, first, first, a, b, c, d, a, b, c, d, first, first, first
};

enum { N = sizeof(round_of) / sizeof(round_of[0]) };

static void run_gs(int n)
{
	gmp_g *g[N];

	for (int i = 0; i < n; i++)
		if (gmp_spawn(&g[i], round_of[i], NULL, NULL))
			exit(2);
	for (int i = 0; i < n; i++)
		gmp_join(g[i]);
}

/* First sleep_first alone: to write a finding takes sysmon many milliseconds, in which it would not
 * hunt. */
static void app(void *arg)
{
	(void)arg;
	run_gs(1);
	run_gs(N);
}

static int all_told(void)
{
	return told(" (entry a) sleeps") && told(" (entry b) sleeps") &&
	       told(" (entry c) sleeps") && told(" (entry d) sleeps");
}

int main(void)
{
	gmp_config c = GMP_CONFIG_INIT;

	setenv("GMP_DEBUG", "check", 1);
	setenv("GMP_SCHED", "local", 1); /* FIFO order */
	c.procs = 1;
	for (int i = 0; i < 3 && !all_told(); i++) /* sysmon may get the CPU late */
		if (gmp_run(app, NULL, &c) || atomic_load(&failed))
			return 2;
	return 0;
}
