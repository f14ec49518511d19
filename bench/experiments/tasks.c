/* SPDX-License-Identifier: MIT */
/*
 * Compares a pool of workers with a green thread for each task.
 *
 * The claim (of ants, a pool for Go): with a million tasks and more, a bounded pool is faster than
 * a goroutine for each task, and takes a fraction of the memory.
 *
 * N tasks that sleep 10 ms each:
 *   green  a green thread for each task
 *   pool   all tasks on a gmp_pool of CAPACITY
 * The figures are the time, the rate of submissions, the largest number of tasks under way at a
 * time, and the peak memory of the process (VmHWM, with the page tables) minus that at the start.
 */
#include "exp.h"

static const char usage[] = "exp-tasks green|pool N CAPACITY PROCS";

static int64_t n, begun, ran, most;
static int capacity, pooled;
static gmp_wg all;

static void task(void *arg)
{
	int64_t alive = exp_add(&begun, 1) + 1 - exp_load(&ran);

	(void)arg;
	if (alive > exp_load(&most)) /* not exact: another task may store at the same time */
		__atomic_store_n(&most, alive, __ATOMIC_RELAXED);
	gmp_sleep(10000000);
	exp_add(&ran, 1);
	gmp_wg_done(&all);
}

static void app(void *arg)
{
	gmp_pool_opts o = GMP_POOL_OPTS_INIT;
	int64_t before, t0, submitted, t1;

	(void)arg;
	o.idle_ns = INT64_C(10000000000);
	gmp_pool *p = gmp_pool_new(capacity, &o);

	exp_check(p, "gmp_pool_new");
	before = exp_status("VmRSS") + exp_status("VmPTE");
	gmp_wg_add(&all, (int)n);
	t0 = exp_clock();
	for (int64_t i = 0; i < n; i++) {
		int err = pooled ? gmp_pool_submit(p, task, NULL) : gmp_go(task, NULL);

		exp_check(err == 0, "task %lld: %s", (long long)i, strerror(-err));
	}
	submitted = exp_clock();
	gmp_wg_wait(&all);
	t1 = exp_clock();
	exp_check(ran == n, "%lld ran", (long long)ran);
	exp_figure("time", "ms", (double)(t1 - t0) / 1e6);
	exp_figure("submit", "per_second", (double)n * 1e9 / (double)(submitted - t0));
	exp_figure("alive", "tasks", (double)most);
	exp_figure("peak", "MiB",
		   (double)(exp_status("VmHWM") + exp_status("VmPTE") - before) / 1024);
	fflush(stdout);
	gmp_pool_free(p);
}

int main(int argc, char **argv)
{
	n = exp_count(argc, argv, 2, usage);
	capacity = exp_count(argc, argv, 3, usage);
	pooled = !strcmp(argv[1], "pool");
	exp_check(pooled || !strcmp(argv[1], "green"), "usage: %s", usage);
	exp_run(app, exp_count(argc, argv, 4, usage));
	return 0;
}
