/* SPDX-License-Identifier: MIT */
/*
 * Tests gmp_wg: all waiters are woken when the counter reaches 0, reuse, and lifetime; between
 * green threads, external threads, and without a runtime.
 */
#include "util.h"

static gmp_wg wg = GMP_WG_INIT;
static atomic_int count, stop;

static void check_wait(UNUSED void *arg)
{
	gmp_wg w;
	int64_t t;

	memset(&w, 0, sizeof(w));
	CHECK_EQ(gmp_wg_wait(&w), 0);
	CHECK_EQ(gmp_wg_wait_until(&w, 0), 0);
	CHECK_EQ(gmp_wg_add(&w, 0), 0);
	CHECK_EQ(gmp_wg_wait(&w), 0);
	CHECK_EQ(gmp_wg_add(&w, 2), 0);
	CHECK_EQ(gmp_wg_wait_until(&w, 0), -ETIMEDOUT);
	CHECK_EQ(gmp_wg_wait_until(&w, INT64_MIN), -ETIMEDOUT);
	CHECK_EQ(gmp_wg_wait_until(&w, gmp_now() - 1), -ETIMEDOUT);
	t = gmp_now();
	CHECK_EQ(gmp_wg_wait_until(&w, t + 5 * MS), -ETIMEDOUT);
	CHECK(gmp_now() >= t + 5 * MS);
	CHECK_EQ(gmp_wg_done(&w), 0);
	CHECK_EQ(gmp_wg_wait_until(&w, 0), -ETIMEDOUT);
	CHECK_EQ(gmp_wg_add(&w, 5), 0);
	CHECK_EQ(gmp_wg_add(&w, -5), 0);
	CHECK_EQ(gmp_wg_done(&w), 0);
	CHECK_EQ(gmp_wg_wait(&w), 0);
	CHECK_EQ(gmp_wg_wait_until(&w, GMP_FOREVER), 0);
	CHECK_EQ(gmp_wg_add(&w, INT32_MAX), 0);
	CHECK_EQ(gmp_wg_wait_until(&w, 0), -ETIMEDOUT);
	CHECK_EQ(gmp_wg_add(&w, -INT32_MAX), 0);
	CHECK_EQ(gmp_wg_wait(&w), 0);
}

RT(wg_wait_returns_at_counter_0_or_deadline)
{
	struct ext_thread f;

	check_wait(NULL);
	ext_thread_start(&f, check_wait, NULL);
	ext_thread_join(&f);
}

TEST(wg_wait_without_runtime_returns_at_0_or_deadline)
{
	check_wait(NULL);
}

static long results[1000];

static void compute(void *arg)
{
	long *r = arg;

	if ((r - results) % 3 == 0)
		gmp_yield();
	*r = r - results; /* not atomic: the wait must order it */
	CHECK_EQ(gmp_wg_done(&wg), 0);
}

RT(wg_wait_sees_writes_before_done)
{
	for (int round = 0; round < check_scaled(20); round++) {
		memset(results, 0xff, sizeof(results));
		CHECK_EQ(gmp_wg_add(&wg, 1000), 0);
		for (int i = 0; i < 1000; i++)
			CHECK_EQ(gmp_go(compute, &results[i]), 0);
		CHECK_EQ(gmp_wg_wait(&wg), 0);
		for (int i = 0; i < 1000; i++)
			CHECK_EQ(results[i], i);
	}
}

static void wait_and_count(UNUSED void *arg)
{
	CHECK_EQ(gmp_wg_wait(&wg), 0);
	atomic_fetch_add(&count, 1);
}

RT(wg_done_to_0_wakes_all_waiters)
{
	struct ext_thread f[3];
	gmp_g *g[200];

	for (int round = 0; round < 10; round++) {
		atomic_store(&count, 0);
		CHECK_EQ(gmp_wg_add(&wg, 2), 0);
		for (int i = 0; i < 200; i++)
			g[i] = spawn(wait_and_count, NULL);
		for (int i = 0; i < 3; i++)
			ext_thread_start(&f[i], wait_and_count, NULL);
		wait_parked(200);
		CHECK_EQ(gmp_wg_done(&wg), 0);
		CHECK_EQ(atomic_load(&count), 0);
		CHECK_EQ(gmp_wg_done(&wg), 0);
		for (int i = 0; i < 200; i++)
			join(g[i]);
		for (int i = 0; i < 3; i++)
			ext_thread_join(&f[i]);
		CHECK_EQ(atomic_load(&count), 203);
	}
}

static void wait_a_while(void *arg)
{
	int64_t deadline = gmp_deadline((intptr_t)arg);

	CHECK_EQ(gmp_wg_wait_until(&wg, deadline), -ETIMEDOUT);
	CHECK(gmp_now() >= deadline);
	atomic_fetch_add(&count, 1);
}

