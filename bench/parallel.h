/* SPDX-License-Identifier: MIT */
/*
 * Loop of a benchmark that several green threads share.
 *
 * As the parallel benchmarks of Go's testing package: so many green threads for each P, and each
 * takes iterations from a common store, a handful at a time, until it is empty:
 *
 *	static void body(struct bench_loop *l)
 *	{
 *		while (bench_more(l))
 *			one_turn();
 *	}
 *
 * The turns that the bodies have taken are counted, and must be as many as the row asks for.
 */
#ifndef BENCH_PARALLEL_H
#define BENCH_PARALLEL_H

#include "shim.h"

#include <gmp.h>

struct bench_loop {
	const struct bench_case *c;
	int64_t have, done;
};

typedef void (*bench_body)(struct bench_loop *l);

int bench_refill(struct bench_loop *l);

static inline int bench_more(struct bench_loop *l)
{
	if (l->have == 0 && !bench_refill(l))
		return 0;
	l->have--;
	l->done++;
	return 1;
}

/* `count` turns on `each` green threads for each P; their wall time. */
int64_t bench_share(const struct bench_case *c, int each, int64_t count, bench_body body);

/* A row that is nothing else: some turns to warm up, then c->count of them, which are reported. */
void bench_parallel(struct bench_state *st, int each, bench_body body);

/* What a row does beside what it measures: an empty loop, which is what Go's compiler makes of the
 * work in its own.  One for all rows, so that none has it across two lines of code, where it takes
 * twice as long. */
void bench_rounds(int64_t n);

static inline void bench_work(int64_t n)
{
	if (n)
		bench_rounds(n);
}

/* Doubles x and halves it again, n times: the work in Go's rwmutex benchmarks.  Each instruction
 * depends on the one before; C compilers would remove the loop, as its result is x. */
int64_t bench_halves(int64_t x, int64_t n);

/* Keeps a P busy for so long, without yielding. */
void bench_spin(int64_t ns);

/* Or the benchmark fails. */
static inline void bench_start(gmp_fn fn, void *arg)
{
	bench_check(gmp_go(fn, arg) == 0, "gmp_go");
}

static inline gmp_chan *bench_make(size_t size, size_t capacity)
{
	gmp_chan *c = gmp_chan_new(size, capacity);

	bench_check(c, "no memory");
	return c;
}

/* Has every P run something at the same time. */
void bench_all_ps(int procs);

#endif
