/* SPDX-License-Identifier: MIT */
/*
 * Program for gmp-run: threads that spin and compute without a wait. Prints the real time in ms, or
 * of `sleep` the longest one.
 *
 *   spinning barrier N        N threads spin until all have started
 *   spinning trylock N TIMES  N threads in a circle, each TIMES times: spin on
 *                             pthread_mutex_trylock until it is the thread's place in the circle
 *   spinning sleep N MS       a thread sleeps for 1 ms repeatedly, MS milliseconds long, beside N
 *                             that compute
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 100 };

static int n, times;
static atomic_int arrived, over;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int place; /* under mutex */

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void *spin_until_all_arrived(void *arg)
{
	atomic_fetch_add(&arrived, 1);
	while (atomic_load(&arrived) < n)
		;
	return arg;
}

static void *spin_in_circle(void *arg)
{
	int own = (int)((char *)arg - (char *)NULL);

	for (int i = 0; i < times;) {
		while (pthread_mutex_trylock(&mutex) != 0)
			;
		if (place == own) {
			place = (place + 1) % n;
			i++;
		}
		pthread_mutex_unlock(&mutex);
	}
	return arg;
}

static void *compute(void *arg)
{
	while (!atomic_load(&over))
		;
	return arg;
}

static double longest_sleep(double ms)
{
	struct timespec t = { 0, 1000000 };
	double end = now_ms() + ms, most = 0;

	for (double start; (start = now_ms()) < end;) {
		nanosleep(&t, NULL);
		if (now_ms() - start > most)
			most = now_ms() - start;
	}
	atomic_store(&over, 1);
	return most;
}

int main(int argc, char **argv)
{
	void *(*fn)(void *) = NULL;
	pthread_t t[MOST];
	double start = now_ms(), ms = 0;

	if (argc > 2 && strcmp(argv[1], "barrier") == 0)
		fn = spin_until_all_arrived;
	else if (argc > 3 && strcmp(argv[1], "trylock") == 0)
		fn = spin_in_circle;
	else if (argc > 3 && strcmp(argv[1], "sleep") == 0)
		fn = compute;
	n = argc > 2 ? atoi(argv[2]) : 0;
	times = argc > 3 ? atoi(argv[3]) : 0;
	if (!fn || n < 1 || n > MOST)
		return 2;
	for (long i = 0; i < n; i++)
		if (pthread_create(&t[i], NULL, fn, (char *)NULL + i) != 0)
			return 3;
	if (fn == compute)
		ms = longest_sleep(times);
	for (int i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	printf("%.0f\n", fn == compute ? ms : now_ms() - start);
	return 0;
}
