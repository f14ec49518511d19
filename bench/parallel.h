/* SPDX-License-Identifier: MIT */
/*
 * Parallel loop of a benchmark: several green threads share its iterations.
 *
 * The loop is like that of parallel benchmarks in Go's testing package: a number of green threads
 * for each P take iterations from a common store, a handful at a time, until the store is empty:
 *
 *	static void body(struct bench_loop *l)
 *	{
 *		while (bench_more(l))
 *			one_turn();
 *	}
 *
 * The iterations of all bodies are counted; their number must be that of the row.
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

/* Run `count` iterations on `each` green threads for each P. Returns the wall time in ns. */
int64_t bench_share(const struct bench_case *c, int each, int64_t count, bench_body body);

/* A whole row: run some iterations to warm up, then c->count iterations, and report these. */
void bench_parallel(struct bench_state *st, int each, bench_body body);

/* Work of a row beside the measured operation: an empty loop, as Go's compiler leaves it in Go's
 * benchmarks.  All rows use this one loop, because a loop across two cache lines of code takes
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

/* Keeps a P busy for this many ns, without yielding. */
void bench_spin(int64_t ns);

/* Start a green thread; if that fails, the benchmark fails. */
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

/* Returns after every P has run a green thread at the same time. */
void bench_all_ps(int procs);

#endif
