/* SPDX-License-Identifier: MIT */
/*
 * Local values of many short-lived threads while their keys are deleted and reused.
 *
 * Checks that each destructor gets only values of its own key, and each value once.  A second test
 * ends runs at random moments: a new green thread must not see a value of a killed one.
 */
#include "stress.h"

#include <stdbool.h>

enum { SHARED = 8, WORKERS = 50 };

struct value {
	int of;    /* index of its destructor */
	bool kept; /* is in kept_values, since its owner may be killed at shutdown */
	atomic_int destroyed;
};

static gmp_key shared[SHARED];
static atomic_long made, destroyed;
static atomic_int stop;

static void destroy(void *v, int of)
{
	struct value *value = v;

	CHECK_EQ(value->of, of);
	CHECK_EQ(atomic_fetch_add(&value->destroyed, 1), 0);
	atomic_fetch_add(&destroyed, 1);
	if (!value->kept)
		free(value);
}

static void destroy_0(void *v)
{
	destroy(v, 0);
}

static void destroy_1(void *v)
{
	destroy(v, 1);
}

static struct value *value_new(int of)
{
	struct value *v = calloc(1, sizeof(*v));

	CHECK(v != NULL);
	v->of = of;
	atomic_fetch_add(&made, 1);
	return v;
}

static void live(void *arg)
{
	int seed = (int)(intptr_t)arg;

	for (int i = 0; i < SHARED; i++) {
		int k = (seed + i) % SHARED;

		CHECK(gmp_key_get(shared[k]) == NULL);
		if ((seed >> i) & 1)
			continue;
		struct value *v = value_new(k % 2);

		CHECK_EQ(gmp_key_set(shared[k], v), 0);
		if (seed % 3 == 0)
			gmp_yield();
		CHECK(gmp_key_get(shared[k]) == v);
	}
	if (seed % 5 == 0 && gmp_self() != NULL)
		gmp_exit();
}

static void worker(void *arg)
{
	for (int i = 0; i < check_scaled(200); i++)
		join(spawn(live, (void *)((intptr_t)arg * 7 + i)));
}

static void external_threads(void *arg)
{
	struct ext_thread f;

	for (int i = 0; i < check_scaled(50); i++) {
		ext_thread_start(&f, live, (void *)((intptr_t)arg + i));
		ext_thread_join(&f);
	}
}

static atomic_uint passing;

/* Sets a value of a key that may be deleted at any time: it is destroyed at most once. */
static void set_passing(void *arg)
{
	struct value *v = arg;

	if (gmp_key_set(atomic_load(&passing), v) == 0)
		gmp_yield();
}

static atomic_long passed;

static void pass_0(void *v)
{
	CHECK_EQ(((struct value *)v)->of, 0);
	CHECK_EQ(atomic_fetch_add(&((struct value *)v)->destroyed, 1), 0);
	atomic_fetch_add(&passed, 1);
}

static void change_keys(UNUSED void *arg)
{
	for (unsigned i = 0; !atomic_load(&stop); i++) {
		gmp_key k, next;

		CHECK_EQ(gmp_key_create(&k, pass_0), 0);
		atomic_store(&passing, k);
		for (unsigned n = 0; n < i % 4; n++)
			gmp_yield();
		atomic_store(&passing, 0);
		CHECK_EQ(gmp_key_delete(k), 0);
		/* reuses the slot; no green thread has a value of it */
		CHECK_EQ(gmp_key_create(&next, destroy_1), 0);
		gmp_yield();
		CHECK_EQ(gmp_key_delete(next), 0);
	}
}

static void passers(UNUSED void *arg)
{
	while (!atomic_load(&stop)) {
		struct value v[10] = { 0 };
		gmp_g *g[10];

		for (int i = 0; i < 10; i++)
			g[i] = spawn(set_passing, &v[i]);
		for (int i = 0; i < 10; i++)
			join(g[i]);
	}
}

RT(local_value_with_reused_key_gets_own_destructor_once)
{
	gmp_g *g[WORKERS], *pass[4];
	struct ext_thread f;

	for (int i = 0; i < SHARED; i++)
		CHECK_EQ(gmp_key_create(&shared[i], i % 2 ? destroy_1 : destroy_0), 0);
	pass[0] = spawn(change_keys, NULL);
	for (int i = 1; i < 4; i++)
		pass[i] = spawn(passers, NULL);
	ext_thread_start(&f, external_threads, (void *)1);
	for (intptr_t i = 0; i < WORKERS; i++)
		g[i] = spawn(worker, (void *)i);
	for (int i = 0; i < WORKERS; i++)
		join(g[i]);
	ext_thread_join(&f);
	atomic_store(&stop, 1);
	for (int i = 0; i < 4; i++)
		join(pass[i]);
	CHECK(atomic_load(&made) > 0);
	CHECK_EQ(atomic_load(&made), atomic_load(&destroyed));
}

/* --- runs that end early --- */

enum { SHORT_LIVED = 200 };

static struct value kept_values[SHORT_LIVED * SHARED];

static struct value *value_kept(int of)
{
	long at = atomic_fetch_add(&made, 1);
	struct value *v = &kept_values[at];

	CHECK(at < SHORT_LIVED * SHARED);
	*v = (struct value){ .of = of, .kept = true };
	return v;
}

/* Sets some values and ends, or is killed at shutdown before that. */
static void live_for_a_while(void *arg)
{
	struct rng r = rng_for((uintptr_t)arg);
	int mine = 0;

	for (int k = 0; k < SHARED; k++) {
		CHECK(gmp_key_get(shared[k]) == NULL);
		if (draw(&r, 2))
			continue;
		CHECK_EQ(gmp_key_set(shared[k], value_kept(k % 2)), 0);
		mine++;
		switch (draw(&r, 6)) {
		case 0: gmp_sleep(draw(&r, 200) * US); break;
		case 1: in_blocking_code(draw(&r, 100)); break;
		case 2: gmp_yield(); break;
		default: break;
		}
	}
	if (mine && draw(&r, 3) == 0)
		gmp_exit();
}

static void leave_in_the_middle(void *arg)
{
	uint64_t *stream = arg;
	struct rng r = rng_for(++*stream);

	for (unsigned i = draw(&r, SHORT_LIVED); i > 0; i--)
		CHECK_EQ(gmp_go(live_for_a_while, (void *)(uintptr_t)++ * stream), 0);
	gmp_sleep(draw(&r, 2000) * US);
}

static void leave_none(void *arg)
{
	uint64_t *stream = arg;
	gmp_g *g[WORKERS];

	for (int i = 0; i < WORKERS; i++)
		g[i] = spawn(live_for_a_while, (void *)(uintptr_t)++ * stream);
	for (int i = 0; i < WORKERS; i++)
		join(g[i]);
}

TEST_PROCS(local_values_of_killed_green_threads_are_not_inherited)
{
	uint64_t stream = 0;
	long runs = 0;

	stress_begin();
	for (int i = 0; i < SHARED; i++)
		CHECK_EQ(gmp_key_create(&shared[i], i % 2 ? destroy_1 : destroy_0), 0);
	while (!stress_over()) {
		run_procs(procs, leave_in_the_middle, &stream);
		CHECK(atomic_load(&destroyed) <= atomic_load(&made));
		atomic_store(&made, 0);
		atomic_store(&destroyed, 0);
		run_procs(procs, leave_none, &stream);
		CHECK_EQ(atomic_load(&destroyed), atomic_load(&made));
		atomic_store(&made, 0);
		atomic_store(&destroyed, 0);
		runs += 2;
	}
	fprintf(stderr, "%ld runs\n", runs);
}
