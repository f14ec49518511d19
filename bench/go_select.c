/* SPDX-License-Identifier: MIT */
/*
 * Measures select by the benchmarks that Go ships for its select.
 *
 * The rows have the names of runtime/chan_test.go without "Benchmark", and do the same work.  An
 * operation is one select and the work that follows it; that of Nonblock is four tries, two of them
 * to send.
 */
#include "parallel.h"

#include <errno.h>
#include <gmp.h>

static gmp_chan *chans[4];
static gmp_wg done;

static gmp_chan *make(size_t capacity)
{
	gmp_chan *c = gmp_chan_new(sizeof(int64_t), capacity);

	bench_check(c, "no memory");
	return c;
}

static void free_all(void)
{
	for (int i = 0; i < 4; i++) {
		gmp_chan_free(chans[i]);
		chans[i] = NULL;
	}
}

/* Pass an element back and forth between two channels. */
static void back_and_forth(struct bench_loop *l, gmp_chan *a, gmp_chan *b)
{
	int64_t v = 1;

	gmp_chan_send(a, &v);
	while (bench_more(l)) {
		gmp_case cases[] = { GMP_RECV_CASE(a, &v), GMP_RECV_CASE(b, &v) };
		int i = gmp_select(cases, 2);

		bench_check(v == 1 && cases[i].status == 0, "select: %d", i);
		v = 1;
		gmp_chan_send(i == 0 ? b : a, &v);
	}
}

static void own_pair(struct bench_loop *l)
{
	gmp_chan *a = make(1), *b = make(1);

	back_and_forth(l, a, b);
	bench_check(gmp_chan_len(a) + gmp_chan_len(b) == 1, "not one element");
	gmp_chan_free(a);
	gmp_chan_free(b);
}

static void common_pair(struct bench_loop *l)
{
	back_and_forth(l, chans[0], chans[1]);
}

static void uncontended(struct bench_state *st)
{
	bench_parallel(st, 1, own_pair);
}

/* Like bench_parallel, but the channels begin empty both times. */
static void twice(struct bench_state *st, void (*run)(struct bench_state *, int64_t count))
{
	const struct bench_case *c = bench_this(st);
	int64_t t0;

	run(st, c->count / 8 + 1);
	t0 = bench_clock();
	run(st, c->count);
	bench_time(st, bench_clock() - t0, c->count);
}

static void async_run(struct bench_state *st, int64_t count)
{
	const struct bench_case *c = bench_this(st);

	chans[0] = make((size_t)c->procs);
	chans[1] = make((size_t)c->procs);
	bench_share(c, 1, count, common_pair);
	bench_check(gmp_chan_len(chans[0]) + gmp_chan_len(chans[1]) == (size_t)c->procs,
		    "an element is lost");
	free_all();
}

static void async_contended(struct bench_state *st)
{
	twice(st, async_run);
}

BENCH(uncontended, "SelectUncontended", .procs = 1, .count = 3000000);
BENCH(uncontended, "SelectUncontended", .procs = 2, .count = 3000000);
BENCH(async_contended, "SelectAsyncContended", .procs = 1, .count = 3000000);
BENCH(async_contended, "SelectAsyncContended", .procs = 2, .count = 1000000);

/* --- all wait: three unbuffered channels, and a fourth that ends the senders --- */

static void sender(void *arg)
{
	int64_t v = 1;
	int i;

	(void)arg;
	do {
		gmp_case cases[] = { GMP_SEND_CASE(chans[0], &v), GMP_SEND_CASE(chans[1], &v),
				     GMP_SEND_CASE(chans[2], &v), GMP_RECV_CASE(chans[3], NULL) };

		i = gmp_select(cases, 4);
	} while (i < 3);
	gmp_wg_done(&done);
}

static void receiver(struct bench_loop *l)
{
	gmp_wg_add(&done, 1);
	bench_check(gmp_go(sender, NULL) == 0, "gmp_go");
	while (bench_more(l)) {
		int64_t v = 0;
		gmp_case cases[] = { GMP_RECV_CASE(chans[0], &v), GMP_RECV_CASE(chans[1], &v),
				     GMP_RECV_CASE(chans[2], &v) };

		gmp_select(cases, 3);
		bench_check(v == 1, "got %lld", (long long)v);
	}
}

