/* SPDX-License-Identifier: MIT */
/*
 * Measures select: waiting for the first ready channel of several.
 *
 * "select/4 wakes": a green thread waits in a select of four channels; a peer sends to a random one
 * of them, and waits for an answer on a fifth.  "select/4 ready": one to four of the buffers hold
 * elements; an operation is a send to a random channel and a select.  "select/4 try":
 * gmp_select_try with no element.
 *
 * "select/crowd": n green threads wait in a select, each for an element on its own channel and on a
 * shared channel.  An operation wakes a random G through its own channel, so the G leaves the queue
 * of the shared channel somewhere in the middle, and joins it again at the end.  The figures are
 * the cost with 1,000 waiters, and that cost in per cent of the cost with 100 ("growth").  If the
 * work per wakeup is constant, growth is 100 plus the effect of the caches; if it is linear in n,
 * growth approaches 1,000.
 */
#include "shim.h"

#include <errno.h>
#include <gmp.h>
#include <stdlib.h>

enum { CHANNELS = 4 };

static gmp_chan *chans[CHANNELS], *answers;
static gmp_wg done;

static gmp_chan *make(size_t capacity)
{
	gmp_chan *c = gmp_chan_new(sizeof(int64_t), capacity);

	bench_check(c, "no memory");
	return c;
}

static void make_all(size_t capacity)
{
	for (int i = 0; i < CHANNELS; i++)
		chans[i] = make(capacity);
}

static void free_all(void)
{
	for (int i = 0; i < CHANNELS; i++)
		gmp_chan_free(chans[i]);
}

static uint64_t next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x >> 32;
}

static const uint64_t seed = 88172645463325252;

/* --- waking --- */

static void send_to_any(void *arg)
{
	int64_t rounds = *(int64_t *)arg, v;
	uint64_t x = seed;

	for (int64_t i = 0; i < rounds; i++) {
		v = i * CHANNELS + (int64_t)(next_random(&x) % CHANNELS);
		gmp_chan_send(chans[v % CHANNELS], &v);
		gmp_chan_recv(answers, &v);
		bench_check(v == i, "answer %lld, not %lld", (long long)v, (long long)i);
	}
	gmp_wg_done(&done);
}

static void wakes(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t warm = c->count / 8, rounds = c->count + warm, t0 = 0, t1, v;
	gmp_case cases[CHANNELS];

	make_all(0);
	answers = make(0);
	gmp_wg_add(&done, 1);
	bench_check(gmp_go(send_to_any, &rounds) == 0, "gmp_go");
	for (int64_t i = 0; i < rounds; i++) {
		if (i == warm)
			t0 = bench_clock();
		for (int k = 0; k < CHANNELS; k++)
			cases[k] = GMP_RECV_CASE(chans[k], &v);
		int k = gmp_select(cases, CHANNELS);

		bench_check(k == v % CHANNELS && v / CHANNELS == i && cases[k].status == 0,
			    "got %lld by case %d", (long long)v, k);
		gmp_chan_send(answers, &i);
	}
	t1 = bench_clock();
	gmp_wg_wait(&done);
	free_all();
	gmp_chan_free(answers);
	bench_time(st, t1 - t0, c->count);
}

BENCH(wakes, "select/4 wakes", .procs = 1, .count = 1000000);
BENCH(wakes, "select/4 wakes", .procs = 2, .count = 1000000);

/* --- ready --- */

static void ready(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t warm = c->count / 8, rounds = c->count + warm, t0 = 0, t1, v, in = 0, out = 0;
	gmp_case cases[CHANNELS];
	uint64_t x = seed;

	make_all(CHANNELS);
	for (int64_t i = 0; i < rounds + CHANNELS - 1; i++) {
		if (i == warm + CHANNELS - 1)
			t0 = bench_clock();
		int64_t to = (int64_t)(next_random(&x) % CHANNELS);

		in += v = i * CHANNELS + to;
		gmp_chan_send(chans[to], &v);
		if (i < CHANNELS - 1) /* from then on, this many elements stay in the buffers */
			continue;
		for (int k = 0; k < CHANNELS; k++)
			cases[k] = GMP_RECV_CASE(chans[k], &v);
		int k = gmp_select(cases, CHANNELS);

		bench_check(k == v % CHANNELS && cases[k].status == 0, "got %lld by case %d",
			    (long long)v, k);
		out += v;
	}
	t1 = bench_clock();
	for (int k = 0; k < CHANNELS; k++)
		while (gmp_chan_try_recv(chans[k], &v) == 0)
			out += v;
	bench_check(in == out, "%lld came of %lld", (long long)out, (long long)in);
	free_all();
	bench_time(st, t1 - t0, c->count);
}

BENCH(ready, "select/4 ready", .procs = 1, .count = 2000000);

static void try(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t warm = c->count / 8, t0 = 0, t1, v = 1, nothing = 0;
	gmp_case cases[CHANNELS];

	make_all(0);
	for (int64_t i = -warm; i < c->count; i++) {
		if (i == 0)
			t0 = bench_clock();
		for (int k = 0; k < CHANNELS; k++)
			cases[k] = GMP_RECV_CASE(chans[k], &v);
		nothing += gmp_select_try(cases, CHANNELS) == -EAGAIN;
	}
	t1 = bench_clock();
	bench_check(nothing == c->count + warm && v == 1, "something came");
	free_all();
	bench_time(st, t1 - t0, c->count);
}

BENCH(try, "select/4 try", .procs = 1, .count = 2000000);

/* --- many waiters on one channel --- */

static gmp_chan *shared;
static int64_t entered, last;

static void one_of_many(void *arg)
{
	int64_t v;

	for (;;) {
		gmp_case cases[] = { GMP_RECV_CASE(shared, NULL), GMP_RECV_CASE(arg, &v) };

		entered++; /* one P, and no call between this and the wait */
		if (gmp_select(cases, 2) == 0)
			break;
		last = v;
	}
	gmp_wg_done(&done);
}

/* Returns the ns per wakeup, of `count` wakeups with n waiters. */
static double crowd_of(int64_t n, int64_t count)
{
	gmp_chan **own = calloc((size_t)n, sizeof(gmp_chan *));
	int64_t warm = count / 8, t0 = 0, t1;
	uint64_t x = seed;

	bench_check(own, "no memory");
	shared = make(0);
	entered = last = 0;
	gmp_wg_add(&done, (int)n);
	for (int64_t i = 0; i < n; i++) {
		own[i] = make(0);
		bench_check(gmp_go(one_of_many, own[i]) == 0, "gmp_go");
	}
	while (entered < n)
		gmp_yield();
	for (int64_t i = -warm; i < count; i++) {
		if (i == 0)
			t0 = bench_clock();
		gmp_chan_send(own[next_random(&x) % (uint64_t)n], &i);
		do
			gmp_yield();
		while (last != i);
	}
	t1 = bench_clock();
	bench_check(entered == n + warm + count, "%lld selects", (long long)entered);
	gmp_chan_close(shared);
	gmp_wg_wait(&done);
	gmp_chan_free(shared);
	for (int64_t i = 0; i < n; i++)
		gmp_chan_free(own[i]);
	free(own);
	return (double)(t1 - t0) / (double)count;
}

static void crowd(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	double few = crowd_of(c->n, c->count), many = crowd_of(10 * c->n, c->count);

	bench_value(st, "1000", "ns", many);
	bench_value(st, "growth", "percent", 100 * many / few);
}

BENCH(crowd, "select/crowd", .procs = 1, .n = 100, .count = 500000);
