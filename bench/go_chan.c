/* SPDX-License-Identifier: MIT */
/*
 * Measures channels by the benchmarks that Go ships for its channels.
 *
 * The rows have the names of runtime/chan_test.go without "Benchmark", and do the same work on
 * gmp's channels: a bool has one byte, an int eight, struct{} none.  An operation is that of Go:
 * one channel (MakeChan), a hundred elements in and out (Uncontended, Contended), two elements
 * (Sync), one element for each of a thousand channels (Popular), otherwise one element or one try.
 */
#include "parallel.h"

#include <errno.h>
#include <gmp.h>
#include <stdlib.h>

/* Sizes of elements in bytes. */
enum { BYTE = 1, INT = sizeof(int64_t) };

/* --- making --- */

/* Channels of capacity 8; mode is the size of an element.  Each channel is freed here; Go's garbage
 * collector frees it there. */
static void make_chan(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t warm = c->count / 8, t0 = 0;

	for (int64_t i = -warm; i < c->count; i++) {
		if (i == 0)
			t0 = bench_clock();
		gmp_chan_free(bench_make((size_t)c->mode, 8));
	}
	bench_time(st, bench_clock() - t0, c->count);
}

BENCH(make_chan, "MakeChan/Byte", .procs = 1, .count = 2000000, .mode = BYTE);
BENCH(make_chan, "MakeChan/Int", .procs = 1, .count = 2000000, .mode = INT);
BENCH(make_chan, "MakeChan/Ptr", .procs = 1, .count = 2000000, .mode = INT);
BENCH(make_chan, "MakeChan/Struct/0", .procs = 1, .count = 2000000, .mode = 0);
BENCH(make_chan, "MakeChan/Struct/32", .procs = 1, .count = 2000000, .mode = 32);
BENCH(make_chan, "MakeChan/Struct/40", .procs = 1, .count = 2000000, .mode = 40);

static void creation_body(struct bench_loop *l)
{
	while (bench_more(l)) {
		gmp_chan *c = bench_make(INT, 1);
		int64_t v = l->done;

		gmp_chan_send(c, &v);
		gmp_chan_recv(c, &v);
		bench_check(v == l->done, "got %lld", (long long)v);
		gmp_chan_free(c);
	}
}

static void creation(struct bench_state *st)
{
	bench_parallel(st, 1, creation_body);
}

BENCH(creation, "ChanCreation", .procs = 1, .count = 2000000);
BENCH(creation, "ChanCreation", .procs = 2, .count = 2000000);

/* --- one channel for all --- */

static gmp_chan *shared;

static void nonblocking_body(struct bench_loop *l)
{
	int64_t v;

	while (bench_more(l))
		bench_check(gmp_chan_try_recv(shared, &v) == -EAGAIN, "something came");
}

static void closed_body(struct bench_loop *l)
{
	while (bench_more(l))
		bench_check(gmp_chan_try_recv(shared, NULL) == -EPIPE, "it is not closed");
}

static void sem_body(struct bench_loop *l)
{
	char nothing;

	while (bench_more(l)) {
		gmp_chan_send(shared, &nothing);
		gmp_chan_recv(shared, NULL);
	}
}

enum { ROOM = 100 };

static void hundred(gmp_chan *c)
{
	int64_t v = 0, sum = 0;

	for (int64_t i = 0; i < ROOM; i++)
		gmp_chan_send(c, &v);
	for (int64_t i = 0; i < ROOM; i++) {
		gmp_chan_recv(c, &v);
		sum += v;
	}
	bench_check(sum == 0, "the sum is %lld", (long long)sum);
}

static void contended_body(struct bench_loop *l)
{
	while (bench_more(l))
		hundred(shared);
}

static void uncontended_body(struct bench_loop *l)
{
	gmp_chan *c = bench_make(INT, ROOM);

	while (bench_more(l))
		hundred(c);
	gmp_chan_free(c);
}

/* One channel of elements of `size` bytes, with room for n of them per P. */
static void on_one(struct bench_state *st, size_t size, bench_body body)
{
	const struct bench_case *c = bench_this(st);

	shared = bench_make(size, (size_t)(c->n * c->procs));
	if (body == closed_body)
		gmp_chan_close(shared);
	bench_parallel(st, 1, body);
	bench_check(gmp_chan_len(shared) == 0, "%d are left", (int)gmp_chan_len(shared));
	gmp_chan_free(shared);
}

static void nonblocking(struct bench_state *st)
{
	on_one(st, INT, nonblocking_body);
}

