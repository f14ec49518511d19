/* SPDX-License-Identifier: MIT */
/*
 * Measures the CPU time of a process with only waiting green threads.
 *
 * n green threads are parked, and the first green thread sleeps.  An external thread reads the CPU
 * time of the process after three seconds, when the memory of the start is freed, and five seconds
 * later.  The figure is the difference in per cent.  A green thread that did this would wake the
 * runtime.
 */
#include "shim.h"

#include <gmp.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

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

static double percent;

static void *look(void *arg)
{
	int64_t t0, cpu;

	sleep(3);
	t0 = bench_clock();
	cpu = cpu_now();
	sleep(5);
	percent = 100.0 * (double)(cpu_now() - cpu) / (double)(bench_clock() - t0);
	return arg;
}

static void idle(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	pthread_t looker;

	arrived = woken = 0;
	gmp_wg_add(&gate, 1);
	gmp_wg_add(&done, (int)c->n);
	for (int64_t i = 0; i < c->n; i++)
		bench_check(gmp_go(parker, NULL) == 0, "gmp_go");
	bench_check(pthread_create(&looker, NULL, look, NULL) == 0, "pthread_create");
	gmp_sleep(INT64_C(9000000000));
	bench_check(bench_load(&arrived) == c->n, "%lld parked", (long long)arrived);
	pthread_join(looker, NULL);
	gmp_wg_done(&gate);
	gmp_wg_wait(&done);
	bench_check(woken == c->n, "%lld woke", (long long)woken);
	bench_value(st, "", "percent", percent);
}

BENCH(idle, "idle/1000", .procs = 2, .n = 1000, .count = 1);
