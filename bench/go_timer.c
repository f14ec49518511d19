/* SPDX-License-Identifier: MIT */
/*
 * Measures timers by the benchmarks of Go's time package.
 *
 * The rows have the names of Go's benchmarks without "Benchmark", and do the same work.  As in Go,
 * each P first arms 32,768 timers an hour ahead, so that no heap is empty.  After, Ticker and
 * impl=chan use ticks (gmp_tick_new); AfterFunc and impl=func use timers.  A tick cannot be reset:
 * Reset/impl=chan and TickerReset use a timer that would send to a channel.
 */
#include "parallel.h"

#include <gmp.h>
#include <stdlib.h>

#define US INT64_C(1000)
#define MS INT64_C(1000000)
#define HOUR INT64_C(3600000000000)

enum { OTHERS = 1 << 15, THOUSAND = 1000, TEN_THOUSAND = 10000 };

static gmp_wg ready;
static int64_t failed;

static void never(void *arg)
{
	(void)arg;
	bench_add(&failed, 1);
}

static gmp_timer *armed(gmp_fn fn, void *arg, int64_t ns)
{
	gmp_timer *t = gmp_timer_new(fn, arg);

	bench_check(t, "gmp_timer_new");
	gmp_timer_set(t, gmp_deadline(ns), 0);
	return t;
}

static void stop(gmp_timer *t)
{
	bench_check(gmp_timer_stop(t) == 1, "it had fired");
	gmp_timer_free(t);
}

static void make_others(void *arg)
{
	gmp_timer **others = arg;

	for (int i = 0; i < OTHERS; i++)
		others[i] = armed(never, NULL, HOUR);
	gmp_wg_done(&ready);
}

/* --- timers that fire at once --- */

/* The function of each timer arms the next timer of the chain. */
struct chain {
	gmp_timer *t;
	int64_t left;
	gmp_chan *end;
};

static void next_link(void *arg)
{
	struct chain *ch = arg;
	char yes = 1;

	gmp_timer_free(ch->t);
	if (--ch->left < 0) {
		gmp_chan_send(ch->end, &yes);
		return;
	}
	ch->t = gmp_timer_new(next_link, ch);
	bench_check(ch->t, "gmp_timer_new");
	gmp_timer_set(ch->t, gmp_now(), 0);
}

static void after_func_body(struct bench_loop *l)
{
	while (bench_more(l)) {
		struct chain ch = { .left = THOUSAND, .end = gmp_chan_new(1, 0) };

		bench_check(ch.end, "no memory");
		ch.t = gmp_timer_new(next_link, &ch);
		bench_check(ch.t, "gmp_timer_new");
		gmp_timer_set(ch.t, gmp_now(), 0);
		gmp_chan_recv(ch.end, NULL);
		bench_check(ch.left == -1, "%lld are left", (long long)ch.left);
		gmp_chan_free(ch.end);
	}
}

static void count_down(void *wg)
{
	gmp_wg_done(wg);
}

static void simultaneous_body(struct bench_loop *l)
{
	gmp_timer *timers[THOUSAND];

	while (bench_more(l)) {
		gmp_wg wg = GMP_WG_INIT;

		gmp_wg_add(&wg, THOUSAND);
		for (int i = 0; i < THOUSAND; i++)
			timers[i] = armed(count_down, &wg, 0);
		gmp_wg_wait(&wg);
		for (int i = 0; i < THOUSAND; i++)
			gmp_timer_free(timers[i]);
	}
}

static void after_body(struct bench_loop *l)
{
	while (bench_more(l)) {
		gmp_chan *c = gmp_tick_new(gmp_deadline(1), 0);
		int64_t when;

		bench_check(c && gmp_chan_recv(c, &when) == 0, "it did not tick");
		gmp_tick_free(c);
	}
}

static void nap(void *wg)
{
	bench_check(gmp_sleep(1) == 0, "gmp_sleep");
	gmp_wg_done(wg);
}

static void sleep_body(struct bench_loop *l)
{
	while (bench_more(l)) {
		gmp_wg wg = GMP_WG_INIT;

		gmp_wg_add(&wg, THOUSAND);
		for (int i = 0; i < THOUSAND; i++)
			bench_check(gmp_go(nap, &wg) == 0, "gmp_go");
		gmp_wg_wait(&wg);
	}
}

