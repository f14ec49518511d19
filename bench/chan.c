/* SPDX-License-Identifier: MIT */
/*
 * Measures the cost of passing elements over channels.
 *
 * "ping/chan": round trip between two green threads over two unbuffered channels; every hand-over
 * is a park and a ready.  "chan/1x1", "chan/8x8": one producer and one consumer, or eight of each,
 * on one channel with room for 128 elements; "chan/8x8 unbuffered": with room for none.  The figure
 * is the wall time of all divided by the number of elements.  Checks that each element arrives
 * once, and the elements of each producer in order.
 *
 * "sieve/1500": the first 1,500 primes through a chain of filters, with one green thread and one
 * channel per prime.  "close/10000": time from the close of a channel from which 10,000 green
 * threads wait to receive, until all of them have run.
 */
#include "shim.h"

#include <errno.h>
#include <gmp.h>
#include <stdlib.h>

static gmp_wg gate, done;

static gmp_chan *make(size_t capacity)
{
	gmp_chan *c = gmp_chan_new(sizeof(int64_t), capacity);

	bench_check(c, "no memory");
	return c;
}

static void start(gmp_fn fn, void *arg)
{
	int err = gmp_go(fn, arg);

	bench_check(err == 0, "gmp_go: %d", err);
}

/* --- ping/chan --- */

static gmp_chan *ping, *pong;

static void answer(void *arg)
{
	int64_t v;

	(void)arg;
	while (gmp_chan_recv(ping, &v) == 0) {
		v++;
		gmp_chan_send(pong, &v);
	}
	gmp_wg_done(&done);
}

static void round_trip(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t warm = c->count / 8, t0 = 0, t1;

	ping = make(0);
	pong = make(0);
	gmp_wg_add(&done, 1);
	start(answer, NULL);
	for (int64_t i = -warm; i < c->count; i++) {
		int64_t v = i;

		if (i == 0)
			t0 = bench_clock();
		gmp_chan_send(ping, &v);
		gmp_chan_recv(pong, &v);
		bench_check(v == i + 1, "got %lld, not %lld", (long long)v, (long long)i + 1);
	}
	t1 = bench_clock();
	gmp_chan_close(ping);
	gmp_wg_wait(&done);
	gmp_chan_free(ping);
	gmp_chan_free(pong);
	bench_time(st, t1 - t0, c->count);
}

BENCH(round_trip, "ping/chan", .procs = 1, .count = 1000000);
BENCH(round_trip, "ping/chan", .procs = 2, .count = 1000000);

/* --- chan/NxN --- */

enum { CAPACITY = 128, SIDES = 8 };

static gmp_chan *shared;
static int64_t each, received;
static uint64_t sum;
static gmp_wg sent;

/* Element i of producer `me` is i * SIDES + me. */
static void produce(void *arg)
{
	uint64_t me = (uintptr_t)arg;

	gmp_wg_wait(&gate);
	for (uint64_t i = 0; i < (uint64_t)each; i++) {
		uint64_t v = i * SIDES + me;

		gmp_chan_send(shared, &v);
	}
	gmp_wg_done(&sent);
}

static void consume(void *arg)
{
	uint64_t s = 0, v, next[SIDES] = { 0 };
	int64_t n = 0;

	(void)arg;
	gmp_wg_wait(&gate);
	while (gmp_chan_recv(shared, &v) == 0) {
		bench_check(v >= next[v % SIDES], "%lld came too late", (long long)v / SIDES);
		next[v % SIDES] = v + SIDES;
		s += v;
		n++;
	}
	bench_add(&received, n);
	bench_add(&sum, s);
	gmp_wg_done(&done);
}

/* c->n producers and c->n consumers on a channel of capacity c->mode. */
static void pass_on(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	uint64_t want = 0;
	int64_t t0, t1;

	each = c->count / c->n;
	received = sum = 0;
	shared = make((size_t)c->mode);
	gmp_wg_add(&gate, 1);
	gmp_wg_add(&sent, (int)c->n);
	gmp_wg_add(&done, (int)c->n);
	for (int64_t i = 0; i < c->n; i++) {
		start(produce, (void *)(intptr_t)i);
		start(consume, NULL);
		want += (uint64_t)(each * i + SIDES * (each * (each - 1) / 2));
	}
	gmp_sleep(1000000);
	t0 = bench_clock();
	gmp_wg_done(&gate);
	gmp_wg_wait(&sent);
	gmp_chan_close(shared);
	gmp_wg_wait(&done);
	t1 = bench_clock();
	bench_check(received == each * c->n, "%lld received", (long long)received);
	bench_check(sum == want, "their sum is %lld", (long long)sum);
	gmp_chan_free(shared);
	bench_time(st, t1 - t0, c->count);
}

