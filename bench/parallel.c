/* SPDX-License-Identifier: MIT */
/* Implementation of parallel.h: the shared loop, the work of Go's benchmarks, and busy Ps. */
#include "parallel.h"

#include <gmp.h>

/* A green thread takes 1 / HANDFULS of its equal share of the iterations at a time. */
enum { HANDFULS = 64 };

static int64_t left, handful, taken;
static bench_body body;
static gmp_wg all;

int bench_refill(struct bench_loop *l)
{
	int64_t before = bench_add(&left, -handful) + handful;

	if (before <= 0)
		return 0;
	l->have = before < handful ? before : handful;
	return 1;
}

static void one(void *arg)
{
	struct bench_loop l = { .c = arg };

	body(&l);
	bench_check(l.have == 0, "one left %lld turns", (long long)l.have);
	bench_add(&taken, l.done);
	gmp_wg_done(&all);
}

int64_t bench_share(const struct bench_case *c, int each, int64_t count, bench_body fn)
{
	int n = each * c->procs;
	int64_t t0 = bench_clock();

	body = fn;
	taken = 0;
	left = count;
	handful = count / n / HANDFULS ? count / n / HANDFULS : 1;
	gmp_wg_add(&all, n);
	for (int i = 0; i < n; i++)
		bench_check(gmp_go(one, (void *)c) == 0, "gmp_go");
	gmp_wg_wait(&all);
	bench_check(taken == count, "%lld turns, not %lld", (long long)taken, (long long)count);
	return bench_clock() - t0;
}

void bench_parallel(struct bench_state *st, int each, bench_body fn)
{
	const struct bench_case *c = bench_this(st);

	bench_share(c, each, c->count / 8 + 1, fn);
	bench_time(st, bench_share(c, each, c->count, fn), c->count);
}

/* The instructions of Go's loop: the CPU always predicts its end.  C compilers put the test at the
 * other end of the loop; that end is not always predicted, which costs a third of the time. */
__attribute__((noinline, aligned(64))) void bench_rounds(int64_t n)
{
	int64_t i;

	__asm__ volatile("xor %k0, %k0\n\tjmp 2f\n1:\tinc %0\n2:\tcmp %0, %1\n\tjg 1b"
			 : "=&r"(i)
			 : "r"(n));
}

__attribute__((noinline, aligned(64))) int64_t bench_halves(int64_t x, int64_t n)
{
	int64_t i, sign;

	__asm__ volatile(
		"xor %k0, %k0\n\tjmp 2f\n"
		"1:\tlea (%2,%2), %1\n\tshr $63, %1\n\tlea (%1,%2,2), %2\n\tsar %2\n\tinc %0\n"
		"2:\tcmp %3, %0\n\tjne 1b"
		: "=&r"(i), "=&r"(sign), "+r"(x)
		: "r"(n));
	return x;
}

void bench_spin(int64_t ns)
{
	int64_t end = bench_clock() + ns;

	while (bench_clock() < end)
		;
}

static int64_t here, expected;

static void busy(void *arg)
{
	(void)arg;
	bench_add(&here, 1);
	while (bench_load(&here) < expected)
		;
	bench_spin(1000000);
	gmp_wg_done(&all);
}

void bench_all_ps(int procs)
{
	here = 0;
	expected = procs;
	gmp_wg_add(&all, procs);
	for (int i = 0; i < procs; i++)
		bench_check(gmp_go(busy, NULL) == 0, "gmp_go");
	gmp_wg_wait(&all);
}