static void closed(struct bench_state *st)
{
	on_one(st, 0, closed_body);
}

static void sem(struct bench_state *st)
{
	on_one(st, 0, sem_body);
}

static void contended(struct bench_state *st)
{
	on_one(st, INT, contended_body);
}

static void uncontended(struct bench_state *st)
{
	bench_parallel(st, 1, uncontended_body);
}

BENCH(nonblocking, "ChanNonblocking", .procs = 1, .n = 0, .count = 10000000);
BENCH(nonblocking, "ChanNonblocking", .procs = 2, .n = 0, .count = 10000000);
BENCH(closed, "ChanClosed", .procs = 1, .n = 0, .count = 10000000);
BENCH(closed, "ChanClosed", .procs = 2, .n = 0, .count = 10000000);
BENCH(sem, "ChanSem", .procs = 1, .n = 1, .count = 5000000);
BENCH(sem, "ChanSem", .procs = 2, .n = 1, .count = 2000000);
BENCH(contended, "ChanContended", .procs = 1, .n = ROOM, .count = 50000);
BENCH(contended, "ChanContended", .procs = 2, .n = ROOM, .count = 20000);
BENCH(uncontended, "ChanUncontended", .procs = 1, .count = 50000);
BENCH(uncontended, "ChanUncontended", .procs = 2, .count = 50000);

static void drain(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t n = 0, t0;
	char nothing;

	shared = bench_make(0, (size_t)c->count);
	for (int64_t i = 0; i < c->count; i++)
		gmp_chan_send(shared, &nothing);
	gmp_chan_close(shared);
	t0 = bench_clock();
	while (gmp_chan_recv(shared, NULL) == 0)
		n++;
	bench_time(st, bench_clock() - t0, c->count);
	bench_check(n == c->count, "%lld received", (long long)n);
	gmp_chan_free(shared);
}

BENCH(drain, "ReceiveDataFromClosedChan", .procs = 1, .count = 5000000);

/* --- two that send and receive alternately --- */

enum { CALLS = 1000 };

static gmp_wg done;
static int64_t calls_left, got;

static void in_turns(void *arg)
{
	int64_t work = *(int64_t *)arg, i, n = 0, v = 1;

	while ((i = bench_add(&calls_left, -1)) >= 0) {
		for (int g = 0; g < CALLS; g++) {
			if (i % 2 == 0) {
				n += gmp_chan_recv(shared, &v) == 0;
				bench_work(work);
				gmp_chan_send(shared, &v);
			} else {
				gmp_chan_send(shared, &v);
				bench_work(work);
				n += gmp_chan_recv(shared, &v) == 0;
			}
			bench_work(work);
		}
	}
	bench_add(&got, n);
	gmp_wg_done(&done);
}

static void sync_of(const struct bench_case *c, int64_t count)
{
	int64_t work = c->mode, calls = count / CALLS / 2 * 2;

	calls_left = calls;
	got = 0;
	gmp_wg_add(&done, 2);
	bench_start(in_turns, &work);
	bench_start(in_turns, &work);
	gmp_wg_wait(&done);
	bench_check(got == calls * CALLS, "%lld received", (long long)got);
}

static void chan_sync(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t t0;

	shared = bench_make(INT, 0);
	sync_of(c, c->count / 8);
	t0 = bench_clock();
	sync_of(c, c->count);
	bench_time(st, bench_clock() - t0, c->count / CALLS / 2 * 2 * CALLS);
	gmp_chan_free(shared);
}

BENCH(chan_sync, "ChanSync", .procs = 1, .n = CALLS, .count = 2000000, .mode = 0);
BENCH(chan_sync, "ChanSync", .procs = 2, .n = CALLS, .count = 1000000, .mode = 0);
BENCH(chan_sync, "ChanSyncWork", .procs = 1, .n = CALLS, .count = 20000, .mode = 1000);
BENCH(chan_sync, "ChanSyncWork", .procs = 2, .n = CALLS, .count = 20000, .mode = 1000);

/* --- as many producers and consumers as there are Ps --- */

struct prod_cons {
	int room, work;
};

static const struct prod_cons *how;

static void produce(void *arg)
{
	int64_t v = 1;

	(void)arg;
	while (bench_add(&calls_left, -1) >= 0) {
		for (int g = 0; g < CALLS; g++) {
			bench_work(how->work);
			gmp_chan_send(shared, &v);
		}
	}
	v = 0;
	gmp_chan_send(shared, &v);
	gmp_wg_done(&done);
}

