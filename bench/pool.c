/* SPDX-License-Identifier: MIT */
/*
 * Measures many tasks on a pool, on a green thread each, and as delayed tasks.
 *
 * "pool/sleep": a million tasks that sleep 10 ms, on a pool of 50,000; "pool/green": the same with
 * a green thread for each task, so up to a million are alive; "pool/timers": the same as delayed
 * tasks, which wait without a stack.  In each row the first green thread submits, and then waits
 * for a wait group.  ":peak": the peak memory of the process (VmHWM, and the page tables at the
 * end) minus its memory at the start.  ":alive": the same divided by the largest number of tasks
 * that were submitted and had not ended.
 *
 * "pool/submit/N": N green threads submit empty tasks to a pool of 1,000; "pool/external": an
 * external thread submits them.  "pool/empty green": the same tasks as green threads without a
 * pool, a thousand at a time.  "pool/delayed": bytes of a delayed task.
 */
#include "shim.h"

#include <gmp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MS = 1000000, SUBMIT_CAPACITY = 1000 };

static gmp_pool *pool;
static gmp_wg all;
static int64_t ran, most;

/* Returns the value of a line of /proc/self/status, in KiB. */
static int64_t status(const char *what)
{
	char line[256];
	int64_t kib = -1;
	FILE *f = fopen("/proc/self/status", "r");

	bench_check(f, "/proc/self/status cannot be opened");
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, what, strlen(what)) && line[strlen(what)] == ':')
			kib = strtoll(line + strlen(what) + 1, NULL, 10);
	fclose(f);
	bench_check(kib >= 0, "/proc/self/status lacks %s", what);
	return kib;
}

static void begin(int capacity)
{
	gmp_pool_opts o = GMP_POOL_OPTS_INIT;

	o.idle_ns = INT64_C(10000000000);
	pool = gmp_pool_new(capacity, &o);
	bench_check(pool, "gmp_pool_new");
	ran = 0;
}

static void sleep_task(void *arg)
{
	(void)arg;
	gmp_sleep(10 * MS);
	bench_add(&ran, 1);
	gmp_wg_done(&all);
}

static void count_task(void *arg)
{
	(void)arg;
	bench_add(&ran, 1);
	gmp_wg_done(&all);
}

enum { POOL, GREEN, TIMERS };

static void tasks(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t before, after, t0, t1;

	begin((int)c->n);
	before = status("VmRSS") + status("VmPTE");
	gmp_wg_add(&all, (int)c->count);
	t0 = bench_clock();
	for (int64_t i = 0; i < c->count; i++) {
		int err = c->mode == POOL    ? gmp_pool_submit(pool, sleep_task, NULL)
			  : c->mode == GREEN ? gmp_go(sleep_task, NULL)
					     : gmp_pool_submit_at(pool, gmp_deadline(10 * MS),
								  count_task, NULL);

		bench_check(err == 0, "task %lld: %d", (long long)i, err);
		int64_t alive = i + 1 - bench_load(&ran);

		most = alive > most ? alive : most;
	}
	gmp_wg_wait(&all);
	t1 = bench_clock();
	bench_check(ran == c->count, "%lld ran", (long long)ran);
	after = status("VmHWM") + status("VmPTE");
	bench_value(st, "", "ns", (double)(t1 - t0) / (double)c->count);
	bench_value(st, "peak", "bytes", (double)(after - before) * 1024);
	if (c->mode != TIMERS)
		bench_value(st, "alive", "bytes", (double)(after - before) * 1024 / (double)most);
	gmp_pool_free(pool);
}

BENCH(tasks, "pool/sleep", .procs = 1, .n = 50000, .count = 1000000, .mode = POOL);
BENCH(tasks, "pool/sleep", .procs = 2, .n = 50000, .count = 1000000, .mode = POOL);
BENCH(tasks, "pool/sleep 64k", .procs = 2, .n = 50000, .count = 1000000, .mode = POOL,
      .stack = 64 << 10);
BENCH(tasks, "pool/green", .procs = 1, .n = 50000, .count = 1000000, .mode = GREEN);
BENCH(tasks, "pool/green", .procs = 2, .n = 50000, .count = 1000000, .mode = GREEN);
BENCH(tasks, "pool/timers", .procs = 1, .n = 50000, .count = 1000000, .mode = TIMERS);
BENCH(tasks, "pool/timers", .procs = 2, .n = 50000, .count = 1000000, .mode = TIMERS);

/* --- empty tasks --- */

static void submit_many(void *arg)
{
	int64_t n = *(int64_t *)arg;

	for (int64_t i = 0; i < n; i++) {
		int err = gmp_pool_submit(pool, count_task, NULL);

		bench_check(err == 0, "gmp_pool_submit: %d", err);
	}
}

static void *submit_external(void *arg)
{
	submit_many(arg);
	return NULL;
}

