/* SPDX-License-Identifier: MIT */
/*
 * Measures how late timers fire while their P is busy.
 *
 * The rows are ParallelTimerLatency and StaggeredTickerLatency of Go's time package, with the same
 * work.  In the first, the P that armed the timers computes until they have fired, so that other Ps
 * must run them.  In the second, tickers of 3 ms share the Ps with their readers, which compute for
 * 0.3 or 2 ms at each tick.  The figures are the average and the maximum lateness.
 */
#include "parallel.h"

#include <gmp.h>
#include <stdio.h>
#include <stdlib.h>

#define MS INT64_C(1000000)

struct lateness {
	_Alignas(64) int64_t sum, most, count;
};

static void note(struct lateness *l, int64_t late)
{
	late = late < 0 ? 0 : late;
	l->sum += late;
	l->count++;
	l->most = late > l->most ? late : l->most;
}

static void report(struct bench_state *st, const struct lateness *l, int n, int64_t want)
{
	int64_t sum = 0, count = 0, most = 0;

	for (int i = 0; i < n; i++) {
		sum += l[i].sum;
		count += l[i].count;
		most = l[i].most > most ? l[i].most : most;
	}
	bench_check(count == want, "%lld times, not %lld", (long long)count, (long long)want);
	bench_value(st, "avg", "ns", (double)sum / (double)count);
	bench_value(st, "max", "ns", (double)most);
}

/* --- timers --- */

enum { MOST = 64 };

static struct lateness late_of[MOST];
static int64_t expected[MOST], fired, timers;
static gmp_wg done;

static void fire(void *arg)
{
	intptr_t i = (intptr_t)arg;

	note(&late_of[i], gmp_now() - expected[i]);
	bench_add(&fired, 1);
	while (bench_load(&fired) < timers)
		;
	gmp_wg_done(&done);
}

static void parallel_latency(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	gmp_timer *t[MOST];

	timers = c->procs - 1;
	bench_check(timers > 0 && timers <= MOST, "%d Ps", c->procs);
	for (intptr_t i = 0; i < timers; i++)
		t[i] = gmp_timer_new(fire, (void *)i);
	bench_all_ps(c->procs);
	bench_spin(30 * MS);
	for (int64_t round = 0; round < c->count; round++) {
		gmp_wg_add(&done, (int)timers);
		bench_store(&fired, 0);
		for (int64_t i = 0; i < timers; i++) {
			expected[i] = gmp_deadline(MS);
			gmp_timer_set(t[i], expected[i], 0);
		}
		while (bench_load(&fired) < timers)
			;
		gmp_wg_wait(&done);
		bench_spin(MS);
	}
	for (int64_t i = 0; i < timers; i++)
		gmp_timer_free(t[i]);
	report(st, late_of, (int)timers, timers * c->count);
}

BENCH(parallel_latency, "ParallelTimerLatency", .procs = 2, .count = 200);

/* --- tickers --- */

struct reader {
	struct lateness *late;
	gmp_chan *ticks;
	int64_t first, n, busy;
};

static void read_ticks(void *arg)
{
	struct reader *r = arg;
	int64_t when, next = r->first;

	for (int64_t i = 0; i < r->n; i++) {
		bench_check(gmp_chan_recv(r->ticks, &when) == 0, "it did not tick");
		note(r->late, gmp_now() - next);
		next += 3 * MS;
		bench_spin(r->busy);
	}
	gmp_tick_free(r->ticks);
	gmp_wg_done(&done);
}

/* c->n tickers for each P; their readers compute for c->mode us. */
static void staggered(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int n = (int)c->n * c->procs;
	struct reader *readers = calloc((size_t)n, sizeof(*readers));

	bench_check(readers && n <= MOST, "no memory");
	bench_all_ps(c->procs);
	gmp_wg_add(&done, n);
	for (int i = 0; i < n; i++) {
		bench_spin(3 * MS / c->procs);
		readers[i] = (struct reader){ .late = &late_of[i],
					      .first = gmp_deadline(3 * MS),
					      .n = c->count,
					      .busy = c->mode * INT64_C(1000) };
		readers[i].ticks = gmp_tick_new(readers[i].first, 3 * MS);
		bench_check(readers[i].ticks && gmp_go(read_ticks, &readers[i]) == 0, "no memory");
	}
	gmp_wg_wait(&done);
	report(st, late_of, n, n * c->count);
	free(readers);
}

/* As in Go, no more tickers than the Ps have time for. */
BENCH(staggered, "StaggeredTickerLatency/work-dur=300us/tickers-per-P=1", .procs = 2, .n = 1,
      .count = 60, .mode = 300);
BENCH(staggered, "StaggeredTickerLatency/work-dur=300us/tickers-per-P=2", .procs = 2, .n = 2,
      .count = 60, .mode = 300);
BENCH(staggered, "StaggeredTickerLatency/work-dur=300us/tickers-per-P=3", .procs = 2, .n = 3,
      .count = 60, .mode = 300);
BENCH(staggered, "StaggeredTickerLatency/work-dur=300us/tickers-per-P=4", .procs = 2, .n = 4,
      .count = 60, .mode = 300);
BENCH(staggered, "StaggeredTickerLatency/work-dur=300us/tickers-per-P=5", .procs = 2, .n = 5,
      .count = 60, .mode = 300);
BENCH(staggered, "StaggeredTickerLatency/work-dur=300us/tickers-per-P=6", .procs = 2, .n = 6,
      .count = 60, .mode = 300);
BENCH(staggered, "StaggeredTickerLatency/work-dur=300us/tickers-per-P=7", .procs = 2, .n = 7,
      .count = 60, .mode = 300);
BENCH(staggered, "StaggeredTickerLatency/work-dur=300us/tickers-per-P=8", .procs = 2, .n = 8,
      .count = 60, .mode = 300);
BENCH(staggered, "StaggeredTickerLatency/work-dur=300us/tickers-per-P=9", .procs = 2, .n = 9,
      .count = 60, .mode = 300);
BENCH(staggered, "StaggeredTickerLatency/work-dur=300us/tickers-per-P=10", .procs = 2, .n = 10,
      .count = 60, .mode = 300);
BENCH(staggered, "StaggeredTickerLatency/work-dur=2ms/tickers-per-P=1", .procs = 2, .n = 1,
      .count = 60, .mode = 2000);
