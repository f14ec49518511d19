/* SPDX-License-Identifier: MIT */
/*
 * Measures the cost of a yield by the number of green threads per P.
 *
 * The claim: from about 2.5 goroutines per processor on, the cost of switching grows exponentially,
 * so a program should not have more.
 *
 * N green threads yield 100 times each, in repeated batches, so that every N is measured over about
 * the same number of yields.  The figures are the time of a yield, page faults, and the time from a
 * yield until the green thread runs again; also cache misses, if the machine can count them.
 * Otherwise `run` simulates them with cachegrind and another number of YIELDS.  All yields are
 * counted.
 */
#include "exp.h"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char usage[] = "exp-yields N PROCS LEAST_YIELDS [YIELDS]";

static int n, least, yields = 100;
static gmp_wg done;
static int64_t yielded;
static int64_t *away; /* for each green thread, the ns of one of its yields */

static void yield_all(void *arg)
{
	(void)arg;
	for (int i = 0; i < yields; i++)
		gmp_yield();
	exp_add(&yielded, yields);
	gmp_wg_done(&done);
}

/* Like yield_all, but measures the time of one yield. */
static void yield_timed(void *arg)
{
	for (int i = 0; i < yields / 2; i++)
		gmp_yield();
	int64_t t0 = exp_clock();

	gmp_yield();
	*(int64_t *)arg = exp_clock() - t0;
	for (int i = yields / 2 + 1; i < yields; i++)
		gmp_yield();
	exp_add(&yielded, yields);
	gmp_wg_done(&done);
}

static void batch(gmp_fn fn)
{
	yielded = 0;
	gmp_wg_add(&done, n);
	for (int i = 0; i < n; i++)
		exp_go(fn, &away[i]);
	gmp_wg_wait(&done);
	exp_check(yielded == (int64_t)n * yields, "%lld yields", (long long)yielded);
}

/* Count the cache misses of all threads that are started afterwards. Returns the fd of the counter,
 * or -1 if the machine has none. */
static int count_misses(void)
{
	struct perf_event_attr a = { .type = PERF_TYPE_HARDWARE,
				     .size = sizeof(a),
				     .config = PERF_COUNT_HW_CACHE_MISSES,
				     .inherit = 1,
				     .exclude_kernel = 1,
				     .exclude_hv = 1 };

	return (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, 0);
}

static double misses(int fd)
{
	uint64_t sum = 0;

	return fd >= 0 && read(fd, &sum, sizeof(sum)) == sizeof(sum) ? (double)sum : -1;
}

static int ascending(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int counter;

static void app(void *arg)
{
	int64_t batches = ((int64_t)least + (int64_t)n * yields - 1) / ((int64_t)n * yields);
	double all = (double)batches * n * yields;
	int64_t t0 = exp_clock();
	long faults = exp_usage().ru_minflt;

	(void)arg;
	batch(yield_all); /* first batch: touches memory, starts OS threads */
	exp_figure("first", "ns", (double)(exp_clock() - t0) / ((double)n * yields));
	exp_figure("faults", "per_thread", (double)(exp_usage().ru_minflt - faults) / n);

	double before = misses(counter);
	int64_t cpu = exp_cpu();

	faults = exp_usage().ru_minflt;
	t0 = exp_clock();
	for (int64_t i = 0; i < batches; i++)
		batch(yield_all);
	exp_figure("yield", "ns", (double)(exp_clock() - t0) / all);
	exp_figure("cpu", "ns", (double)(exp_cpu() - cpu) / all);
	exp_figure("later faults", "per_thread",
		   (double)(exp_usage().ru_minflt - faults) / ((double)batches * n));
	if (before >= 0)
		exp_figure("misses", "per_yield", (misses(counter) - before) / all);

	batch(yield_timed);
	qsort(away, (size_t)n, sizeof(*away), ascending);
	exp_figure("away p50", "ns", (double)away[n / 2]);
	exp_figure("away p99", "ns", (double)away[(int64_t)n * 99 / 100]);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	n = exp_count(argc, argv, 1, usage);
	least = exp_count(argc, argv, 3, usage);
	if (argc > 4)
		yields = exp_count(argc, argv, 4, usage);
	away = calloc((size_t)n, sizeof(*away));
	exp_check(away, "no memory");
	counter = count_misses();
	exp_run(app, exp_count(argc, argv, 2, usage));
	return 0;
}
