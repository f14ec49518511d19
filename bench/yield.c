/* SPDX-License-Identifier: MIT */
/*
 * Measures gmp_yield with n runnable green threads.
 *
 * The first green thread and n - 1 others only yield.  The first G measures the time of a number of
 * its own yields.  The yields of the others are counted exactly, because a scheduler need not be
 * strictly FIFO.  Each of the others counts in a local variable (a shared counter would cost a
 * cache line), and
 *
 *	resumes between t0 and t1  =  1 (the G that saw `go`)  +  count  -  1 (the one after t1).
 *
 * With one P that is exact; with two it is off by at most one round.
 *
 * Fairness: each of the others (on average, with several Ps) must have yielded at least a quarter
 * as often as the first G, otherwise the row fails.  A scheduler that alternates between few Gs,
 * while most wait, does less work than the row measures.
 */
#include "shim.h"

#include <gmp.h>
#include <stdlib.h>

static int go, stop;
static int64_t arrived, left;

static void other(void *arg)
{
	int64_t *out = arg, n = 0;

	bench_add(&arrived, 1);
	while (!bench_load(&go))
		gmp_yield();
	while (!bench_load(&stop)) {
		gmp_yield();
		n++;
	}
	*out = n;
	bench_add(&left, 1);
}

static void yield(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t others = c->n - 1, rounds = c->count / c->n, total = rounds, least = rounds;
	int64_t t0, t1;
	int64_t *counts = calloc((size_t)others, sizeof(*counts));

	bench_check(counts, "no memory");
	go = stop = 0;
	arrived = left = 0;
	for (int64_t i = 0; i < others; i++) {
		int err = gmp_go(other, &counts[i]);

		bench_check(err == 0, "gmp_go: %d", err);
	}
	/* Wait until all have their stacks, and run a few rounds to warm up. */
	while (bench_load(&arrived) < others)
		gmp_yield();
	for (int64_t i = 0; i < rounds / 8 + 2; i++)
		gmp_yield();

	t0 = bench_clock();
	bench_store(&go, 1);
	for (int64_t i = 0; i < rounds; i++)
		gmp_yield();
	t1 = bench_clock();
	bench_store(&stop, 1);

	while (bench_load(&left) < others)
		gmp_yield();
	for (int64_t i = 0; i < others; i++) {
		total += counts[i];
		least = counts[i] < least ? counts[i] : least;
	}
	/* With several Ps, the Gs of an OS thread that the kernel preempts wait; and with a P for
	 * each G, the Gs need not alternate at all. */
	if (c->procs > 1)
		least = c->n > c->procs ? total / c->n : rounds;
	bench_check(least >= rounds / 4, "unfair: one yielded %lld times, another %lld times",
		    (long long)rounds, (long long)least);
	bench_time(st, t1 - t0, total);
	free(counts);
}

BENCH(yield, "yield/2", .procs = 1, .n = 2, .count = 4000000);
BENCH(yield, "yield/1000", .procs = 1, .n = 1000, .count = 4000000);
BENCH(yield, "yield/100000", .procs = 1, .n = 100000, .count = 2000000);
BENCH(yield, "yield/2", .procs = 2, .n = 2, .count = 4000000);
BENCH(yield, "yield/1000", .procs = 2, .n = 1000, .count = 4000000);
BENCH(yield, "yield/100000", .procs = 2, .n = 100000, .count = 2000000);