/* --- timers that do not fire --- */

static void stop_chan_body(struct bench_loop *l)
{
	while (bench_more(l)) {
		gmp_chan *c = gmp_tick_new(gmp_deadline(1000 * MS), 0);

		bench_check(c, "gmp_tick_new");
		gmp_tick_free(c);
	}
}

static void stop_func_body(struct bench_loop *l)
{
	while (bench_more(l))
		stop(armed(never, NULL, 1000 * MS));
}

static void start_stop_body(struct bench_loop *l)
{
	gmp_timer *timers[THOUSAND];

	while (bench_more(l)) {
		for (int i = 0; i < THOUSAND; i++)
			timers[i] = armed(never, NULL, HOUR);
		for (int i = 0; i < THOUSAND; i++)
			stop(timers[i]);
	}
}

static void adjust_body(struct bench_loop *l)
{
	gmp_timer **timers = calloc(TEN_THOUSAND, sizeof(gmp_timer *));
	int64_t fired = 0;
	gmp_wg none = GMP_WG_INIT;

	bench_check(timers, "no memory");
	gmp_wg_add(&none, TEN_THOUSAND);
	while (bench_more(l)) {
		for (int i = 0; i < TEN_THOUSAND; i++)
			timers[i] = armed(never, NULL, HOUR);
		gmp_timer_free(timers[TEN_THOUSAND - 1]);
		timers[TEN_THOUSAND - 1] = gmp_timer_new(count_down, &none);
		gmp_timer_set(timers[TEN_THOUSAND - 1], gmp_deadline(1), 0);
		gmp_sleep(US);
		for (int i = 0; i < TEN_THOUSAND; i++) {
			fired += gmp_timer_stop(timers[i]) == 0;
			gmp_timer_free(timers[i]);
		}
	}
	bench_check(fired <= l->done, "%lld fired", (long long)fired);
	free(timers);
}

/* --- setting one timer repeatedly --- */

static void send_time(void *c)
{
	int64_t now = gmp_now();

	gmp_chan_try_send(c, &now);
}

static void reset_with(struct bench_loop *l, gmp_fn fn, int64_t ns, int64_t period)
{
	gmp_chan *c = gmp_chan_new(sizeof(int64_t), 1);
	gmp_timer *t = gmp_timer_new(fn, c);

	bench_check(c && t, "no memory");
	gmp_timer_set(t, gmp_deadline(ns), period);
	while (bench_more(l))
		gmp_timer_set(t, gmp_deadline(ns), period);
	gmp_timer_free(t);
	gmp_chan_free(c);
}

static void reset_chan_body(struct bench_loop *l)
{
	reset_with(l, send_time, HOUR, 0);
}

static void reset_func_body(struct bench_loop *l)
{
	reset_with(l, never, HOUR, 0);
}

static void ticker_reset_body(struct bench_loop *l)
{
	reset_with(l, send_time, 2, 2);
}

static void ticker_naive_body(struct bench_loop *l)
{
	gmp_chan *c = gmp_tick_new(gmp_deadline(1), 1);

	while (bench_more(l)) {
		bench_check(c, "gmp_tick_new");
		gmp_tick_free(c);
		c = gmp_tick_new(gmp_deadline(2), 2);
	}
	gmp_tick_free(c);
}

static void ticker_body(struct bench_loop *l)
{
	gmp_chan *c = gmp_tick_new(gmp_deadline(1), 1);
	int64_t when = 0, before = 0;

	bench_check(c, "gmp_tick_new");
	while (bench_more(l)) {
		bench_check(gmp_chan_recv(c, &when) == 0 && when > before, "it did not tick");
		before = when;
	}
	gmp_tick_free(c);
}

/* --- the rows --- */

enum {
	AFTER_FUNC,
	SIMULTANEOUS,
	AFTER,
	SLEEP,
	STOP_CHAN,
	STOP_FUNC,
	START_STOP,
	ADJUST,
	RESET_CHAN,
	RESET_FUNC,
	TICKER,
	TICKER_RESET,
	TICKER_NAIVE
};

