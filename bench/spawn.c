/* SPDX-License-Identifier: MIT */
/*
 * Measures the cost of starting a green thread, running it, and waiting for its end.
 *
 * Batches of n green threads are started, and a wait group waits for each batch, so at most n are
 * alive at once.  Each green thread increments a counter, which is atomic with two Ps; with one P
 * it need not be, because green threads are not interrupted.  "join" does the same with gmp_spawn
 * and gmp_join, one at a time.
 */
#include "shim.h"

#include <gmp.h>

static gmp_wg wg;
static int64_t ran;

static void work(void *arg)
{
	(void)arg;
	ran++;
	gmp_wg_done(&wg);
}

static void work_shared(void *arg)
{
	(void)arg;
	bench_add(&ran, 1);
	gmp_wg_done(&wg);
}

static void batch(int64_t n, gmp_fn fn)
{
	gmp_wg_add(&wg, (int)n);
	for (int64_t i = 0; i < n; i++) {
		int err = gmp_go(fn, NULL);

		bench_check(err == 0, "gmp_go: %d", err);
	}
	gmp_wg_wait(&wg);
}

static void spawn(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	gmp_fn fn = c->procs > 1 ? work_shared : work;
	int64_t rounds = c->count / c->n, warm = rounds / 8 + 1, t0, t1;

	ran = 0;
	for (int64_t i = 0; i < warm; i++)
		batch(c->n, fn);
	t0 = bench_clock();
	for (int64_t i = 0; i < rounds; i++)
		batch(c->n, fn);
	t1 = bench_clock();
	bench_check(ran == (warm + rounds) * c->n, "%lld of %lld ran", (long long)ran,
		    (long long)((warm + rounds) * c->n));
	bench_time(st, t1 - t0, rounds * c->n);
}

BENCH(spawn, "spawn/1", .procs = 1, .n = 1, .count = 1000000);
BENCH(spawn, "spawn/1000", .procs = 1, .n = 1000, .count = 1000000);
BENCH(spawn, "spawn/100000", .procs = 1, .n = 100000, .count = 1000000);
BENCH(spawn, "spawn/1", .procs = 2, .n = 1, .count = 1000000);
BENCH(spawn, "spawn/1000", .procs = 2, .n = 1000, .count = 1000000);
BENCH(spawn, "spawn/100000", .procs = 2, .n = 100000, .count = 1000000);

static void joined(void *arg)
{
	(*(int64_t *)arg)++;
}

static void join(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t warm = c->count / 8, sum = 0, t0 = 0, t1;

	for (int64_t i = -warm; i < c->count; i++) {
		gmp_g *g;

		if (i == 0)
			t0 = bench_clock();
		bench_check(gmp_spawn(&g, joined, &sum, NULL) == 0, "gmp_spawn");
		bench_check(gmp_join(g) == 0, "gmp_join");
	}
	t1 = bench_clock();
	bench_check(sum == c->count + warm, "%lld ran", (long long)sum);
	bench_time(st, t1 - t0, c->count);
}

BENCH(join, "join/1", .procs = 1, .count = 1000000);
BENCH(join, "join/1", .procs = 2, .count = 1000000);
