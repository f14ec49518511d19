/* SPDX-License-Identifier: MIT */
/*
 * Compares three shapes of a pipeline: a worker pool, fan-out and fan-in, and one locked thread.
 *
 * The claim: the three do the same work.  A pool is the simplest if items are independent.
 * Channels cost a hand-over each way.  A locked thread is for state that cannot move, and limits
 * the rate.
 *
 * One source sends items, STEPS rounds of a hash are computed on each, and the results are added.
 *   pool    a task of a gmp_pool for each item, WORKERS at a time
 *   fan     WORKERS green threads between a channel of items and a channel of results
 *   locked  one green thread, locked to its OS thread, between the same channels
 *   alone   a loop: the floor, and the expected sum
 */
#include "exp.h"

static const char usage[] = "exp-pipeline pool|fan|locked|alone ITEMS STEPS PROCS";

enum { WORKERS = 8, BUFFERED = 128 };

static int items, steps;
static uint64_t sum;
static gmp_wg done;
static gmp_chan *in, *out;

static uint64_t hash(uint64_t v)
{
	v += 0x9e3779b97f4a7c15u;
	for (int i = 0; i < steps; i++)
		v = (v ^ (v >> 29)) * 0xbf58476d1ce4e5b9u;
	return v;
}

static uint64_t alone(void)
{
	uint64_t all = 0;

	for (int i = 0; i < items; i++)
		all += hash((uint64_t)i);
	return all;
}

static void pool_task(void *arg)
{
	exp_add(&sum, hash((uint64_t)(uintptr_t)arg));
	gmp_wg_done(&done);
}

static void by_pool(void)
{
	gmp_pool *p = gmp_pool_new(WORKERS, NULL);

	exp_check(p, "gmp_pool_new");
	gmp_wg_add(&done, items);
	for (int i = 0; i < items; i++) {
		int err = gmp_pool_submit(p, pool_task, (void *)(uintptr_t)i);

		exp_check(err == 0, "gmp_pool_submit: %s", strerror(-err));
	}
	gmp_wg_wait(&done);
	gmp_pool_free(p);
}

static void source(void *arg)
{
	(void)arg;
	for (uint64_t i = 0; i < (uint64_t)items; i++)
		gmp_chan_send(in, &i);
	gmp_chan_close(in);
}

static void worker(void *arg)
{
	uint64_t v;

	(void)arg;
	while (gmp_chan_recv(in, &v) == 0) {
		v = hash(v);
		gmp_chan_send(out, &v);
	}
	gmp_wg_done(&done);
}

static void locked_worker(void *arg)
{
	exp_check(gmp_lock_thread() == 0, "gmp_lock_thread");
	worker(arg);
}

static void by_channels(gmp_fn fn, int workers)
{
	uint64_t v;

	in = exp_chan(sizeof(v), BUFFERED);
	out = exp_chan(sizeof(v), BUFFERED);
	gmp_wg_add(&done, workers);
	for (int i = 0; i < workers; i++)
		exp_go(fn, NULL);
	exp_go(source, NULL);
	for (int i = 0; i < items; i++) {
		exp_check(gmp_chan_recv(out, &v) == 0, "gmp_chan_recv");
		sum += v;
	}
	gmp_wg_wait(&done);
}

static const char *way;

static void app(void *arg)
{
	uint64_t expected = alone();
	int64_t cpu = exp_cpu(), t0 = exp_clock();

	(void)arg;
	if (!strcmp(way, "pool"))
		by_pool();
	else if (!strcmp(way, "fan"))
		by_channels(worker, WORKERS);
	else if (!strcmp(way, "locked"))
		by_channels(locked_worker, 1);
	else
		sum = alone();
	t0 = exp_clock() - t0;
	cpu = exp_cpu() - cpu;
	exp_check(sum == expected, "a wrong sum");
	exp_figure("item", "ns", (double)t0 / items);
	exp_figure("cpu", "ns", (double)cpu / items);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	items = exp_count(argc, argv, 2, usage);
	steps = exp_count(argc, argv, 3, usage);
	way = argv[1];
	exp_check(!strcmp(way, "pool") || !strcmp(way, "fan") || !strcmp(way, "locked") ||
			  !strcmp(way, "alone"),
		  "usage: %s", usage);
	exp_run(app, exp_count(argc, argv, 4, usage));
	return 0;
}