static void among_others(struct bench_state *st)
{
	static const bench_body bodies[] = {
		[AFTER_FUNC] = after_func_body,
		[SIMULTANEOUS] = simultaneous_body,
		[AFTER] = after_body,
		[SLEEP] = sleep_body,
		[STOP_CHAN] = stop_chan_body,
		[STOP_FUNC] = stop_func_body,
		[START_STOP] = start_stop_body,
		[ADJUST] = adjust_body,
		[RESET_CHAN] = reset_chan_body,
		[RESET_FUNC] = reset_func_body,
		[TICKER] = ticker_body,
		[TICKER_RESET] = ticker_reset_body,
		[TICKER_NAIVE] = ticker_naive_body,
	};
	const struct bench_case *c = bench_this(st);
	gmp_timer **others = calloc((size_t)(OTHERS * c->procs), sizeof(gmp_timer *));

	bench_check(others, "no memory");
	gmp_wg_add(&ready, c->procs);
	for (int p = 0; p < c->procs; p++)
		bench_check(gmp_go(make_others, &others[OTHERS * p]) == 0, "gmp_go");
	gmp_wg_wait(&ready);
	bench_parallel(st, 1, bodies[c->mode]);
	for (int i = 0; i < OTHERS * c->procs; i++)
		stop(others[i]);
	bench_check(failed == 0, "%lld fired an hour early", (long long)failed);
	free(others);
}

BENCH(among_others, "AfterFunc1000", .procs = 1, .count = 200, .mode = AFTER_FUNC);
BENCH(among_others, "AfterFunc1000", .procs = 2, .count = 200, .mode = AFTER_FUNC);
BENCH(among_others, "SimultaneousAfterFunc1000", .procs = 1, .count = 200, .mode = SIMULTANEOUS);
BENCH(among_others, "SimultaneousAfterFunc1000", .procs = 2, .count = 200, .mode = SIMULTANEOUS);
BENCH(among_others, "After", .procs = 1, .count = 200000, .mode = AFTER);
BENCH(among_others, "After", .procs = 2, .count = 200000, .mode = AFTER);
BENCH(among_others, "Sleep1000", .procs = 1, .count = 200, .mode = SLEEP);
BENCH(among_others, "Sleep1000", .procs = 2, .count = 200, .mode = SLEEP);
BENCH(among_others, "Stop/impl=chan", .procs = 1, .count = 500000, .mode = STOP_CHAN);
BENCH(among_others, "Stop/impl=chan", .procs = 2, .count = 500000, .mode = STOP_CHAN);
BENCH(among_others, "Stop/impl=func", .procs = 1, .count = 1000000, .mode = STOP_FUNC);
BENCH(among_others, "Stop/impl=func", .procs = 2, .count = 1000000, .mode = STOP_FUNC);
BENCH(among_others, "StartStop1000", .procs = 1, .count = 200, .mode = START_STOP);
BENCH(among_others, "StartStop1000", .procs = 2, .count = 200, .mode = START_STOP);
BENCH(among_others, "AdjustTimers10000", .procs = 1, .count = 20, .mode = ADJUST);
BENCH(among_others, "AdjustTimers10000", .procs = 2, .count = 20, .mode = ADJUST);
BENCH(among_others, "Reset/impl=chan", .procs = 1, .count = 3000000, .mode = RESET_CHAN);
BENCH(among_others, "Reset/impl=chan", .procs = 2, .count = 3000000, .mode = RESET_CHAN);
BENCH(among_others, "Reset/impl=func", .procs = 1, .count = 3000000, .mode = RESET_FUNC);
BENCH(among_others, "Reset/impl=func", .procs = 2, .count = 3000000, .mode = RESET_FUNC);
BENCH(among_others, "Ticker", .procs = 1, .count = 200000, .mode = TICKER);
BENCH(among_others, "Ticker", .procs = 2, .count = 200000, .mode = TICKER);
BENCH(among_others, "TickerReset", .procs = 1, .count = 2000000, .mode = TICKER_RESET);
BENCH(among_others, "TickerReset", .procs = 2, .count = 2000000, .mode = TICKER_RESET);
BENCH(among_others, "TickerResetNaive", .procs = 1, .count = 300000, .mode = TICKER_NAIVE);
BENCH(among_others, "TickerResetNaive", .procs = 2, .count = 300000, .mode = TICKER_NAIVE);
