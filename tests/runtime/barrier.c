/* SPDX-License-Identifier: MIT */
/* What gmp_barrier promises. */
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

RT(all_wait_for_all_and_one_is_chosen)
{
	gmp_g *g[N - 1];
	struct foreign f;

	foreign_start(&f, go_round, NULL);
	for (int i = 0; i < N - 1; i++)
		g[i] = spawn(go_round, NULL);
	for (int i = 0; i < N - 1; i++)
		join(g[i]);
	foreign_join(&f);
	check_rounds();
}

TEST(it_works_between_plain_threads)
{
	struct foreign f[N];

	for (int i = 0; i < N; i++)
		foreign_start(&f[i], go_round, NULL);
	for (int i = 0; i < N; i++)
		CHECK_EQ(pthread_join(f[i].thread, NULL), 0);
	check_rounds();
}

RT(alone_nobody_waits)
{
	gmp_barrier one = GMP_BARRIER_INIT(1), zero = { 0 };

	CHECK_EQ(gmp_barrier_wait(&one), 1);
	CHECK_EQ(gmp_barrier_wait(&one), 1);
	CHECK_EQ(gmp_barrier_wait(&zero), 1);
}

static void be_cancelled(void *arg)
{
	CHECK_EQ(gmp_barrier_wait(arg), -ECANCELED);
}

static void pass(void *arg)
{
	CHECK(gmp_barrier_wait(arg) >= 0);
}

RT(a_cancelled_wait_takes_its_arrival_back)
{
	gmp_barrier two = GMP_BARRIER_INIT(2);

	for (int i = 0; i < 200; i++) {
		gmp_g *g = spawn(be_cancelled, &two), *h;

		wait_parked(1);
		CHECK_EQ(gmp_cancel(g), 0);
		h = spawn(pass, &two); /* may come before or after the cancelled one has left */
		if (i % 2)
			gmp_yield();
		CHECK(gmp_barrier_wait(&two) >= 0);
		join(g);
		join(h);
		CHECK_EQ(two.arrived, 0);
	}
}

/* Cancelled while the last one arrives: a round has n arrivals that were not taken back. */
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

RT(a_round_has_as_many_arrivals_as_it_should)
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
