/* SPDX-License-Identifier: MIT */
/*
 * Measures a spin barrier of pthreads: the time until all threads have arrived, which spin until
 * then.
 *
 *   exp-spin N
 *           The figure is the real time from before the first pthread_create to after the last
 *           pthread_join.
 *
 * The program does not know gmp: bench/experiments/run starts it natively and under gmp-run.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int n;
static atomic_int arrived;

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void *spin_until_all_arrived(void *arg)
{
	atomic_fetch_add(&arrived, 1);
	while (atomic_load_explicit(&arrived, memory_order_relaxed) < n)
		;
	return arg;
}

int main(int argc, char **argv)
{
	double start = now_ms();
	pthread_t *t;

	n = argc > 1 ? atoi(argv[1]) : 0;
	t = n > 0 ? calloc((size_t)n, sizeof(*t)) : NULL;
	if (!t) {
		fprintf(stderr, "usage: exp-spin N\n");
		return 1;
	}
	for (int i = 0; i < n; i++)
		if (pthread_create(&t[i], NULL, spin_until_all_arrived, NULL)) {
			fprintf(stderr, "pthread_create failed\n");
			exit(1);
		}
	for (int i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	printf("total\tms\t%.4f\n", now_ms() - start);
	free(t);
	return 0;
}
