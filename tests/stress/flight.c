/* SPDX-License-Identifier: MIT */
/*
 * Singleflight under load: many callers share the values of a few keys.
 *
 * The callers are green threads and external threads, some with a deadline; some are cancelled.  A
 * computation sleeps, fails, exits, calls for other keys, or is forgotten.  Checks that a caller
 * gets a value of its key which was not complete before its call, and that the number of sharers is
 * exact: the last sharer frees the value, so that none is freed twice or leaked.  Some runs end
 * early; then the keys of killed computations are forgotten.
 */
#include "stress.h"

#include <stdbool.h>

enum { KEYS = 6, ASKERS = 30, EXTERNAL = 3, ASKS = 20 };

struct value {
	int key, result;
	atomic_int had;              /* number of callers that have it */
	atomic_long landed;          /* the moment when the first caller had it */
	struct value *next, **place; /* list of all values */
};

static gmp_singleflight *table;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards the list of values */
static struct value *values;

static atomic_long moment;
static atomic_bool cut; /* the run will end early */
static atomic_llong asked, computed, gave_up, crashed, cuts;

static struct value *value_new(int key, int result)
{
	struct value *v = calloc(1, sizeof(*v));

	CHECK(v != NULL);
	v->key = key;
	v->result = result;
	pthread_mutex_lock(&mutex);
	v->next = values;
	v->place = &values;
	if (values)
		values->place = &v->next;
	values = v;
	pthread_mutex_unlock(&mutex);
	return v;
}

static void value_free(struct value *v)
{
	pthread_mutex_lock(&mutex);
	*v->place = v->next;
	if (v->next)
		v->next->place = v->place;
	pthread_mutex_unlock(&mutex);
	free(v);
}

struct ask {
	int key;
	struct rng *r;
};

static void ask_for(int key, struct rng *r);

static int compute(void *arg, void *value)
{
	struct ask *a = arg;
	struct rng *r = a->r;
	int result = draw(r, 4) ? 0 : -(int)draw(r, 30) - 1000;

	CHECK(*(struct value **)value == NULL);
	switch (draw(r, 16)) {
	case 0:
		if (gmp_self() != NULL)
			gmp_exit();
		break;
	case 1:
	case 2:
	case 3: gmp_sleep(draw(r, 200) * US); break;
	case 4:
	case 5: gmp_yield(); break;
	case 6: in_blocking_code(draw(r, 50)); break;
	case 7:
	case 8: /* only larger keys: a cycle of computations would deadlock */
		for (int key = a->key + 1; key < KEYS; key++)
			if (draw(r, 2))
				ask_for(key, r);
		break;
	default: break;
	}
	atomic_fetch_add(&computed, 1);
	*(struct value **)value = value_new(a->key, result);
	return result;
}

/* The caller is one of `sharers` that got v. */
static void have(struct value *v, long start, int sharers)
{
	long none = 0;

	CHECK(v != NULL);
	atomic_compare_exchange_strong(&v->landed, &none, atomic_fetch_add(&moment, 1) + 1);
	CHECK(atomic_load(&v->landed) > start);
	int n = atomic_fetch_add(&v->had, 1) + 1;

	CHECK(n <= sharers);
	if (n == sharers)
		value_free(v);
}

static void ask_for(int key, struct rng *r)
{
	struct ask a = { key, r };
	struct value *v = NULL;
	int sharers = -1, result;
	long start = atomic_fetch_add(&moment, 1) + 1;
	/* an external thread must not wait indefinitely for a computation killed at shutdown */
	bool patient = draw(r, 2) && (gmp_self() != NULL || !atomic_load(&cut));
	int64_t deadline = patient ? GMP_FOREVER : gmp_deadline(draw(r, 300) * US);

	result = gmp_singleflight_do_until(table, key ? &key : NULL, key ? sizeof(key) : 0, compute,
					   &a, &v, &sharers, deadline);
	atomic_fetch_add(&asked, 1);
	if (result == -ECANCELED || result == -ETIMEDOUT) {
		CHECK(result == -ETIMEDOUT ? !patient : gmp_cancelled());
		CHECK(v == NULL);
		atomic_fetch_add(&gave_up, 1);
	} else if (result == -EOWNERDEAD) {
		CHECK(v == NULL);
		CHECK(sharers > 0);
		atomic_fetch_add(&crashed, 1);
	} else if (result == -ESRCH) {
		CHECK(atomic_load(&cut));
	} else {
		CHECK(v != NULL);
		CHECK_EQ(v->key, key);
		CHECK_EQ(v->result, result);
		have(v, start, sharers);
	}
}

static void asker(void *arg)
{
	struct rng r = rng_for((uintptr_t)arg);

	for (int i = 0; i < ASKS; i++) {
		ask_for((int)draw(&r, KEYS), &r);
		if (draw(&r, 4) == 0)
			gmp_yield();
	}
}

static int forget(int key)
{
	int err = gmp_singleflight_forget(table, key ? &key : NULL, key ? sizeof(key) : 0);

	CHECK(err == 0 || err == -ENOENT);
	return err;
}

static struct ext_thread external[EXTERNAL];

static void one_crowd(struct rng *r)
{
	gmp_g *g[ASKERS];

	for (int i = 0; i < ASKERS; i++)
		g[i] = spawn(asker, (void *)(uintptr_t)draw(r, 1 << 30));
	for (int i = 0; i < EXTERNAL; i++)
		ext_thread_start(&external[i], asker, (void *)(uintptr_t)draw(r, 1 << 30));
	for (int i = (int)draw(r, 20); i > 0; i--) {
		forget((int)draw(r, KEYS));
		gmp_sleep(draw(r, 100) * US);
		if (draw(r, 4) == 0)
			gmp_cancel(g[draw(r, ASKERS)]);
	}
	if (atomic_load(&cut))
		return;
	if (draw(r, 8) == 0)
		gmp_set_procs(1 + (int)draw(r, 4));
	for (int i = 0; i < ASKERS; i++)
		join(g[i]);
	for (int i = 0; i < EXTERNAL; i++)
		ext_thread_join(&external[i]);
	CHECK(values == NULL);
	for (int key = 0; key < KEYS; key++)
		CHECK_EQ(forget(key), -ENOENT);
	WAIT_FOR(stats().greens == 1);
	WAIT_FOR(stats().timers == 0);
	WAIT_FOR(stats().stacks_used == 1);
}

static void crowds(void *arg)
{
	do {
		atomic_store(&cut, draw(arg, 16) == 0);
		one_crowd(arg);
	} while (!atomic_load(&cut) && !stress_over());
}

static void clear_up(void)
{
	for (int i = 0; i < EXTERNAL; i++)
		CHECK_EQ(pthread_join(external[i].thread, NULL), 0);
	for (int key = 0; key < KEYS; key++)
		forget(key);
	while (values)
		value_free(values);
	atomic_fetch_add(&cuts, 1);
}

TEST_PROCS(singleflight_value_reaches_all_sharers_and_is_freed_once)
{
	stress_begin();
	struct rng r = rng_for((uint64_t)procs);

	table = gmp_singleflight_new(sizeof(struct value *));
	CHECK(table != NULL);
	while (!stress_over()) {
		run_procs(procs, crowds, &r);
		if (atomic_load(&cut))
			clear_up();
	}
	gmp_singleflight_free(table);
	fprintf(stderr, "asked %lld computed %lld gave up %lld owner dead %lld cut %lld\n",
		atomic_load(&asked), atomic_load(&computed), atomic_load(&gave_up),
		atomic_load(&crashed), atomic_load(&cuts));
}
