/* SPDX-License-Identifier: MIT */
/*
 * A program with 50 pthreads that sleep at the same time.  With WITH_GMP main runs in a green
 * thread, and so do they: at most 20 OS threads then exist.
 */
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#ifdef WITH_GMP
#include <gmp.h>
#endif

enum { THREADS = 50, OS_THREADS_MOST = 20 };

static pthread_barrier_t all;

static void *sleeper(void *arg)
{
	struct timespec t = { 0, 20000000 };

	pthread_barrier_wait(&all);
	nanosleep(&t, NULL);
	return arg;
}

static int os_threads(void)
{
	char line[128];
	int n = 0;
	FILE *f = fopen("/proc/self/status", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Threads: %d", &n) == 1)
			break;
	if (f)
		fclose(f);
	return n;
}

static int run_threads(void)
{
	pthread_t t[THREADS];
	int seen, wrong = 0, value;

	pthread_barrier_init(&all, NULL, THREADS + 1);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&t[i], NULL, sleeper, &value) != 0)
			return 1;
	pthread_barrier_wait(&all);
	seen = os_threads();
	for (int i = 0; i < THREADS; i++) {
		void *result = NULL;

		wrong |= pthread_join(t[i], &result) != 0 || result != &value;
	}
	printf("%d OS threads\n", seen);
	return wrong ? -1 : seen;
}

#ifdef WITH_GMP
static void app(void *seen)
{
	*(int *)seen = run_threads();
}

int main(void)
{
	gmp_config cfg = GMP_CONFIG_INIT;
	int seen = -1;

	cfg.flags = GMP_OWN_TLS;
	return gmp_run(app, &seen, &cfg) != 0 || seen < 1 || seen > OS_THREADS_MOST;
}
#else
int main(void)
{
	return run_threads() < 1;
}
#endif