static void sync_run(struct bench_state *st, int64_t count)
{
	for (int i = 0; i < 4; i++)
		chans[i] = make(0);
	bench_share(bench_this(st), 1, count, receiver);
	gmp_chan_close(chans[3]);
	gmp_wg_wait(&done);
	free_all();
}

static void sync_contended(struct bench_state *st)
{
	twice(st, sync_run);
}

BENCH(sync_contended, "SelectSyncContended", .procs = 1, .count = 500000);
BENCH(sync_contended, "SelectSyncContended", .procs = 2, .count = 200000);

/* --- no G waits --- */

static void tries(struct bench_loop *l)
{
	int64_t v = 1;

	while (bench_more(l)) {
		bench_check(gmp_chan_try_recv(chans[0], &v) == -EAGAIN, "an element was received");
		bench_check(gmp_chan_try_send(chans[1], &v) == -EAGAIN, "an element was sent");
		gmp_chan_try_recv(chans[2], &v);
		gmp_chan_try_send(chans[3], &v);
	}
}

static void nonblock(struct bench_state *st)
{
	for (int i = 0; i < 4; i++)
		chans[i] = make(i / 2);
	bench_parallel(st, 1, tries);
	bench_check(gmp_chan_len(chans[3]) == 1, "nothing was sent");
	free_all();
}

BENCH(nonblock, "SelectNonblock", .procs = 1, .count = 3000000);
BENCH(nonblock, "SelectNonblock", .procs = 2, .count = 2000000);

/* --- producers and consumers with a stop channel and a timer of an hour --- */

enum { CALLS = 1000, WORK = 100, ELEMENTS = 0, STOP = 1 };

static int64_t calls_left, got;

static void produce(void *arg)
{
	gmp_chan *hour = gmp_tick_new(gmp_deadline(INT64_C(3600000000000)), 0);
	int64_t v = 1;

	(void)arg;
	bench_check(hour, "gmp_tick_new");
	while (bench_add(&calls_left, -1) >= 0) {
		for (int g = 0; g < CALLS; g++) {
			gmp_case cases[] = { GMP_SEND_CASE(chans[ELEMENTS], &v),
					     GMP_RECV_CASE(hour, NULL),
					     GMP_RECV_CASE(chans[STOP], NULL) };

			bench_work(WORK);
			bench_check(gmp_select(cases, 3) == 0, "not sent");
		}
	}
	v = 0;
	gmp_chan_send(chans[ELEMENTS], &v);
	gmp_tick_free(hour);
	gmp_wg_done(&done);
}

static void consume(void *arg)
{
	gmp_chan *hour = gmp_tick_new(gmp_deadline(INT64_C(3600000000000)), 0);
	int64_t n = 0, v;

	(void)arg;
	bench_check(hour, "gmp_tick_new");
	for (;;) {
		gmp_case cases[] = { GMP_RECV_CASE(chans[ELEMENTS], &v), GMP_RECV_CASE(hour, NULL),
				     GMP_RECV_CASE(chans[STOP], NULL) };

		bench_check(gmp_select(cases, 3) == 0, "not received");
		if (v == 0)
			break;
		bench_work(WORK);
		n++;
	}
	bench_add(&got, n);
	gmp_tick_free(hour);
	gmp_wg_done(&done);
}

static void prod_cons_run(struct bench_state *st, int64_t count)
{
	const struct bench_case *c = bench_this(st);

	chans[ELEMENTS] = make(128);
	chans[STOP] = make(0);
	calls_left = count / CALLS;
	got = 0;
	gmp_wg_add(&done, 2 * c->procs);
	for (int p = 0; p < c->procs; p++) {
		bench_check(gmp_go(produce, NULL) == 0, "gmp_go");
		bench_check(gmp_go(consume, NULL) == 0, "gmp_go");
	}
	gmp_wg_wait(&done);
	bench_check(got == count / CALLS * CALLS, "%lld received", (long long)got);
	free_all();
}

static void prod_cons(struct bench_state *st)
{
	twice(st, prod_cons_run);
}

BENCH(prod_cons, "SelectProdCons", .procs = 1, .n = CALLS, .count = 500000);
BENCH(prod_cons, "SelectProdCons", .procs = 2, .n = CALLS, .count = 500000);
