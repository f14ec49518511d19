/* SPDX-License-Identifier: MIT */
/*
 * Measures the memory of a green thread that is parked, or that was spawned and has not run yet.
 *
 * The figure is the difference of VmRSS + VmPTE (/proc/self/status) before and after n green
 * threads exist, divided by n.  Page tables count because a reservation needs some even if no page
 * is resident.  The kernel's counters are exact to some hundred KiB, so n is at least 1e5.  The
 * kernel's records of mappings (struct vm_area_struct) are not included.
 */
#include "shim.h"

#include <gmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ON_WAIT_GROUP, ON_SLEEP };

static int64_t memory_now(void)
{
	char line[256];
	int64_t kib, sum = 0;
	int found = 0;
	FILE *f = fopen("/proc/self/status", "r");

	bench_check(f, "/proc/self/status cannot be opened");
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "VmRSS: %ld", &kib) == 1 ||
		    sscanf(line, "VmPTE: %ld", &kib) == 1) {
			sum += kib * 1024;
			found++;
		}
	}
	fclose(f);
	bench_check(found == 2, "/proc/self/status lacks VmRSS or VmPTE");
	return sum;
}

static gmp_wg gate, all;
static int64_t arrived, woken, ran;

static void nothing(void *arg)
{
	(void)arg;
	gmp_wg_done(&all);
}

/* Run some green threads, so that the memory of the first is not counted. */
static void warm_up(void)
{
	gmp_wg_add(&all, 64);
	for (int i = 0; i < 64; i++)
		bench_check(gmp_go(nothing, NULL) == 0, "gmp_go");
	gmp_wg_wait(&all);
	gmp_sleep(1000);
	memory_now();
}

static void parker(void *arg)
{
	(void)arg;
	arrived++;
	gmp_wg_wait(&gate);
	woken++;
	gmp_wg_done(&all);
}

static void sleeper(void *arg)
{
	(void)arg;
	arrived++;
	gmp_sleep(INT64_C(3600000000000));
	woken++;
}

static void parked(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	gmp_fn fn = c->mode == ON_SLEEP ? sleeper : parker;
	gmp_stats s = GMP_STATS_INIT;
	int64_t before, after;

	arrived = woken = 0;
	warm_up();
	if (c->mode == ON_WAIT_GROUP) {
		gmp_wg_add(&gate, 1);
		gmp_wg_add(&all, (int)c->n);
	}
	before = memory_now();
	for (int64_t i = 0; i < c->n; i++) {
		int err = gmp_go(fn, NULL);

		bench_check(err == 0, "gmp_go: %d after %lld", err, (long long)i);
	}
	while (arrived < c->n)
		gmp_yield();
	after = memory_now();

	bench_check(gmp_stats_get(&s) == 0, "gmp_stats_get");
	bench_check((int64_t)s.greens_waiting >= c->n, "%lld wait, %lld should",
		    (long long)s.greens_waiting, (long long)c->n);
	bench_check(woken == 0, "%lld woke too early", (long long)woken);
	if (c->mode == ON_WAIT_GROUP) {
		gmp_wg_done(&gate);
		gmp_wg_wait(&all);
		bench_check(woken == c->n, "%lld of %lld woke", (long long)woken, (long long)c->n);
	}
	bench_value(st, "", "bytes", (double)(after - before) / c->n);
}

BENCH(parked, "memory/wait/100000", .procs = 1, .n = 100000, .count = 1);
BENCH(parked, "memory/wait/1000000", .procs = 1, .n = 1000000, .count = 1);
BENCH(parked, "memory/sleep/100000", .procs = 1, .n = 100000, .count = 1, .mode = ON_SLEEP);
BENCH(parked, "memory/sleep/1000000", .procs = 1, .n = 1000000, .count = 1, .mode = ON_SLEEP);
BENCH(parked, "memory/wait/64k/100000", .procs = 1, .n = 100000, .count = 1, .stack = 64 << 10);
BENCH(parked, "memory/wait/64k/1000000", .procs = 1, .n = 1000000, .count = 1, .stack = 64 << 10);
BENCH(parked, "memory/sleep/64k/100000", .procs = 1, .n = 100000, .count = 1, .stack = 64 << 10,
      .mode = ON_SLEEP);
BENCH(parked, "memory/sleep/64k/1000000", .procs = 1, .n = 1000000, .count = 1, .stack = 64 << 10,
      .mode = ON_SLEEP);

static void counted(void *arg)
{
	(void)arg;
	ran++;
	gmp_wg_done(&all);
}

/* There is one P, and the first green thread does not yield, so no other green thread has run. */
static void spawned(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t before, after;

	ran = 0;
	warm_up();
	gmp_wg_add(&all, (int)c->n);
	before = memory_now();
	for (int64_t i = 0; i < c->n; i++) {
		int err = gmp_go(counted, NULL);

		bench_check(err == 0, "gmp_go: %d after %lld", err, (long long)i);
	}
	after = memory_now();
	bench_check(ran == 0, "%lld have run", (long long)ran);
	gmp_wg_wait(&all);
	bench_check(ran == c->n, "%lld of %lld ran", (long long)ran, (long long)c->n);
	bench_value(st, "", "bytes", (double)(after - before) / c->n);
}

BENCH(spawned, "memory/spawned/100000", .procs = 1, .flags = GMP_COOPERATIVE, .n = 100000,
      .count = 1);
BENCH(spawned, "memory/spawned/1000000", .procs = 1, .flags = GMP_COOPERATIVE, .n = 1000000,
      .count = 1);
