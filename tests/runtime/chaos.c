/* SPDX-License-Identifier: MIT */
/* Under GMP_DEBUG=chaos: is what the runtime leaves open really left to chance, and what it promises kept? */
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>

#include "io_util.h"

enum { GREENS = 32, MOVES = 200 };

static int order[GREENS];
static atomic_int ran;

static void note_order(void *arg)
{
	order[atomic_fetch_add(&ran, 1)] = (int)(intptr_t)arg;
}

static void spawn_all(UNUSED void *arg)
{
	gmp_g *g[GREENS];

	atomic_store(&ran, 0);
	for (int i = 0; i < GREENS; i++)
		g[i] = spawn(note_order, (void *)(intptr_t)i);
	for (int i = 0; i < GREENS; i++)
		join(g[i]);
}

static void run_chaos(int procs, uint64_t seed, unsigned flags, gmp_fn fn, void *arg)
{
	gmp_config c = GMP_CONFIG_INIT;

	CHECK_EQ(setenv("GMP_DEBUG", "chaos", 1), 0);
	c.procs = procs;
	c.seed = seed;
	c.flags = flags;
	CHECK_EQ(gmp_run(fn, arg, &c), 0);
}

TEST(who_runs_next_is_drawn_and_the_seed_repeats_it_in_virtual_time)
{
	int first[GREENS];
	bool others = false;

	for (uint64_t seed = 1; seed <= 20; seed++) {
		run_chaos(1, seed, GMP_VIRTUAL_TIME, spawn_all, NULL);
		CHECK_EQ(atomic_load(&ran), GREENS);
		others |= seed > 1 && memcmp(first, order, sizeof(order)) != 0;
		memcpy(first, order, sizeof(order));
		run_chaos(1, seed, GMP_VIRTUAL_TIME, spawn_all, NULL);
		CHECK(memcmp(first, order, sizeof(order)) == 0);
	}
	CHECK(others);
}

static void nothing(UNUSED void *arg)
{
}

/* It yields after each burst: all that were there then have their turn before the next one, on the average. */
static void spawn_and_yield(UNUSED void *arg)
{
	uint64_t most = 0;

	for (int i = 0; i < 300; i++) {
		for (int k = 0; k < GREENS; k++)
			CHECK_EQ(gmp_go(nothing, NULL), 0);
		gmp_yield();
		most = stats().greens > most ? stats().greens : most;
	}
	CHECK(most < 20 * GREENS);
}

TEST_PROCS(who_starts_others_and_yields_does_not_outrun_them)
{
	run_chaos(procs, 0, 0, spawn_and_yield, NULL);
}

static atomic_int moves;

static void wander(UNUSED void *arg)
{
	pid_t before = (pid_t)syscall(SYS_gettid);

	int64_t limit = gmp_deadline(PATIENCE);

	for (int i = 0; atomic_load(&moves) < MOVES && gmp_now() < limit; i++) {
		if (i % 2)
			gmp_yield();
		else
			gmp_sleep(US);
		if ((pid_t)syscall(SYS_gettid) != before)
			atomic_fetch_add(&moves, 1);
		before = (pid_t)syscall(SYS_gettid);
	}
}

static void wander_all(UNUSED void *arg)
{
	gmp_g *g[8];

	for (int i = 0; i < 8; i++)
		g[i] = spawn(wander, NULL);
	for (int i = 0; i < 8; i++)
		join(g[i]);
}

TEST(waits_end_on_another_thread)
{
	run_chaos(2, 0, 0, wander_all, NULL);
	CHECK(atomic_load(&moves) >= MOVES);
}

static void short_calls(UNUSED void *arg)
{
	char out[1000], in[1000];
	int reads = 0, writes = 0, a, b;

	memset(out, 'x', sizeof(out));
	make_pair("tcp", &a, &b);
	for (int i = 0; i < 60; i++) {
		size_t all = i % 3 ? 2 : sizeof(out); /* of two bytes, one */

		for (size_t n = 0; n < all; writes++) {
			ssize_t put = gmp_write(a, out + n, all - n);

			CHECK(put > 0);
			n += (size_t)put;
		}
		for (size_t n = 0; n < all; reads++) {
			ssize_t got = gmp_read(b, in + n, all - n);

			CHECK(got > 0);
			n += (size_t)got;
		}
		CHECK(memcmp(in, out, all) == 0);
	}
	CHECK(writes > 60 && reads > 60);
	for (int i = 0; i < 20; i++) { /* these promise all of it */
		CHECK_EQ(gmp_write_all(a, out, sizeof(out)), sizeof(out));
		CHECK_EQ(gmp_read_full(b, in, sizeof(in)), sizeof(in));
	}
	CHECK_EQ(gmp_close(a), 0);
	CHECK_EQ(gmp_close(b), 0);
}

TEST_PROCS(reads_and_writes_of_tcp_are_short_and_lose_nothing)
{
	run_chaos(procs, 0, 0, short_calls, NULL);
}

static void sleep_in_the_kernel(UNUSED void *arg)
{
	struct timespec t = { 0, 20 * MS };
	int interrupted = 0;

	for (int i = 0; i < 200 && !interrupted; i++)
		interrupted += nanosleep(&t, NULL) != 0 && errno == EINTR;
	CHECK(interrupted);
}

TEST(system_calls_are_interrupted)
{
	run_chaos(2, 0, 0, sleep_in_the_kernel, NULL);
}
