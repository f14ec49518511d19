/* SPDX-License-Identifier: MIT */
/*
 * Measures contention, capture and hand-off of a mutex by Go's benchmarks of its runtime lock.
 *
 * The rows have the names of the benchmarks of the lock inside Go's runtime
 * (runtime/runtime_test.go).  No program can reach that lock: the rows use gmp_mutex, and
 * sync.Mutex for Go.
 *   MutexContention  one green thread for each P, all counting under one lock
 *   MutexCapture     how many times in a row one G locks (streak), and how many locks of other Gs
 *                    are between two locks of one G (starve).  Go reports these as times; here they
 *                    are counts.  p90, p100: the power of two that bounds the count for 90 per
 *                    cent, or all, of the locks.
 *   MutexHandoff     time from the start of an unlock until the waiting G has the lock; that G
 *                    spins (Fast) or sleeps (Slow), and the unlocking G continues to compute
 */
#include "parallel.h"

#include <gmp.h>

/* In different cache lines, as in Go. */
static struct {
	_Alignas(128) gmp_mutex lock;
	_Alignas(128) int64_t count;
	_Alignas(128) int64_t turn;
} state;

static gmp_wg done;

/* --- MutexContention, MutexCapture --- */

/* Bin i counts the values from 2^i up to 2^(i + 1) - 1. */
struct histogram {
	int64_t streak[64], starve[64];
};

static struct histogram all;

static void note(int64_t *bins, int64_t v)
{
	if (v > 0)
		bench_add(&bins[63 - __builtin_clzll((uint64_t)v)], 1);
}

/* Increment the count under the lock. Returns the new count. */
static int64_t count_on(void)
{
	int64_t ours;

	gmp_mutex_lock(&state.lock);
	ours = bench_add(&state.count, 1);
	gmp_mutex_unlock(&state.lock);
	return ours;
}

static void contend(void *arg)
{
	int64_t last = (intptr_t)arg;

	while (count_on() < last)
		;
	gmp_wg_done(&done);
}

static void capture(void *arg)
{
	int64_t last = (intptr_t)arg, before = 0, streak = 0, ours, others;

	do {
		ours = count_on();
		others = ours - before - 1;
		before = ours;
		if (others == 0) {
			streak++;
			continue;
		}
		note(all.streak, streak);
		note(all.starve, others);
		streak = 1;
	} while (ours < last);
	if (others == 0)
		note(all.streak, streak);
	gmp_wg_done(&done);
}

static int64_t together(const struct bench_case *c, gmp_fn fn, int64_t turns)
{
	int64_t t0 = bench_clock();

	state.count = 0;
	gmp_wg_add(&done, c->procs);
	for (int p = 0; p < c->procs; p++)
		bench_start(fn, (void *)(intptr_t)turns);
	gmp_wg_wait(&done);
	/* each G stops at its first count of at least `turns` */
	bench_check(state.count == turns + c->procs - 1, "counted %lld", (long long)state.count);
	return bench_clock() - t0;
}

static void contention(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);

	together(c, contend, c->count / 8 + 1);
	bench_time(st, together(c, contend, c->count), c->count);
}

/* Returns the power of two that bounds this share of all counts, as Go computes it. */
static double part(const int64_t *bins, double share)
{
	double sum = 0, seen = 0;

	for (int i = 0; i < 64; i++)
		sum += (double)bins[i] * (double)(1ull << i);
	for (int i = 63; i >= 0; i--) {
		seen += (double)bins[i] * (double)(1ull << i);
		if (sum - seen < sum * share)
			return (double)(1ull << i);
	}
	return 0;
}

static void fairness(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);

	together(c, capture, c->count);
	bench_value(st, "streak-p100", "turns", part(all.streak, 1));
	bench_value(st, "streak-p90", "turns", part(all.streak, 0.9));
	bench_value(st, "starve-p100", "turns", part(all.starve, 1));
	bench_value(st, "starve-p90", "turns", part(all.starve, 0.9));
}

BENCH(contention, "MutexContention", .procs = 1, .count = 10000000);
BENCH(contention, "MutexContention", .procs = 2, .count = 3000000);
BENCH(fairness, "MutexCapture", .procs = 2, .count = 3000000);

/* --- MutexHandoff --- */

static int64_t taken, handed, rounds;

static void worker(void *arg)
{
	int64_t t = 0, n = 0;

	(void)arg;
	for (;;) {
		int64_t turn = bench_load(&state.turn) & 3;

		if (turn & 1)
			break;
		if (turn == 0)
			continue;
		gmp_mutex_lock(&state.lock);
		t += bench_clock();
		gmp_mutex_unlock(&state.lock);
		n++;
		bench_add(&state.turn, 2);
	}
	bench_add(&taken, t);
	bench_add(&handed, n);
	gmp_wg_done(&done);
}

static void coordinator(void *arg)
{
	int64_t delay = *(int64_t *)arg, t = 0;

	for (int64_t i = 0; i < rounds; i++) {
		gmp_mutex_lock(&state.lock);
		bench_add(&state.turn, 2);
		if (delay)
			bench_spin(delay);
		t -= bench_clock();
		gmp_mutex_unlock(&state.lock);
		while (bench_load(&state.turn) & 2)
			;
	}
	bench_add(&state.turn, 1);
	bench_add(&taken, t);
	gmp_wg_done(&done);
}

static void handoff(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t delay = c->n;

	rounds = c->count;
	bench_all_ps(c->procs);
	gmp_wg_add(&done, 2);
	bench_start(coordinator, &delay);
	bench_start(worker, NULL);
	gmp_wg_wait(&done);
	bench_check(handed == rounds, "handed over %lld times", (long long)handed);
	bench_time(st, taken, c->count);
}

static void solo(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t t0 = 0;

	for (int64_t i = -c->count / 8; i < c->count; i++) {
		if (i == 0)
			t0 = bench_clock();
		gmp_mutex_lock(&state.lock);
		gmp_mutex_unlock(&state.lock);
	}
	bench_time(st, bench_clock() - t0, c->count);
	bench_check(gmp_mutex_try_lock(&state.lock) == 0, "still locked");
}

BENCH(solo, "MutexHandoff/Solo", .procs = 1, .count = 10000000);
BENCH(handoff, "MutexHandoff/FastPingPong", .procs = 2, .n = 0, .count = 10000);
BENCH(handoff, "MutexHandoff/SlowPingPong", .procs = 2, .n = 20000, .count = 1000);
