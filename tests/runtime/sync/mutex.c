/* SPDX-License-Identifier: MIT */
/*
 * Tests gmp_mutex: mutual exclusion, the try and until forms, hand-over to starved waiters, and
 * lifetime; between green threads, external threads, and without a runtime.
 */
#include "util.h"

_Static_assert(sizeof(gmp_mutex) <= 8, "a mutex is 8 bytes at most");

static gmp_mutex mu = GMP_MUTEX_INIT;
static long shared_a, shared_b;
static atomic_int count, stop;
static int rounds = 2000;

/* Not atomic: ThreadSanitizer reports a race if the lock does not order the accesses. */
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

RT(mutex_excludes_green_threads)
{
	run_crowd(hammer, 0, 20);
	after_hammer();
}

RT(mutex_excludes_green_and_external_threads)
{
	run_crowd(hammer, 3, 10);
	after_hammer();
}

TEST(mutex_without_runtime_excludes_external_threads)
{
	run_crowd(hammer, 6, 0);
	after_hammer();
}

static void check_try_and_until(UNUSED void *arg)
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
	/* A deadline in the past makes one attempt, which locks a free mutex. */
	CHECK_EQ(gmp_mutex_lock_until(&m, 0), 0);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	CHECK_EQ(gmp_mutex_try_lock(&m), 0);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	CHECK_EQ(gmp_mutex_lock_until(&m, GMP_FOREVER), 0);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
}

RT(mutex_try_and_until_return_eagain_and_etimedout)
{
	struct ext_thread f;

	check_try_and_until(NULL);
	ext_thread_start(&f, check_try_and_until, NULL);
	ext_thread_join(&f);
}

TEST(mutex_try_and_until_without_runtime_work)
{
	check_try_and_until(NULL);
}

static void unlock_mu(UNUSED void *arg)
{
	CHECK_EQ(gmp_mutex_unlock(&mu), 0);
}

RT(mutex_unlock_by_other_thread_works)
{
	struct ext_thread f;

	for (int i = 0; i < 20; i++) {
		CHECK_EQ(gmp_mutex_lock(&mu), 0);
		CHECK_EQ(gmp_go(unlock_mu, NULL), 0);
		CHECK_EQ(gmp_mutex_lock(&mu), 0);
		ext_thread_start(&f, unlock_mu, NULL);
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

RT(mutex_unlock_wakes_all_of_100_waiters_in_turn)
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

/* Returns the waiter, which has waited for over 1 ms. */
static gmp_g *unlock_after_long_wait(void)
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

RT(mutex_unlock_hands_over_to_waiter_of_over_1_ms)
{
	for (int round = 0; round < 20; round++) {
		gmp_g *g = unlock_after_long_wait();

		/* The waiter owns the lock already: this call waits for it. */
		CHECK_EQ(gmp_mutex_lock(&mu), 0);
		CHECK_EQ(atomic_load(&count), 1);
		CHECK_EQ(gmp_mutex_unlock(&mu), 0);
		join(g);
	}
}

RT(mutex_try_lock_does_not_pass_waiter_of_over_1_ms)
{
	for (int round = 0; round < 20; round++) {
		gmp_g *g = unlock_after_long_wait();

		if (gmp_mutex_try_lock(&mu) == 0) {
			CHECK_EQ(atomic_load(&count), 1);
			CHECK_EQ(gmp_mutex_unlock(&mu), 0);
		}
		join(g);
	}
}

enum { PARKED = 2 }; /* bit of mu.state: a waiter is parked */

RT(mutex_unlock_hands_over_to_external_waiter)
{
	struct ext_thread f;
	int taken = 0;

	CHECK_EQ(gmp_mutex_lock(&mu), 0);
	ext_thread_start(&f, lock_and_count, NULL);
	WAIT_FOR(__atomic_load_n(&mu.state, __ATOMIC_RELAXED) & PARKED);
	/* An owner that holds the lock nearly always cannot starve the waiter. */
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

RT(mutex_busy_owners_do_not_starve_waiter)
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

RT(mutex_timeout_keeps_other_waiters_queued)
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

/* A reference count: the last user frees the object with its mutex. */
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

RT(mutex_freed_after_last_unlock_is_not_used_again)
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

static struct object *slot;
static gmp_sem filled, emptied;

static void drop_slots(UNUSED void *arg)
{
	for (;;) {
		poll_and_acquire(&filled);
		struct object *o = slot;

		CHECK_EQ(gmp_sem_release(&emptied, 1), 0);
		if (o == NULL)
			return;
		drop(o);
	}
}

static void fill_slot(struct object *o)
{
	slot = o;
	CHECK_EQ(gmp_sem_release(&filled, 1), 0);
}

RT(mutex_freed_after_external_unlock_is_not_used_again)
{
	int n = SLOW ? 500 : 5000;
	struct ext_thread f;

	ext_thread_start(&f, drop_slots, NULL);
	for (int i = 0; i < n; i++) {
		struct object *o = calloc(1, sizeof(*o));

		CHECK(o != NULL);
		o->refs = 2;
		fill_slot(o);
		if (i % 2)
			poll_and_acquire(&emptied);
		drop(o);
		if (i % 2 == 0)
			poll_and_acquire(&emptied);
	}
	fill_slot(NULL);
	ext_thread_join(&f);
	CHECK_EQ(atomic_load(&count), n);
}

static void lock_and_unlock(void *m)
{
	CHECK_EQ(gmp_mutex_lock(m), 0);
	CHECK_EQ(gmp_mutex_unlock(m), 0);
}

/* About eight addresses per bucket of the table, so that its trees branch on both sides. */
RT(mutex_waiters_of_4096_mutexes_are_all_woken)
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

RT(mutex_states_of_10000_mutexes_are_independent)
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
