/* SPDX-License-Identifier: MIT */
/*
 * Tests gmp_mutex: exclusion, its until and try forms, hand-over to those who have waited long, and
 * that it may be freed at once; between green threads, foreign threads, and without a runtime.
 */
#include "util.h"

_Static_assert(sizeof(gmp_mutex) <= 8, "a mutex is 8 bytes at most");

static gmp_mutex mu = GMP_MUTEX_INIT;
static long shared_a, shared_b;
static atomic_int count, stop;
static int rounds = 2000;

/* Both numbers are plain: ThreadSanitizer sees a lock that does not order. */
static void hammer(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg * 2654435761u + 1;

	for (int i = 0; i < rounds; i++) {
		int err;

		seed = seed * 1103515245 + 12345;
		switch (seed >> 16 & 7) {
		case 0:
			err = gmp_mutex_try_lock(&mu);
			CHECK(err == 0 || err == -EAGAIN);
			break;
		case 1:
			err = gmp_mutex_lock_until(&mu, gmp_deadline((seed >> 20 & 63) * US));
			CHECK(err == 0 || err == -ETIMEDOUT);
			break;
		case 2:
			err = gmp_mutex_lock_until(&mu, GMP_FOREVER);
			CHECK_EQ(err, 0);
			break;
		default: err = gmp_mutex_lock(&mu); CHECK_EQ(err, 0);
		}
		if (err != 0)
			continue;
		CHECK_EQ(shared_a, shared_b);
		shared_a++;
		if ((seed >> 24 & 15) == 0)
			gmp_yield();
		shared_b++;
		CHECK_EQ(gmp_mutex_unlock(&mu), 0);
	}
	atomic_fetch_add(&count, 1);
}

static void after_hammer(void)
{
	CHECK_EQ(shared_a, shared_b);
	CHECK(shared_a > 0);
	CHECK_EQ(gmp_mutex_try_lock(&mu), 0);
	CHECK_EQ(gmp_mutex_unlock(&mu), 0);
}

RT(only_one_green_thread_holds_it)
{
	run_crowd(hammer, 0, 20);
	after_hammer();
}

RT(only_one_green_or_foreign_thread_holds_it)
{
	run_crowd(hammer, 3, 10);
	after_hammer();
}

TEST(only_one_thread_holds_it_without_a_runtime)
{
	run_crowd(hammer, 6, 0);
	after_hammer();
}

static void basics(UNUSED void *arg)
{
	gmp_mutex m;
	int64_t t;

	memset(&m, 0, sizeof(m));
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	CHECK_EQ(gmp_mutex_try_lock(&m), -EAGAIN);
	CHECK_EQ(gmp_mutex_lock_until(&m, 0), -ETIMEDOUT);
	CHECK_EQ(gmp_mutex_lock_until(&m, INT64_MIN), -ETIMEDOUT);
	CHECK_EQ(gmp_mutex_lock_until(&m, gmp_now() - 1), -ETIMEDOUT);
	t = gmp_now();
	CHECK_EQ(gmp_mutex_lock_until(&m, t + 5 * MS), -ETIMEDOUT);
	CHECK(gmp_now() >= t + 5 * MS);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	/* A deadline in the past makes it a try, and a try of a free one works. */
	CHECK_EQ(gmp_mutex_lock_until(&m, 0), 0);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	CHECK_EQ(gmp_mutex_try_lock(&m), 0);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	CHECK_EQ(gmp_mutex_lock_until(&m, GMP_FOREVER), 0);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
}

RT(try_and_until_forms_keep_their_word)
{
	struct ext_thread f;

	basics(NULL);
	ext_thread_start(&f, basics, NULL);
	ext_thread_join(&f);
}

TEST(try_and_until_forms_keep_their_word_without_a_runtime)
{
	basics(NULL);
}

static void unlock_it(UNUSED void *arg)
{
	CHECK_EQ(gmp_mutex_unlock(&mu), 0);
}

RT(another_thread_may_unlock)
{
	struct ext_thread f;

	for (int i = 0; i < 20; i++) {
		CHECK_EQ(gmp_mutex_lock(&mu), 0);
		CHECK_EQ(gmp_go(unlock_it, NULL), 0);
		CHECK_EQ(gmp_mutex_lock(&mu), 0);
		ext_thread_start(&f, unlock_it, NULL);
		CHECK_EQ(gmp_mutex_lock(&mu), 0);
		ext_thread_join(&f);
		CHECK_EQ(gmp_mutex_unlock(&mu), 0);
	}
}