static void submit_all(int64_t submitters, int64_t n)
{
	int64_t each = n / submitters;
	pthread_t t;

	ran = 0;
	gmp_wg_add(&all, (int)(each * (submitters ? submitters : 1)));
	if (submitters == 1) {
		submit_many(&each);
	} else {
		for (int64_t i = 0; i < submitters; i++)
			bench_check(gmp_go(submit_many, &each) == 0, "gmp_go");
	}
	(void)t;
	gmp_wg_wait(&all);
	bench_check(ran == each * submitters, "%lld ran", (long long)ran);
}

static void submit(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t t0, t1;

	begin(SUBMIT_CAPACITY);
	submit_all(c->n, c->count / 8);
	t0 = bench_clock();
	submit_all(c->n, c->count);
	t1 = bench_clock();
	bench_time(st, t1 - t0, c->count);
	gmp_pool_free(pool);
}

BENCH(submit, "pool/submit/1", .procs = 1, .n = 1, .count = 4000000);
BENCH(submit, "pool/submit/1", .procs = 2, .n = 1, .count = 4000000);
BENCH(submit, "pool/submit/8", .procs = 1, .n = 8, .count = 4000000);
BENCH(submit, "pool/submit/8", .procs = 2, .n = 8, .count = 4000000);

static void external(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t n = c->count, t0, t1;
	pthread_t t;

	begin(SUBMIT_CAPACITY);
	gmp_wg_add(&all, (int)n);
	t0 = bench_clock();
	bench_check(pthread_create(&t, NULL, submit_external, &n) == 0, "pthread_create");
	gmp_wg_wait(&all);
	t1 = bench_clock();
	pthread_join(t, NULL);
	bench_check(ran == n, "%lld ran", (long long)ran);
	bench_time(st, t1 - t0, n);
	gmp_pool_free(pool);
}

BENCH(external, "pool/external", .procs = 1, .count = 1000000);

/* --- the same without a pool --- */

static void yield_task(void *arg)
{
	gmp_yield();
	count_task(arg);
}

static void batches(const struct bench_case *c, int64_t n)
{
	gmp_fn fn = c->mode / 2 ? yield_task : count_task;

	ran = 0;
	for (int64_t i = 0; i < n; i += c->n) {
		gmp_wg_add(&all, (int)c->n);
		for (int64_t k = 0; k < c->n; k++) {
			int err = c->mode % 2 == POOL ? gmp_pool_submit(pool, fn, NULL)
						      : gmp_go(fn, NULL);

			bench_check(err == 0, "task: %d", err);
		}
		gmp_wg_wait(&all);
	}
}

static void against(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t t0, t1;

	begin((int)c->n);
	batches(c, c->count / 8);
	t0 = bench_clock();
	batches(c, c->count);
	t1 = bench_clock();
	bench_check(ran == c->count, "%lld ran", (long long)ran);
	bench_time(st, t1 - t0, c->count);
	gmp_pool_free(pool);
}

BENCH(against, "pool/empty pool", .procs = 1, .n = 1000, .count = 1000000, .mode = POOL);
BENCH(against, "pool/empty green", .procs = 1, .n = 1000, .count = 1000000, .mode = GREEN);
BENCH(against, "pool/yield pool", .procs = 1, .n = 1000, .count = 1000000, .mode = 2 + POOL);
BENCH(against, "pool/yield green", .procs = 1, .n = 1000, .count = 1000000, .mode = 2 + GREEN);
BENCH(against, "pool/empty pool", .procs = 2, .n = 1000, .count = 1000000, .mode = POOL);
BENCH(against, "pool/empty green", .procs = 2, .n = 1000, .count = 1000000, .mode = GREEN);
BENCH(against, "pool/yield pool", .procs = 2, .n = 1000, .count = 1000000, .mode = 2 + POOL);
BENCH(against, "pool/yield green", .procs = 2, .n = 1000, .count = 1000000, .mode = 2 + GREEN);

/* --- memory --- */

static void delayed(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t before, after;

	begin(50000);
	gmp_pool_submit_at(pool, gmp_deadline(INT64_C(3600000000000)), count_task, NULL);
	before = status("VmRSS") + status("VmPTE");
	for (int64_t i = 0; i < c->n; i++) {
		int err = gmp_pool_submit_at(pool, gmp_deadline(INT64_C(3600000000000)), count_task,
					     NULL);

		bench_check(err == 0, "gmp_pool_submit_at: %d", err);
	}
	after = status("VmRSS") + status("VmPTE");
	bench_check(gmp_pool_delayed(pool) == c->n + 1, "they do not wait");
	bench_value(st, "", "bytes", (double)(after - before) * 1024 / (double)c->n);
	gmp_pool_free(pool);
}

BENCH(delayed, "pool/delayed", .procs = 1, .n = 1000000, .count = 1);
