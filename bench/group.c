/* SPDX-License-Identifier: MIT */
/*
 * Measures the cost of a group per child.
 *
 * "group/1000": makes a group, starts 1,000 empty children in it, waits for it and frees it; time
 * per child.  "of wg": that time in per cent of the time with gmp_go and a wait group, with one
 * gmp_wg_add for each child.
 */
#include "shim.h"

#include <gmp.h>
#include <stdlib.h>

static int64_t ran;

static int child(void *arg)
{
	(void)arg;
	ran++;
	return 0;
}

static int child_shared(void *arg)
{
	(void)arg;
	bench_add(&ran, 1);
	return 0;
}

static void grouped(int64_t n, int (*fn)(void *))
{
	gmp_group *g = gmp_group_new(0, GMP_FOREVER);

	bench_check(g, "no memory");
	for (int64_t i = 0; i < n; i++) {
		int err = gmp_group_go(g, fn, NULL);

		bench_check(err == 0, "gmp_group_go: %d", err);
	}
	bench_check(gmp_group_wait(g) == 0, "gmp_group_wait");
	gmp_group_free(g);
}

static gmp_wg wg;

static void by_hand(void *arg)
{
	child(arg);
	gmp_wg_done(&wg);
}

static void by_hand_shared(void *arg)
{
	child_shared(arg);
	gmp_wg_done(&wg);
}

static void with_wg(int64_t n, gmp_fn fn)
{
	for (int64_t i = 0; i < n; i++) {
		gmp_wg_add(&wg, 1);
		int err = gmp_go(fn, NULL);

		bench_check(err == 0, "gmp_go: %d", err);
	}
	gmp_wg_wait(&wg);
}

static void group_batch(const struct bench_case *c)
{
	grouped(c->n, c->procs > 1 ? child_shared : child);
}

static void wg_batch(const struct bench_case *c)
{
	with_wg(c->n, c->procs > 1 ? by_hand_shared : by_hand);
}

/* The cases alternate, and the median ratio is reported, because the machine may be slow in one
 * round. */
static void group(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t rounds = c->count / c->n, warm = rounds / 8 + 1, with = 0;
	double *ratio = malloc(sizeof(*ratio) * (size_t)rounds);

	bench_check(ratio, "no memory");
	ran = 0;
	for (int64_t i = -warm; i < rounds; i++) {
		int64_t t0 = bench_clock(), t1, t2;

		group_batch(c);
		t1 = bench_clock();
		wg_batch(c);
		t2 = bench_clock();
		if (i >= 0) {
			with += t1 - t0;
			ratio[i] = (double)(t1 - t0) / (double)(t2 - t1);
		}
	}
	bench_check(ran == 2 * (warm + rounds) * c->n, "%lld ran", (long long)ran);
	bench_value(st, "", "ns", (double)with / (double)(rounds * c->n));
	bench_value(st, "of wg", "percent", 100.0 * bench_median(ratio, (size_t)rounds));
	free(ratio);
}

BENCH(group, "group/1000", .procs = 1, .n = 1000, .count = 1000000);
BENCH(group, "group/1000", .procs = 2, .n = 1000, .count = 1000000);