static void lock_and_count(UNUSED void *arg)
{
	CHECK_EQ(gmp_mutex_lock(&mu), 0);
	atomic_fetch_add(&count, 1);
	CHECK_EQ(gmp_mutex_unlock(&mu), 0);
}

RT(unlock_wakes_the_waiters_one_after_the_other)
{
	gmp_g *g[100];

	for (int round = 0; round < 10; round++) {
		CHECK_EQ(gmp_mutex_lock(&mu), 0);
		atomic_store(&count, 0);
		for (int i = 0; i < 100; i++)
			g[i] = spawn(lock_and_count, NULL);
		wait_parked(100);
		CHECK_EQ(atomic_load(&count), 0);
		CHECK_EQ(gmp_mutex_unlock(&mu), 0);
		for (int i = 0; i < 100; i++)
			join(g[i]);
		CHECK_EQ(atomic_load(&count), 100);
	}
}

static void burn(int64_t ns)
{
	int64_t until = gmp_now() + ns;

	while (gmp_now() < until)
		;
}

/* Returns the one who has waited. */
static gmp_g *unlock_after_a_long_wait(void)
{
	gmp_g *g;

	atomic_store(&count, 0);
	CHECK_EQ(gmp_mutex_lock(&mu), 0);
	g = spawn(lock_and_count, NULL);
	wait_parked(1);
	burn(3 * MS);
	CHECK_EQ(gmp_mutex_unlock(&mu), 0);
	return g;
}

RT(unlock_hands_over_to_a_waiter_of_more_than_a_millisecond)
{
	for (int round = 0; round < 20; round++) {
		gmp_g *g = unlock_after_a_long_wait();

		/* The lock is the waiter's already: we come after it. */
		CHECK_EQ(gmp_mutex_lock(&mu), 0);
		CHECK_EQ(atomic_load(&count), 1);
		CHECK_EQ(gmp_mutex_unlock(&mu), 0);
		join(g);
	}
}

RT(a_try_does_not_overtake_a_waiter_of_more_than_a_millisecond)
{
	for (int round = 0; round < 20; round++) {
		gmp_g *g = unlock_after_a_long_wait();

		if (gmp_mutex_try_lock(&mu) == 0) {
			CHECK_EQ(atomic_load(&count), 1);
			CHECK_EQ(gmp_mutex_unlock(&mu), 0);
		}
		join(g);
	}
}

enum { PARKED = 2 }; /* of its word: somebody waits */

RT(unlock_hands_over_to_a_foreign_waiter_too)
{
	struct ext_thread f;
	int taken = 0;

	CHECK_EQ(gmp_mutex_lock(&mu), 0);
	ext_thread_start(&f, lock_and_count, NULL);
	WAIT_FOR(__atomic_load_n(&mu.state, __ATOMIC_RELAXED) & PARKED);
	/* Whoever holds it nearly all the time cannot keep the other out. */
	for (int i = 0; i < 1000 && !atomic_load(&count); i++) {
		burn(2 * MS);
		CHECK_EQ(gmp_mutex_unlock(&mu), 0);
		CHECK_EQ(gmp_mutex_lock(&mu), 0);
		taken++;
	}
	CHECK_EQ(atomic_load(&count), 1);
	CHECK(taken <= 100);
	CHECK_EQ(gmp_mutex_unlock(&mu), 0);
	ext_thread_join(&f);
}

static void hold_nearly_always(UNUSED void *arg)
{
	while (!atomic_load(&stop)) {
		CHECK_EQ(gmp_mutex_lock(&mu), 0);
		burn(200 * US);
		CHECK_EQ(gmp_mutex_unlock(&mu), 0);
	}
}

RT(nobody_is_kept_out_by_those_who_hold_it_nearly_always)
{
	gmp_g *g[3];

	for (int i = 0; i < 3; i++)
		g[i] = spawn(hold_nearly_always, NULL);
	for (int i = 0; i < 20; i++)
		lock_and_count(NULL);
	atomic_store(&stop, 1);
	for (int i = 0; i < 3; i++)
		join(g[i]);
}

static void time_out(void *arg)
{
	atomic_fetch_add(&count, 1);
	CHECK_EQ(gmp_mutex_lock_until(&mu, gmp_deadline((intptr_t)arg)), -ETIMEDOUT);
}

