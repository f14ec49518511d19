/* SPDX-License-Identifier: MIT */
/* Tests of trees of green threads that fork and join: gone through in depth, and fair to the others. */
#define _GNU_SOURCE 1
#include "util.h"

#include <stdbool.h>

enum { N = SANITIZED ? 14 : 20, RESULT = SANITIZED ? 377 : 6765 };

struct call {
	int n;
	int64_t result;
};

static atomic_int begun, most_begun;

/* Fibonacci numbers, a green thread for every second call. */
static void fib(void *arg)
{
	struct call *self = arg;

	if (self->n < 2) {
		self->result = self->n;
		return;
	}
	struct call a = { .n = self->n - 1 }, b = { .n = self->n - 2 };
	gmp_g *g = spawn(fib, &a);

	fib(&b);
	join(g);
	self->result = a.result + b.result;
}

static void count_and_fib(void *arg)
{
	struct call *self = arg;
	int n = atomic_fetch_add(&begun, 1) + 1;

	if (n > atomic_load(&most_begun))
		atomic_store(&most_begun, n);
	if (self->n < 2) {
		self->result = self->n;
	} else {
		struct call a = { .n = self->n - 1 }, b = { .n = self->n - 2 };
		gmp_g *g = spawn(count_and_fib, &a), *h = spawn(count_and_fib, &b);

		join(h);
		join(g);
		self->result = a.result + b.result;
	}
	atomic_fetch_sub(&begun, 1);
}

RT(a_tree_gives_its_result)
{
	struct call c = { .n = N };

	fib(&c);
	CHECK_EQ(c.result, RESULT);
}

/* With one P those that have begun and not ended are a path from the root, and one for each end of a slice,
 * which leaves its own behind. */
RT(a_tree_is_gone_through_in_depth)
{
	struct call c = { .n = N };
	int64_t begun_at = gmp_now();

	check_skip_on_valgrind("each slice would leave some behind");
	if (procs > 1 || getenv("GMP_DEBUG"))
		check_skip("for one P, in the usual order");
	count_and_fib(&c);
	CHECK_EQ(c.result, RESULT);
	int slices = (int)((gmp_now() - begun_at) / (10 * MS));

	CHECK(atomic_load(&most_begun) <= (4 + slices) * N);
}

static atomic_bool over;
static atomic_long turns;

static void take_turns(UNUSED void *arg)
{
	while (!atomic_load(&over)) {
		atomic_fetch_add(&turns, 1);
		gmp_yield();
	}
}

RT(a_tree_cannot_starve_the_others)
{
	struct call c = { .n = N };
	gmp_g *g[3];
	long before;

	for (int i = 0; i < 3; i++)
		g[i] = spawn(take_turns, NULL);
	for (int k = 0; k < 3; k++) {
		int64_t limit = gmp_deadline(PATIENCE);

		before = atomic_load(&turns);
		while (atomic_load(&turns) <= before + 3) { /* a tree may take less than a slice */
			CHECK(gmp_now() < limit);
			fib(&c);
			CHECK_EQ(c.result, RESULT);
		}
	}
	atomic_store(&over, true);
	for (int i = 0; i < 3; i++)
		join(g[i]);
}

static void note(void *arg)
{
	static atomic_int order;

	*(int *)arg = atomic_fetch_add(&order, 1);
}

static void make_notes(gmp_g *g[4], int at[4])
{
	for (int i = 0; i < 4; i++)
		g[i] = spawn(note, &at[i]);
}

/* What was made last, and not yet run, goes before what was ready earlier. */
RT(those_joined_in_reverse_run_in_reverse)
{
	int at[4];
	gmp_g *g[4];

	if (procs > 1 || getenv("GMP_DEBUG"))
		check_skip("for one P, in the usual order");
	make_notes(g, at);
	for (int i = 4; i-- > 0;)
		join(g[i]);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(at[i], 3 - i);
}

/* The last one is the next anyway; to wait for the first of several does not put it before the others. */
RT(those_joined_in_order_run_in_order)
{
	static const int order[4] = { 1, 2, 3, 0 };
	int at[4];
	gmp_g *g[4];

	if (procs > 1 || getenv("GMP_DEBUG"))
		check_skip("for one P, in the usual order");
	make_notes(g, at);
	for (int i = 0; i < 4; i++)
		join(g[i]);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(at[i], order[i]);
}
