/* SPDX-License-Identifier: MIT */
/*
 * Shows which work gains from more green threads, and which only from more processors.
 *
 * The claim: work that computes gains from processors (parallelism), and not from more green
 * threads than processors.  Work that waits gains from green threads (concurrency), also on one
 * processor. Work whose parts must be combined by as much work again gains from neither.
 *
 *   sum     adds N numbers, in as many parts as there are workers
 *   docs    fetches N documents, each with a wait of a millisecond, and searches them
 *   bubble  sorts parts of N numbers by bubble sort, and then the whole by bubble sort
 */
#include "exp.h"

static const char usage[] = "exp-work sum|docs|bubble N WORKERS PROCS";

static void (*part)(int worker);
static void (*prepare)(void), (*finish)(void);
static int count, workers;
static gmp_wg done;

static int first_of(int worker)
{
	return (int)((int64_t)count * worker / workers);
}

/* --- sum --- */

static int *numbers;
static uint64_t total;

static void fill(void)
{
	numbers = malloc(sizeof(*numbers) * (size_t)count);
	exp_check(numbers, "no memory");
	for (int i = 0; i < count; i++)
		numbers[i] = i;
}

static void sum_part(int worker)
{
	uint64_t sum = 0;

	for (int i = first_of(worker), end = first_of(worker + 1); i < end; i++)
		sum += (uint64_t)numbers[i];
	exp_add(&total, sum);
}

static void sum_check(void)
{
	exp_check(total == (uint64_t)count * (uint64_t)(count - 1) / 2, "a wrong sum");
}

/* --- docs --- */

static char document[2048];
static int next_document, found;

static void write_document(void)
{
	memset(document, 'a', sizeof(document) - 1);
	memcpy(document + sizeof(document) / 2, "green", 5);
}

static void docs_part(int worker)
{
	(void)worker;
	while (exp_add(&next_document, 1) < count) {
		gmp_sleep(1000000);
		exp_add(&found, strstr(document, "green") != NULL);
	}
}

static void docs_check(void)
{
	exp_check(found == count, "found in %d of %d", found, count);
}

/* --- bubble --- */

static void shuffle(void)
{
	uint64_t r = 88172645463325252u;

	fill();
	for (int i = count - 1; i > 0; i--) {
		r ^= r << 13, r ^= r >> 7, r ^= r << 17;
		int k = (int)(r % (uint64_t)(i + 1)), t = numbers[i];

		numbers[i] = numbers[k];
		numbers[k] = t;
	}
}

static void bubble(int *v, int n)
{
	for (int last; n > 1; n = last) {
		last = 0;
		for (int i = 1; i < n; i++)
			if (v[i - 1] > v[i]) {
				int t = v[i];

				v[i] = v[i - 1];
				v[i - 1] = t;
				last = i;
			}
	}
}

static void bubble_part(int worker)
{
	bubble(numbers + first_of(worker), first_of(worker + 1) - first_of(worker));
}

static void bubble_whole(void)
{
	bubble(numbers, count);
	for (int i = 0; i < count; i++)
		exp_check(numbers[i] == i, "not sorted");
}

/* --- driver --- */

static void work(void *arg)
{
	part((int)(intptr_t)arg);
	gmp_wg_done(&done);
}

static void app(void *arg)
{
	(void)arg;
	prepare();

	int64_t cpu = exp_cpu(), t0 = exp_clock();

	gmp_wg_add(&done, workers);
	for (int i = 0; i < workers; i++)
		exp_go(work, (void *)(intptr_t)i);
	gmp_wg_wait(&done);
	finish();
	exp_figure("count", "", count);
	exp_figure("time", "ms", (double)(exp_clock() - t0) / 1e6);
	exp_figure("cpu", "ms", (double)(exp_cpu() - cpu) / 1e6);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*prepare)(void), (*part)(int), (*finish)(void);
	} all[] = { { "sum", fill, sum_part, sum_check },
		    { "docs", write_document, docs_part, docs_check },
		    { "bubble", shuffle, bubble_part, bubble_whole } };

	count = exp_count(argc, argv, 2, usage);
	workers = exp_count(argc, argv, 3, usage);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (!strcmp(argv[1], all[i].name)) {
			prepare = all[i].prepare;
			part = all[i].part;
			finish = all[i].finish;
		}
	exp_check(part, "usage: %s", usage);
	exp_run(app, exp_count(argc, argv, 4, usage));
	return 0;
}
