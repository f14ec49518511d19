/* SPDX-License-Identifier: MIT */
/* Tests gmp_barrier: rounds, cancellation, lifetime, and waiters that are killed at shutdown. */
#include "util.h"

enum { N = 7, ROUNDS = 300 };

static gmp_barrier b = GMP_BARRIER_INIT(N);
static atomic_int arrived[ROUNDS], chosen[ROUNDS];

static void go_round(UNUSED void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		atomic_fetch_add(&arrived[i], 1);
		int r = gmp_barrier_wait(&b);

		CHECK(r == 0 || r == 1);
		atomic_fetch_add(&chosen[i], r);
		CHECK_EQ(atomic_load(&arrived[i]), N);
	}
}

static void check_rounds(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		CHECK_EQ(atomic_exchange(&arrived[i], 0), N);
		CHECK_EQ(atomic_exchange(&chosen[i], 0), 1);
	}
	CHECK_EQ(b.arrived, 0);
}

RT(barrier_nth_arrival_releases_all_and_one_returns_1)
{
	gmp_g *g[N - 1];
	struct ext_thread f;

	ext_thread_start(&f, go_round, NULL);
	for (int i = 0; i < N - 1; i++)
		g[i] = spawn(go_round, NULL);
	for (int i = 0; i < N - 1; i++)
		join(g[i]);
	ext_thread_join(&f);
	check_rounds();
}

TEST(barrier_without_runtime_works_for_external_threads)
{
	struct ext_thread f[N];

	for (int i = 0; i < N; i++)
		ext_thread_start(&f[i], go_round, NULL);
	for (int i = 0; i < N; i++)
		CHECK_EQ(pthread_join(f[i].thread, NULL), 0);
	check_rounds();
}

RT(barrier_of_one_returns_1_at_once)
{
	gmp_barrier one = GMP_BARRIER_INIT(1), zero = { 0 };

	CHECK_EQ(gmp_barrier_wait(&one), 1);
	CHECK_EQ(gmp_barrier_wait(&one), 1);
	CHECK_EQ(gmp_barrier_wait(&zero), 1);
}

static void wait_until_cancelled(void *arg)
{
	CHECK_EQ(gmp_barrier_wait(arg), -ECANCELED);
}

static void pass(void *arg)
{
	CHECK(gmp_barrier_wait(arg) >= 0);
}

RT(barrier_cancelled_wait_takes_arrival_back)
{
	gmp_barrier two = GMP_BARRIER_INIT(2);

	for (int i = 0; i < 200; i++) {
		gmp_g *g = spawn(wait_until_cancelled, &two), *h;

		wait_parked(1);
		CHECK_EQ(gmp_cancel(g), 0);
		h = spawn(pass, &two); /* may arrive before or after g has left */
		if (i % 2)
			gmp_yield();
		CHECK(gmp_barrier_wait(&two) >= 0);
		join(g);
		join(h);
		CHECK_EQ(two.arrived, 0);
	}
}

RT(barrier_cancelled_waiter_is_not_counted_at_last_arrival)
{
	for (int i = 0; i < 100; i++) {
		gmp_barrier all = GMP_BARRIER_INIT(4);
		gmp_g *g = spawn(wait_until_cancelled, &all), *h[3];

		for (int k = 0; k < 2; k++)
			h[k] = spawn(pass, &all);
		wait_parked(3);
		CHECK_EQ(gmp_cancel(g), 0);
		/* g is claimed, but still queued */
		h[2] = spawn(pass, &all);
		CHECK(gmp_barrier_wait(&all) >= 0);
		join(g);
		for (int k = 0; k < 3; k++)
			join(h[k]);
		CHECK_EQ(all.arrived, 0);
	}
}

/* Race: waiters are cancelled during the last arrival. Each round has three arrivals that count. */
static gmp_barrier three = GMP_BARRIER_INIT(3);
static atomic_int passed, cancelled, rounds;

static void arrive(UNUSED void *arg)
{
	int r = gmp_barrier_wait(&three);

	if (r == -ECANCELED) {
		atomic_fetch_add(&cancelled, 1);
		return;
	}
	CHECK(r == 0 || r == 1);
	atomic_fetch_add(&passed, 1);
	atomic_fetch_add(&rounds, r);
}

RT(barrier_cancel_racing_last_arrival_keeps_rounds_whole)
{
	atomic_store(&passed, 0);
	atomic_store(&cancelled, 0);
	atomic_store(&rounds, 0);
	for (int i = 0; i < 500; i++) {
		gmp_g *g[6];

		for (int k = 0; k < 6; k++)
			g[k] = spawn(arrive, NULL);
		if (i % 3)
			gmp_yield();
		for (int k = 0; k < 6; k++)
			CHECK_EQ(gmp_cancel(g[(k + i) % 6]), 0);
		for (int k = 0; k < 6; k++)
			join(g[k]);
		CHECK_EQ(three.arrived, 0);
	}
	CHECK_EQ(atomic_load(&passed), 3 * atomic_load(&rounds));
	CHECK_EQ(atomic_load(&passed) + atomic_load(&cancelled), 3000);
}