RT(waiters_that_timed_out_leave_the_others_in_place)
{
	gmp_g *out[50], *in[50];

	CHECK_EQ(gmp_mutex_lock(&mu), 0);
	for (int i = 0; i < 50; i++) {
		out[i] = spawn(time_out, (void *)(intptr_t)(i * 200 * US));
		in[i] = spawn(lock_and_count, NULL);
	}
	for (int i = 0; i < 50; i++)
		join(out[i]);
	wait_parked(50);
	CHECK_EQ(gmp_mutex_unlock(&mu), 0);
	for (int i = 0; i < 50; i++)
		join(in[i]);
	CHECK_EQ(atomic_load(&count), 100);
	CHECK_EQ(gmp_mutex_try_lock(&mu), 0);
	CHECK_EQ(gmp_mutex_unlock(&mu), 0);
}

struct object {
	gmp_mutex mu;
	int refs;
	char pad[48];
};

/* The textbook's reference count: the last one out frees the object, mutex and all. */
static void drop(void *arg)
{
	struct object *o = arg;
	int left;

	CHECK_EQ(gmp_mutex_lock(&o->mu), 0);
	left = --o->refs;
	CHECK_EQ(gmp_mutex_unlock(&o->mu), 0);
	if (left == 0) {
		memset(o, 0xff, sizeof(*o));
		free(o);
		atomic_fetch_add(&count, 1);
	}
}

RT(it_may_be_freed_after_the_last_unlock)
{
	int n = SLOW ? 500 : 5000;

	for (int i = 0; i < n; i++) {
		struct object *o = calloc(1, sizeof(*o));
		gmp_g *g[3];

		CHECK(o != NULL);
		o->refs = 4;
		for (int k = 0; k < 3; k++)
			g[k] = spawn(drop, o);
		drop(o);
		for (int k = 0; k < 3; k++)
			join(g[k]);
	}
	CHECK_EQ(atomic_load(&count), n);
}

static struct object *_Atomic slot;

static void drop_slots(UNUSED void *arg)
{
	for (;;) {
		struct object *o = atomic_exchange(&slot, NULL);

		if (o != NULL)
			drop(o);
		else if (atomic_load(&stop))
			return;
		else
			gmp_yield();
	}
}

RT(it_may_be_freed_after_a_foreign_threads_last_unlock)
{
	int n = SLOW ? 500 : 5000;
	struct ext_thread f;

	ext_thread_start(&f, drop_slots, NULL);
	for (int i = 0; i < n; i++) {
		struct object *o = calloc(1, sizeof(*o));

		CHECK(o != NULL);
		o->refs = 2;
		atomic_store(&slot, o);
		if (i % 2)
			WAIT_FOR(atomic_load(&slot) == NULL);
		drop(o);
		WAIT_FOR(atomic_load(&slot) == NULL);
	}
	atomic_store(&stop, 1);
	ext_thread_join(&f);
	CHECK_EQ(atomic_load(&count), n);
}

static void lock_and_unlock(void *m)
{
	CHECK_EQ(gmp_mutex_lock(m), 0);
	CHECK_EQ(gmp_mutex_unlock(m), 0);
}

/* Some eight addresses in each bucket of the table, so that its trees have branches on both sides. */
RT(each_of_thousands_who_wait_for_a_mutex_of_their_own_is_woken)
{
	enum { N = 4096 };
	static gmp_mutex m[N];
	static gmp_g *g[N];

	for (int i = 0; i < N; i++) {
		CHECK_EQ(gmp_mutex_lock(&m[i]), 0);
		g[i] = spawn(lock_and_unlock, &m[i]);
	}
	wait_parked(N);
	for (int i = 0; i < N; i++)
		CHECK_EQ(gmp_mutex_unlock(&m[i]), 0);
	for (int i = 0; i < N; i++)
		join(g[i]);
}

RT(thousands_of_mutexes_do_not_disturb_each_other)
{
	enum { N = 10000 };
	static gmp_mutex m[N];

	for (int i = 0; i < N; i++)
		CHECK_EQ(gmp_mutex_lock(&m[i]), 0);
	for (int i = 0; i < N; i += 2)
		CHECK_EQ(gmp_mutex_unlock(&m[i]), 0);
	for (int i = 0; i < N; i++)
		CHECK_EQ(gmp_mutex_try_lock(&m[i]), i % 2 ? -EAGAIN : 0);
}