BENCH(pass_on, "chan/1x1", .procs = 1, .n = 1, .mode = CAPACITY, .count = 4000000);
BENCH(pass_on, "chan/1x1", .procs = 2, .n = 1, .mode = CAPACITY, .count = 4000000);
BENCH(pass_on, "chan/8x8", .procs = 1, .n = SIDES, .mode = CAPACITY, .count = 4000000);
BENCH(pass_on, "chan/8x8", .procs = 2, .n = SIDES, .mode = CAPACITY, .count = 4000000);
BENCH(pass_on, "chan/8x8 unbuffered", .procs = 2, .n = SIDES, .mode = 0, .count = 2000000);

/* --- sieve --- */

struct filter {
	gmp_chan *in, *out;
	int64_t prime;
};

static int stop;

static void naturals(void *arg)
{
	gmp_chan *out = arg;

	for (int64_t i = 2; !bench_load(&stop); i++)
		gmp_chan_send(out, &i);
	gmp_chan_close(out);
	gmp_wg_done(&done);
}

static void filter(void *arg)
{
	struct filter *f = arg;
	int64_t v;

	while (gmp_chan_recv(f->in, &v) == 0)
		if (v % f->prime)
			gmp_chan_send(f->out, &v);
	gmp_chan_close(f->out);
	gmp_wg_done(&done);
}

/* Write the first n primes to `list`. Returns the time in ns. */
static int64_t primes(int64_t *list, int64_t n)
{
	struct filter *filters = calloc((size_t)n, sizeof(*filters));
	gmp_chan *c = make(0);
	int64_t t0, t1, v;

	bench_check(filters, "no memory");
	bench_store(&stop, 0);
	gmp_wg_add(&done, (int)n + 1);
	t0 = bench_clock();
	start(naturals, c);
	for (int64_t i = 0; i < n; i++) {
		gmp_chan_recv(c, &list[i]);
		filters[i] = (struct filter){ c, make(0), list[i] };
		start(filter, &filters[i]);
		c = filters[i].out;
	}
	t1 = bench_clock();
	bench_store(&stop, 1);
	while (gmp_chan_recv(c, &v) == 0)
		;
	gmp_wg_wait(&done);
	for (int64_t i = 0; i < n; i++)
		gmp_chan_free(filters[i].in);
	gmp_chan_free(c);
	free(filters);
	return t1 - t0;
}

static void sieve(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t *list = calloc((size_t)c->n, sizeof(*list)), ns, at = 0;

	bench_check(list, "no memory");
	primes(list, c->n / 8);
	ns = primes(list, c->n);
	for (int64_t v = 2; at < c->n; v++) {
		int64_t d = 2;

		while (d * d <= v && v % d)
			d++;
		if (d * d <= v)
			continue;
		bench_check(list[at] == v, "prime %lld is not %lld", (long long)at,
			    (long long)list[at]);
		at++;
	}
	free(list);
	bench_value(st, "", "ms", (double)ns / 1e6);
}

BENCH(sieve, "sieve/1500", .procs = 1, .n = 1500, .count = 1);
BENCH(sieve, "sieve/1500", .procs = 2, .n = 1500, .count = 1);
BENCH(sieve, "sieve/2000", .procs = 1, .n = 2000, .count = 1);
BENCH(sieve, "sieve/2000", .procs = 2, .n = 2000, .count = 1);

/* --- close --- */

static int64_t waiting, woken;

static void wait_for_close(void *arg)
{
	int64_t v = 1;

	bench_add(&waiting, 1);
	int result = gmp_chan_recv(arg, &v);

	bench_check(result == -EPIPE && v == 0, "received %lld, %d", (long long)v, result);
	bench_add(&woken, 1);
	gmp_wg_done(&done);
}

static void close_on_many(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t ns = 0;

	for (int64_t round = -2; round < c->count; round++) {
		gmp_chan *all = make(0);
		int64_t t0;

		waiting = woken = 0;
		gmp_wg_add(&done, (int)c->n);
		for (int64_t i = 0; i < c->n; i++)
			start(wait_for_close, all);
		while (bench_load(&waiting) < c->n)
			gmp_yield();
		gmp_sleep(1000000);
		bench_check(bench_load(&woken) == 0, "some woke too early");
		t0 = bench_clock();
		gmp_chan_close(all);
		gmp_wg_wait(&done);
		if (round >= 0)
			ns += bench_clock() - t0;
		bench_check(woken == c->n, "%lld woke", (long long)woken);
		gmp_chan_free(all);
	}
	bench_time(st, ns, c->count);
}

BENCH(close_on_many, "close/10000", .procs = 1, .n = 10000, .count = 20);
BENCH(close_on_many, "close/10000", .procs = 2, .n = 10000, .count = 20);
