/* SPDX-License-Identifier: MIT */
/*
 * Measures the cost of a call on a new green thread that the caller joins.
 *
 * "fib": Fibonacci numbers by the naive recursion: fib(n - 1) on a new green thread, fib(n - 2) on
 * the caller, then join.  Nothing else is computed, so the figure is the time per spawn and join.
 * The order in which the scheduler runs the green threads decides how many are alive at a time.
 */
#include "shim.h"

#include <gmp.h>

struct call {
	int n;
	int64_t result;
};

static void fib(void *arg)
{
	struct call *self = arg;

	if (self->n < 2) {
		self->result = self->n;
		return;
	}
	struct call a = { .n = self->n - 1 }, b = { .n = self->n - 2 };
	gmp_g *g;

	bench_check(gmp_spawn(&g, fib, &a, NULL) == 0, "gmp_spawn");
	fib(&b);
	gmp_join(g);
	self->result = a.result + b.result;
}

/* Returns the largest n whose tree of calls has at most `most` spawns. Sets *result to fib(n), and
 * *spawns to their number. */
static int tree(int64_t most, int64_t *result, int64_t *spawns)
{
	int64_t a = 0, b = 1, s = 0, before = 0;
	int n = 1;

	for (;; n++) {
		int64_t next = 1 + s + before;

		if (next > most)
			break;
		before = s;
		s = next;
		b += a;
		a = b - a;
	}
	*result = b;
	*spawns = s;
	return n;
}

static void fork_join(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t want, spawns, t0, t1;
	struct call warm = { .n = tree(c->count / 8, &want, &spawns) }, root;

	fib(&warm);
	bench_check(warm.result == want, "fib(%d) is not %lld", warm.n, (long long)warm.result);
	root = (struct call){ .n = tree(c->count, &want, &spawns) };
	t0 = bench_clock();
	fib(&root);
	t1 = bench_clock();
	bench_check(root.result == want, "fib(%d) is not %lld", root.n, (long long)root.result);
	bench_time(st, t1 - t0, spawns);
}

BENCH(fork_join, "fib", .procs = 1, .count = 1000000);
BENCH(fork_join, "fib", .procs = 2, .count = 1000000);
