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
	struct ext_thread f;

	ext_thread_start(&f, go_round, NULL);
	for (int i = 0; i < N - 1; i++)
		g[i] = spawn(go_round, NULL);
	for (int i = 0; i < N - 1; i++)
		join(g[i]);
	ext_thread_join(&f);
	check_rounds();
}

TEST(it_works_between_plain_threads)
{
	struct ext_thread f[N];

	for (int i = 0; i < N; i++)
		ext_thread_start(&f[i], go_round, NULL);
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

RT(those_beside_a_cancelled_one_wait_on_when_the_last_comes)
{
	for (int i = 0; i < 100; i++) {
		gmp_barrier all = GMP_BARRIER_INIT(4);
		gmp_g *g = spawn(be_cancelled, &all), *h[3];

		for (int k = 0; k < 2; k++)
			h[k] = spawn(pass, &all);
		wait_parked(3);
		CHECK_EQ(gmp_cancel(g), 0);
		/* it has been claimed, and stands among them still */
		h[2] = spawn(pass, &all);
		CHECK(gmp_barrier_wait(&all) >= 0);
		join(g);
		for (int k = 0; k < 3; k++)
			join(h[k]);
		CHECK_EQ(all.arrived, 0);
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

static void arrive_masked(void *arg)
{
	CHECK_EQ(gmp_cancel_mask(1), 0);
	CHECK_EQ(gmp_barrier_wait(arg), 0);
	CHECK_EQ(gmp_cancel_mask(0), 0);
	CHECK_EQ(gmp_barrier_wait(arg), -ECANCELED);
}

RT(a_masked_wait_stays)
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

static void be_the_last_though_cancelled(void *arg)
{
	CHECK_EQ(gmp_cancel(gmp_self()), 0);
	CHECK_EQ(gmp_barrier_wait(arg), 1);
	CHECK_EQ(gmp_barrier_wait(arg), -ECANCELED);
}

RT(the_last_one_need_not_wait_though_it_is_cancelled)
{
	gmp_barrier two = GMP_BARRIER_INIT(2);
	struct ext_thread f;

	for (int i = 0; i < 20; i++) {
		ext_thread_start(&f, pass, &two);
		WAIT_FOR(__atomic_load_n(&two.arrived, __ATOMIC_RELAXED) == 1);
		join(spawn(be_the_last_though_cancelled, &two));
		ext_thread_join(&f);
		CHECK_EQ(two.arrived, 0);
	}
}

/* Whoever comes out may free it, be it the last one to come in or another. */
struct heap_barrier {
	gmp_barrier b;
	int who;
	char pad[50];
};

static void pass_and_free(void *arg)
{
	struct heap_barrier *h = arg;
	int who = h->who;

	if (gmp_barrier_wait(&h->b) != who)
		return;
	memset(h, 0xee, sizeof(*h));
	free(h);
}

RT(it_may_be_freed_by_the_first_who_comes_out)
{
	for (long i = 0, n = check_scaled(2000); i < n; i++) {
		struct heap_barrier *h = calloc(1, sizeof(*h));
		struct ext_thread f;
		gmp_g *g = NULL;

		CHECK(h != NULL);
		h->b = (gmp_barrier)GMP_BARRIER_INIT(2);
		h->who = (int)(i / 2 % 2);
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

static void wait_for_ever(UNUSED void *arg)
{
	gmp_barrier_wait(&kept);
	CHECK(!"a dropped green thread went on");
}

static struct ext_thread outside;

static void pass_kept(UNUSED void *arg)
{
	CHECK_EQ(gmp_barrier_wait(&kept), 0);
}

static void leave_one_waiting(UNUSED void *arg)
{
	ext_thread_start(&outside, pass_kept, NULL);
	WAIT_FOR(__atomic_load_n(&kept.arrived, __ATOMIC_RELAXED) == 1);
	CHECK_EQ(gmp_go(wait_for_ever, NULL), 0);
	wait_parked(1);
	CHECK_EQ(__atomic_load_n(&kept.arrived, __ATOMIC_RELAXED), 2);
}

TEST_PROCS(those_whom_a_run_drops_take_their_arrivals_back)
{
	for (int i = 0; i < 5; i++) {
		struct ext_thread other;

		run_procs(procs, leave_one_waiting, NULL);
		CHECK_EQ(__atomic_load_n(&kept.arrived, __ATOMIC_RELAXED), 1);
		ext_thread_start(&other, pass_kept, NULL);
		WAIT_FOR(__atomic_load_n(&kept.arrived, __ATOMIC_RELAXED) == 2);
		CHECK_EQ(gmp_barrier_wait(&kept), 1);
		CHECK_EQ(pthread_join(outside.thread, NULL), 0);
		CHECK_EQ(pthread_join(other.thread, NULL), 0);
	}
}