static void consume(void *arg)
{
	int64_t n = 0, v;

	(void)arg;
	while (gmp_chan_recv(shared, &v) == 0 && v) {
		bench_work(how->work);
		n++;
	}
	bench_add(&got, n);
	gmp_wg_done(&done);
}

static void prod_cons_of(const struct bench_case *c, int64_t count)
{
	calls_left = count / CALLS;
	got = 0;
	gmp_wg_add(&done, 2 * c->procs);
	for (int p = 0; p < c->procs; p++) {
		bench_start(produce, NULL);
		bench_start(consume, NULL);
	}
	gmp_wg_wait(&done);
	bench_check(got == count / CALLS * CALLS, "%lld received", (long long)got);
}

static void prod_cons(struct bench_state *st)
{
	static const struct prod_cons modes[] = { { 0, 0 },   { 10, 0 },   { 100, 0 },
						  { 0, 100 }, { 10, 100 }, { 100, 100 } };
	const struct bench_case *c = bench_this(st);
	int64_t t0;

	how = &modes[c->mode];
	shared = bench_make(INT, (size_t)how->room);
	prod_cons_of(c, c->count / 8);
	t0 = bench_clock();
	prod_cons_of(c, c->count);
	bench_time(st, bench_clock() - t0, c->count / CALLS * CALLS);
	gmp_chan_free(shared);
}

BENCH(prod_cons, "ChanProdCons0", .procs = 1, .n = CALLS, .count = 3000000, .mode = 0);
BENCH(prod_cons, "ChanProdCons0", .procs = 2, .n = CALLS, .count = 1000000, .mode = 0);
BENCH(prod_cons, "ChanProdCons10", .procs = 1, .n = CALLS, .count = 5000000, .mode = 1);
BENCH(prod_cons, "ChanProdCons10", .procs = 2, .n = CALLS, .count = 2000000, .mode = 1);
BENCH(prod_cons, "ChanProdCons100", .procs = 1, .n = CALLS, .count = 5000000, .mode = 2);
BENCH(prod_cons, "ChanProdCons100", .procs = 2, .n = CALLS, .count = 2000000, .mode = 2);
BENCH(prod_cons, "ChanProdConsWork0", .procs = 1, .n = CALLS, .count = 500000, .mode = 3);
BENCH(prod_cons, "ChanProdConsWork0", .procs = 2, .n = CALLS, .count = 500000, .mode = 3);
BENCH(prod_cons, "ChanProdConsWork10", .procs = 1, .n = CALLS, .count = 500000, .mode = 4);
BENCH(prod_cons, "ChanProdConsWork10", .procs = 2, .n = CALLS, .count = 500000, .mode = 4);
BENCH(prod_cons, "ChanProdConsWork100", .procs = 1, .n = CALLS, .count = 500000, .mode = 5);
BENCH(prod_cons, "ChanProdConsWork100", .procs = 2, .n = CALLS, .count = 500000, .mode = 5);

/* --- a thousand waiters on one channel, each also on a channel of its own --- */

static int64_t rounds;

static void one_of_many(void *arg)
{
	for (int64_t i = 0; i < rounds; i++) {
		gmp_case cases[] = { GMP_RECV_CASE(shared, NULL), GMP_RECV_CASE(arg, NULL) };

		bench_check(gmp_select(cases, 2) == 1, "the popular one was ready");
	}
	gmp_wg_done(&done);
}

static void popular(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	gmp_chan **own = calloc((size_t)c->n, sizeof(*own));
	int64_t t0 = bench_clock();
	char yes = 1;

	bench_check(own, "no memory");
	shared = bench_make(BYTE, 0);
	rounds = c->count;
	gmp_wg_add(&done, (int)c->n);
	for (int64_t i = 0; i < c->n; i++) {
		own[i] = bench_make(BYTE, 0);
		bench_start(one_of_many, own[i]);
	}
	for (int64_t i = 0; i < c->count; i++)
		for (int64_t k = 0; k < c->n; k++)
			gmp_chan_send(own[k], &yes);
	gmp_wg_wait(&done);
	bench_time(st, bench_clock() - t0, c->count);
	for (int64_t i = 0; i < c->n; i++)
		gmp_chan_free(own[i]);
	gmp_chan_free(shared);
	free(own);
}

BENCH(popular, "ChanPopular", .procs = 1, .n = 1000, .count = 200);
BENCH(popular, "ChanPopular", .procs = 2, .n = 1000, .count = 200);