static void arrive_masked(void *arg)
{
	CHECK_EQ(gmp_cancel_mask(1), 0);
	CHECK_EQ(gmp_barrier_wait(arg), 0);
	CHECK_EQ(gmp_cancel_mask(0), 0);
	CHECK_EQ(gmp_barrier_wait(arg), -ECANCELED);
}

RT(barrier_cancel_of_masked_wait_leaves_it_waiting)
{
	gmp_barrier two = GMP_BARRIER_INIT(2);
	gmp_g *g = spawn(arrive_masked, &two);

	wait_parked(1);
	CHECK_EQ(gmp_cancel(g), 0);
	CHECK_EQ(gmp_join_until(g, gmp_deadline(MS)), -ETIMEDOUT);
	CHECK_EQ(two.arrived, 1);
	CHECK_EQ(gmp_barrier_wait(&two), 1);
	join(g);
	CHECK_EQ(two.arrived, 0);
}

static void arrive_last_cancelled(void *arg)
{
	CHECK_EQ(gmp_cancel(gmp_self()), 0);
	CHECK_EQ(gmp_barrier_wait(arg), 1);
	CHECK_EQ(gmp_barrier_wait(arg), -ECANCELED);
}

RT(barrier_cancelled_last_arrival_returns_1)
{
	gmp_barrier two = GMP_BARRIER_INIT(2);
	struct ext_thread f;

	for (int i = 0; i < 20; i++) {
		ext_thread_start(&f, pass, &two);
		WAIT_FOR(__atomic_load_n(&two.arrived, __ATOMIC_RELAXED) == 1);
		join(spawn(arrive_last_cancelled, &two));
		ext_thread_join(&f);
		CHECK_EQ(two.arrived, 0);
	}
}

/* The first or the second thread to return frees the barrier. */
struct heap_barrier {
	gmp_barrier b;
	int freer;
	char pad[50];
};

static void pass_and_free(void *arg)
{
	struct heap_barrier *h = arg;
	int freer = h->freer;

	if (gmp_barrier_wait(&h->b) != freer)
		return;
	memset(h, 0xee, sizeof(*h));
	free(h);
}

RT(barrier_freed_after_return_is_not_used_again)
{
	for (long i = 0, n = check_scaled(2000); i < n; i++) {
		struct heap_barrier *h = calloc(1, sizeof(*h));
		struct ext_thread f;
		gmp_g *g = NULL;

		CHECK(h != NULL);
		h->b = (gmp_barrier)GMP_BARRIER_INIT(2);
		h->freer = (int)(i / 2 % 2);
		if (i % 20)
			g = spawn(pass_and_free, h);
		else
			ext_thread_start(&f, pass_and_free, h);
		if (i % 3)
			gmp_yield();
		pass_and_free(h);
		if (g)
			join(g);
		else
			ext_thread_join(&f);
	}
}

static gmp_barrier kept = GMP_BARRIER_INIT(3);

static void killed_in_wait(UNUSED void *arg)
{
	gmp_barrier_wait(&kept);
	CHECK(!"a green thread that was killed at shutdown ran on");
}

static struct ext_thread external;

static void pass_kept(UNUSED void *arg)
{
	CHECK_EQ(gmp_barrier_wait(&kept), 0);
}

static void leave_waiter(UNUSED void *arg)
{
	ext_thread_start(&external, pass_kept, NULL);
	WAIT_FOR(__atomic_load_n(&kept.arrived, __ATOMIC_RELAXED) == 1);
	CHECK_EQ(gmp_go(killed_in_wait, NULL), 0);
	wait_parked(1);
	CHECK_EQ(__atomic_load_n(&kept.arrived, __ATOMIC_RELAXED), 2);
}

TEST_PROCS(barrier_killed_waiter_takes_arrival_back)
{
	for (int i = 0; i < 5; i++) {
		struct ext_thread other;

		run_procs(procs, leave_waiter, NULL);
		CHECK_EQ(__atomic_load_n(&kept.arrived, __ATOMIC_RELAXED), 1);
		ext_thread_start(&other, pass_kept, NULL);
		WAIT_FOR(__atomic_load_n(&kept.arrived, __ATOMIC_RELAXED) == 2);
		CHECK_EQ(gmp_barrier_wait(&kept), 1);
		CHECK_EQ(pthread_join(external.thread, NULL), 0);
		CHECK_EQ(pthread_join(other.thread, NULL), 0);
	}
}
