/* SPDX-License-Identifier: MIT */
/*
 * Measures the cost of thread-local values.
 *
 * "local/get": gmp_key_get of four keys that are set, one after the other.  "local/set":
 * gmp_key_set of the same.  "pthread": pthread_getspecific and pthread_setspecific, without a
 * runtime.
 */
#include "shim.h"

#include <gmp.h>
#include <pthread.h>

enum { KEYS = 4 };

static gmp_key keys[KEYS];
static pthread_key_t pkeys[KEYS];
static int values[KEYS];

static void make(void)
{
	static int made;

	for (int i = 0; i < KEYS; i++) {
		if (!made)
			bench_check(gmp_key_create(&keys[i], NULL) == 0 &&
					    pthread_key_create(&pkeys[i], NULL) == 0,
				    "no key");
		bench_check(gmp_key_set(keys[i], &values[i]) == 0, "gmp_key_set");
		pthread_setspecific(pkeys[i], &values[i]);
	}
	made = 1;
}

static void get(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t t0, t1, wrong = 0;

	make();
	t0 = bench_clock();
	for (int64_t i = 0; i < c->count; i++)
		wrong += (c->procs ? gmp_key_get(keys[i % KEYS])
				   : pthread_getspecific(pkeys[i % KEYS])) != &values[i % KEYS];
	t1 = bench_clock();
	bench_check(wrong == 0, "%lld were wrong", (long long)wrong);
	bench_time(st, t1 - t0, c->count);
}

static void set(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t t0, t1;

	make();
	t0 = bench_clock();
	for (int64_t i = 0; i < c->count; i++) {
		if (c->procs)
			gmp_key_set(keys[i % KEYS], &values[i % 3]);
		else
			pthread_setspecific(pkeys[i % KEYS], &values[i % 3]);
	}
	t1 = bench_clock();
	if (c->procs)
		bench_check(gmp_key_get(keys[(c->count - 1) % KEYS]) == &values[(c->count - 1) % 3],
			    "not set");
	bench_time(st, t1 - t0, c->count);
}

BENCH(get, "local/get", .procs = 1, .count = 20000000);
BENCH(get, "local/get pthread", .procs = 0, .count = 20000000);
BENCH(set, "local/set", .procs = 1, .count = 20000000);
BENCH(set, "local/set pthread", .procs = 0, .count = 20000000);
