/* SPDX-License-Identifier: MIT */
/*
 * Measures the cost of a timer, and the lateness of sleepers.
 *
 * "timer/reset" arms and disarms one timer; "timer/create" also makes and frees it.  "sleep/100us":
 * one green thread sleeps, so every wakeup comes from the kernel; lateness is the time beyond the
 * 100 us.  "sleepers": n green threads sleep 1 to 1,000 ms each at once; the figures are their
 * lateness and the CPU time of the process.  "warm" is the CPU time of a second run, on the stacks
 * of the first.
 */
#include "shim.h"

#include <gmp.h>
#include <stdlib.h>
#include <sys/resource.h>

#define HOUR INT64_C(3600000000000)

static int64_t fired;

static void fire(void *arg)
{
	(void)arg;
	bench_add(&fired, 1);
}

static void reset(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	gmp_timer *t = gmp_timer_new(fire, NULL);
	int64_t warm = c->count / 8, stopped = 0, t0 = 0, t1;

	bench_check(t, "gmp_timer_new");
	for (int64_t i = -warm; i < c->count; i++) {
		if (i == 0)
			t0 = bench_clock();
		gmp_timer_set(t, gmp_deadline(HOUR), 0);
		stopped += gmp_timer_stop(t);
	}
	t1 = bench_clock();
	bench_check(stopped == c->count + warm, "%lld stopped", (long long)stopped);
	gmp_timer_free(t);
	bench_check(fired == 0, "it fired");
	bench_time(st, t1 - t0, c->count);
}

static void create(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t warm = c->count / 8, stopped = 0, t0 = 0, t1;

	for (int64_t i = -warm; i < c->count; i++) {
		gmp_timer *t;

		if (i == 0)
			t0 = bench_clock();
		t = gmp_timer_new(fire, NULL);
		gmp_timer_set(t, gmp_deadline(HOUR), 0);
		stopped += gmp_timer_stop(t);
		gmp_timer_free(t);
	}
	t1 = bench_clock();
	bench_check(stopped == c->count + warm, "%lld stopped", (long long)stopped);
	bench_check(fired == 0, "it fired");
	bench_time(st, t1 - t0, c->count);
}

BENCH(reset, "timer/reset", .procs = 1, .count = 2000000);
BENCH(create, "timer/create", .procs = 1, .count = 1000000);

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void report_lateness(struct bench_state *st, int64_t *late, int64_t n)
{
	qsort(late, n, sizeof(*late), by_value);
	bench_check(late[0] >= 0, "one woke %lld ns too early", (long long)-late[0]);
	bench_value(st, "p50", "ns", late[n / 2]);
	bench_value(st, "p99", "ns", late[n * 99 / 100]);
}

static void sleep_alone(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t *late = calloc(c->count, sizeof(*late));

	bench_check(late, "no memory");
	for (int64_t i = 0; i < c->count; i++) {
		int64_t t0 = bench_clock();

		bench_check(gmp_sleep(c->n) == 0, "gmp_sleep");
		late[i] = bench_clock() - t0 - c->n;
	}
	report_lateness(st, late, c->count);
	free(late);
}

BENCH(sleep_alone, "sleep/100us", .procs = 1, .n = 100000, .count = 2000);
BENCH(sleep_alone, "sleep/100us", .procs = 2, .n = 100000, .count = 2000);

static gmp_wg done;

static int64_t cpu_now(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * INT64_C(1000000000) +
	       (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * INT64_C(1000);
}

static void sleeper(void *arg)
{
	int64_t *slot = arg, wish = *slot, t0 = bench_clock();

	gmp_sleep(wish);
	*slot = bench_clock() - t0 - wish;
	gmp_wg_done(&done);
}

/* Returns the CPU time in ns from the first start to the last wakeup. Sets late[i] to the lateness
 * of sleeper i in ns. */
static int64_t sleep_all(int64_t *late, int64_t n)
{
	uint64_t x = 88172645463325252u;
	int64_t cpu;

	for (int64_t i = 0; i < n; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		late[i] = 1000000 + (int64_t)(x % 999000000);
	}
	gmp_wg_add(&done, (int)n);
	cpu = cpu_now();
	for (int64_t i = 0; i < n; i++)
		bench_check(gmp_go(sleeper, &late[i]) == 0, "gmp_go");
	gmp_wg_wait(&done);
	return cpu_now() - cpu;
}

static void sleepers(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t *late = calloc(c->n, sizeof(*late));

	bench_check(late, "no memory");
	bench_value(st, "cpu", "ms", sleep_all(late, c->n) / 1e6);
	report_lateness(st, late, c->n);
	bench_value(st, "warm", "ms", sleep_all(late, c->n) / 1e6);
	free(late);
}

BENCH(sleepers, "sleepers/100000", .procs = 2, .n = 100000, .count = 1);
