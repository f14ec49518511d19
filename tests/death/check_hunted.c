/* SPDX-License-Identifier: MIT */
/*
 * With GMP_DEBUG=check, a green thread that loses its P before it has slept for 10 ms is reported
 * when it has, once for each place: sysmon takes the P of the first sleeper after 10 ms, and polls
 * fast for further sleepers from then on.  All sleep until they are reported.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include <gmp.h>

#include "told.h"

static atomic_int failed;
static int gate[2][2]; /* pipes: a round ends when its write end is closed */

#define NO_JUMP() __asm__ volatile("" ::: "memory") /* prevents a tail call before it */

/* A function that sleeps, and a G that calls it with the read end of a gate. */
#define SLEEPER(name)                                                                              \
	__attribute__((noinline)) void sleep_##name(int fd)                                        \
	{                                                                                          \
		char c;                                                                            \
                                                                                                   \
		if (read(fd, &c, 1) != 0)                                                          \
			atomic_store(&failed, 1);                                                  \
	}                                                                                          \
	static void name(void *fd)                                                                 \
	{                                                                                          \
		sleep_##name(*(int *)fd);                                                          \
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

static void run_gs(int n, int *fd)
{
	gmp_g *g[N];

	for (int i = 0; i < n; i++)
		if (gmp_spawn(&g[i], round_of[i], fd, NULL))
			exit(2);
	for (int i = 0; i < n; i++)
		gmp_join(g[i]);
}

/* First sleep_first alone: to write a finding takes sysmon many milliseconds, in which it would not
 * poll. */
static void app(void *arg)
{
	(void)arg;
	run_gs(1, &gate[0][0]);
	run_gs(N, &gate[1][0]);
}

static void *open_gates(void *arg)
{
	static const char *const first_told[] = { " (entry first) sleeps" };
	static const char *const all_told[] = { " (entry a) sleeps", " (entry b) sleeps",
						" (entry c) sleeps", " (entry d) sleeps" };

	await_all_told(first_told, 1);
	close(gate[0][1]);
	await_all_told(all_told, 4);
	close(gate[1][1]);
	return arg;
}

int main(void)
{
	gmp_config c = GMP_CONFIG_INIT;
	pthread_t t;

	setenv("GMP_DEBUG", "check", 1);
	setenv("GMP_SCHED", "local", 1); /* FIFO order */
	c.procs = 1;
	if (pipe(gate[0]) || pipe(gate[1]) || pthread_create(&t, NULL, open_gates, NULL))
		return 2;
	return gmp_run(app, NULL, &c) || pthread_join(t, NULL) || atomic_load(&failed);
}
