/* SPDX-License-Identifier: MIT */
/*
 * What does it cost to say that a call may block, and what do fifty calls that do block cost the others?
 *
 * "block/short": one gmp_block_enter and gmp_block_leave around nothing.
 * "block/50:wall": until fifty green threads have slept 200 ms in the kernel, all at once.
 * "block/50:lost": what share of its pace a green thread loses that computes meanwhile.
 */
#include "shim.h"

#include <gmp.h>
#include <time.h>

static void short_section(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t t0 = 0, t1;

	for (int64_t i = -c->count / 8; i < c->count; i++) {
		if (i == 0)
			t0 = bench_clock();
		gmp_block_enter();
		gmp_block_leave();
	}
	t1 = bench_clock();
	bench_time(st, t1 - t0, c->count);
}

/* --- fifty at once --- */

enum { SLEEP_NS = 200000000 };

static gmp_wg done, ended;
static int64_t turns, stop;

static void sleep_in_kernel(void *arg)
{
	struct timespec t = { 0, SLEEP_NS };

	(void)arg;
	gmp_block_enter();
	while (nanosleep(&t, &t) < 0)
		;
	gmp_block_leave();
	gmp_wg_done(&done);
}

/* A turn is some microseconds of arithmetic. */
static void compute(void *arg)
{
	volatile uint64_t x = 1;

	(void)arg;
	while (!bench_load(&stop)) {
		for (int i = 0; i < 4000; i++)
			x = x * 3 + 1;
		bench_add(&turns, 1);
		gmp_checkpoint();
	}
	gmp_wg_done(&ended);
}

/* Turns a nanosecond while n sleep; the wall time until all of these have ended. */
static double pace(int64_t n, int64_t *wall)
{
	int64_t t0, had;

	turns = stop = 0;
	gmp_wg_add(&ended, 1);
	bench_check(gmp_go(compute, NULL) == 0, "gmp_go");
	gmp_sleep(20000000); /* it has begun, and the CPU has its pace */
	gmp_wg_add(&done, (int)n);
	had = bench_load(&turns);
	t0 = bench_clock();
	for (int64_t i = 0; i < n; i++)
		bench_check(gmp_go(sleep_in_kernel, NULL) == 0, "gmp_go");
	if (n == 0)
		gmp_sleep(SLEEP_NS);
	gmp_wg_wait(&done);
	*wall = bench_clock() - t0;
	had = bench_load(&turns) - had;
	bench_store(&stop, 1);
	gmp_wg_wait(&ended);
	return (double)had / (double)*wall;
}

static void fifty(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t alone_wall, wall;
	double alone = pace(0, &alone_wall), beside = pace(c->n, &wall);

	bench_check(wall >= SLEEP_NS, "woke too early");
	bench_value(st, "wall", "ms", (double)wall / 1e6);
	bench_value(st, "lost", "percent", beside < alone ? 100 - 100 * beside / alone : 0);
}

BENCH(short_section, "block/short", .procs = 1, .count = 2000000);
BENCH(fifty, "block/50", .procs = 2, .n = 50, .count = 1);
