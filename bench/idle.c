/* SPDX-License-Identifier: MIT */
/*
 * Does a process whose green threads all wait leave the CPU alone?
 *
 * n green threads are parked; three seconds later, when the memory of the start has been given back,
 * the first one sleeps for five; CPU time of the process as per cent of that time.
 */
#include "shim.h"

#include <gmp.h>
#include <sys/resource.h>

static gmp_wg gate, done;
static int64_t arrived, woken;

static int64_t cpu_now(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * INT64_C(1000000000) +
	       (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * INT64_C(1000);
}

static void parker(void *arg)
{
	(void)arg;
	bench_add(&arrived, 1);
	gmp_wg_wait(&gate);
	bench_add(&woken, 1);
	gmp_wg_done(&done);
}

static void idle(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t t0, t1, cpu;

	arrived = woken = 0;
	gmp_wg_add(&gate, 1);
	gmp_wg_add(&done, (int)c->n);
	for (int64_t i = 0; i < c->n; i++)
		bench_check(gmp_go(parker, NULL) == 0, "gmp_go");
	gmp_sleep(INT64_C(3000000000)); /* the trimmer has its say first, and then rests */
	bench_check(arrived == c->n, "%lld parked", (long long)arrived);
	t0 = bench_clock();
	cpu = cpu_now();
	gmp_sleep(INT64_C(5000000000));
	cpu = cpu_now() - cpu;
	t1 = bench_clock();
	bench_check(t1 - t0 >= INT64_C(5000000000), "woke too early");
	gmp_wg_done(&gate);
	gmp_wg_wait(&done);
	bench_check(woken == c->n, "%lld woke", (long long)woken);
	bench_value(st, "", "percent", 100.0 * cpu / (t1 - t0));
}

BENCH(idle, "idle/1000", .procs = 2, .n = 1000, .count = 1);