RT(wg_timeout_keeps_other_waiters_queued)
{
	gmp_g *out[50], *in[50];

	CHECK_EQ(gmp_wg_add(&wg, 1), 0);
	for (int i = 0; i < 50; i++) {
		out[i] = spawn(wait_a_while, (void *)(intptr_t)(i * 200 * US));
		in[i] = spawn(wait_and_count, NULL);
	}
	for (int i = 0; i < 50; i++)
		join(out[i]);
	CHECK_EQ(atomic_load(&count), 50);
	CHECK_EQ(gmp_wg_done(&wg), 0);
	for (int i = 0; i < 50; i++)
		join(in[i]);
	CHECK_EQ(atomic_load(&count), 100);
}

static void done_one(UNUSED void *arg)
{
	CHECK_EQ(gmp_wg_done(&wg), 0);
}

RT(wg_reuse_after_wait_works)
{
	for (int i = 0; i < (SLOW ? 2000 : 20000); i++) {
		CHECK_EQ(gmp_wg_add(&wg, 1), 0);
		CHECK_EQ(gmp_go(done_one, NULL), 0);
		CHECK_EQ(gmp_wg_wait(&wg), 0);
	}
}

RT(wg_wait_until_racing_done_returns_0_or_etimedout)
{
	for (int i = 0; i < (SLOW ? 500 : 5000); i++) {
		int err;

		CHECK_EQ(gmp_wg_add(&wg, 1), 0);
		CHECK_EQ(gmp_go(done_one, NULL), 0);
		err = gmp_wg_wait_until(&wg, gmp_deadline(i % 16 * US));
		CHECK(err == 0 || err == -ETIMEDOUT);
		CHECK_EQ(gmp_wg_wait(&wg), 0);
	}
}

static void done_given(void *arg)
{
	CHECK_EQ(gmp_wg_done(arg), 0);
}

RT(wg_freed_after_wait_is_not_used_again)
{
	for (int i = 0; i < (SLOW ? 500 : 10000); i++) {
		gmp_wg *w = calloc(1, sizeof(*w));

		CHECK(w != NULL);
		CHECK_EQ(gmp_wg_add(w, 3), 0);
		for (int k = 0; k < 3; k++)
			CHECK_EQ(gmp_go(done_given, w), 0);
		if (i % 2)
			CHECK_EQ(gmp_wg_wait(w), 0);
		else
			WAIT_FOR(gmp_wg_wait_until(w, 0) == 0);
		memset(w, 0xff, sizeof(*w));
		free(w);
	}
}

static gmp_wg *_Atomic slot;

static void done_slots(UNUSED void *arg)
{
	while (!atomic_load(&stop)) {
		gmp_wg *w = atomic_exchange(&slot, NULL);

		if (w != NULL)
			CHECK_EQ(gmp_wg_done(w), 0);
		else
			sched_yield();
	}
}

static void wait_and_free(UNUSED void *arg)
{
	for (int i = 0; i < (SLOW ? 500 : 5000); i++) {
		gmp_wg *w = calloc(1, sizeof(*w));

		CHECK(w != NULL);
		CHECK_EQ(gmp_wg_add(w, 1), 0);
		atomic_store(&slot, w);
		CHECK_EQ(gmp_wg_wait(w), 0);
		memset(w, 0xff, sizeof(*w));
		free(w);
	}
}

RT(wg_freed_during_external_done_is_not_used_again)
{
	struct ext_thread f;

	ext_thread_start(&f, done_slots, NULL);
	wait_and_free(NULL);
	atomic_store(&stop, 1);
	ext_thread_join(&f);
}

RT(wg_freed_by_external_waiter_is_not_used_again)
{
	struct ext_thread f;

	ext_thread_start(&f, wait_and_free, NULL);
	while (!atomic_load(&f.done)) {
		gmp_wg *w = atomic_exchange(&slot, NULL);

		if (w != NULL)
			CHECK_EQ(gmp_wg_done(w), 0);
		gmp_yield();
	}
	ext_thread_join(&f);
}

TEST(wg_without_runtime_works_for_external_threads)
{
	struct ext_thread f[6];

	for (int round = 0; round < 100; round++) {
		atomic_store(&count, 0);
		CHECK_EQ(gmp_wg_add(&wg, 3), 0);
		for (int i = 0; i < 3; i++)
			ext_thread_start(&f[i], wait_and_count, NULL);
		for (int i = 3; i < 6; i++)
			ext_thread_start(&f[i], done_one, NULL);
		CHECK_EQ(gmp_wg_wait(&wg), 0);
		for (int i = 0; i < 6; i++)
			CHECK_EQ(pthread_join(f[i].thread, NULL), 0);
		CHECK_EQ(atomic_load(&count), 3);
	}
}

TEST(wg_without_runtime_freed_after_wait_is_not_used_again)
{
	struct ext_thread f;

	ext_thread_start(&f, done_slots, NULL);
	wait_and_free(NULL);
	atomic_store(&stop, 1);
	CHECK_EQ(pthread_join(f.thread, NULL), 0);
}
