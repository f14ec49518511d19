/* SPDX-License-Identifier: MIT */
/*
 * A program outside the project in which two Gs change a variable, under a mutex unless RACE is 1.
 */
#include <gmp.h>

static gmp_mutex mutex;
static int counter, begun;

/*
 * Each G runs on its own P: neither continues before both have begun. Relaxed atomics, so that they
 * order nothing.
 */
static void increment(void *arg)
{
	(void)arg;
	__atomic_add_fetch(&begun, 1, __ATOMIC_RELAXED);
	while (__atomic_load_n(&begun, __ATOMIC_RELAXED) < 2)
		;
	for (int i = 0; i < 1000; i++) {
		if (!RACE)
			gmp_mutex_lock(&mutex);
		counter++;
		if (!RACE)
			gmp_mutex_unlock(&mutex);
	}
}

static void app(void *arg)
{
	gmp_attr attr = GMP_ATTR_INIT;
	gmp_g *g[2];

	attr.name = "counter";
	for (int i = 0; i < 2; i++)
		*(int *)arg |= gmp_spawn(&g[i], increment, NULL, i == 0 ? &attr : NULL);
	for (int i = 0; i < 2; i++)
		*(int *)arg |= gmp_join(g[i]);
}

int main(void)
{
	gmp_config config = GMP_CONFIG_INIT;
	int failed = 0;

	config.procs = 2;
	return gmp_run(app, &failed, &config) || failed;
}
