/* SPDX-License-Identifier: MIT */
/* Tests GMP_DEBUG=chaos: unspecified behaviour becomes random, and every guarantee still holds. */
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>

#include "io/io_util.h"

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

TEST(chaos_run_order_is_random_and_repeats_with_seed)
{
	int first[GREENS];
	bool orders_differ = false;

	for (uint64_t seed = 1; seed <= 20; seed++) {
		run_chaos(1, seed, GMP_VIRTUAL_TIME, spawn_all, NULL);
		CHECK_EQ(atomic_load(&ran), GREENS);
		orders_differ |= seed > 1 && memcmp(first, order, sizeof(order)) != 0;
		memcpy(first, order, sizeof(order));
		run_chaos(1, seed, GMP_VIRTUAL_TIME, spawn_all, NULL);
		CHECK(memcmp(first, order, sizeof(order)) == 0);
	}
	CHECK(orders_differ);
}

static void nothing(UNUSED void *arg)
{
}

/* On average a yield lets all Gs of the burst run before the next burst. */
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

TEST_PROCS(chaos_yield_lets_spawned_gs_run)
{
	run_chaos(procs, 0, 0, spawn_and_yield, NULL);
}

static atomic_int begun, early; /* Gs; yields that ended before all of them had begun */

static void yield_some(UNUSED void *arg)
{
	atomic_fetch_add(&begun, 1);
	for (int i = 0; i < 4; i++) {
		gmp_yield();
		atomic_fetch_add(&early, atomic_load(&begun) < GREENS);
	}
}

static void spawn_yielding(UNUSED void *arg)
{
	gmp_g *g[GREENS];

	for (int i = 0; i < GREENS; i++)
		g[i] = spawn(yield_some, NULL);
	for (int i = 0; i < GREENS; i++)
		join(g[i]);
}

TEST_PROCS(chaos_yielded_g_may_run_before_new_gs)
{
	run_chaos(procs, 1, 0, spawn_yielding, NULL);
	CHECK(atomic_load(&early) > 0);
	CHECK(atomic_load(&early) < GREENS * 4);
}

static atomic_int moves;

static void count_moves(UNUSED void *arg)
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

static void count_all_moves(UNUSED void *arg)
{
	gmp_g *g[8];

	for (int i = 0; i < 8; i++)
		g[i] = spawn(count_moves, NULL);
	for (int i = 0; i < 8; i++)
		join(g[i]);
}

TEST(chaos_waits_end_on_another_os_thread)
{
	run_chaos(2, 0, 0, count_all_moves, NULL);
	CHECK(atomic_load(&moves) >= MOVES);
}

static void short_calls(UNUSED void *arg)
{
	char out[1000], in[1000];
	int reads = 0, writes = 0, a, b;

	memset(out, 'x', sizeof(out));
	make_pair("tcp", &a, &b);
	for (int i = 0; i < 60; i++) {
		size_t all = i % 3 ? 2 : sizeof(out); /* 2: transfers one byte at a time */

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
	for (int i = 0; i < 20; i++) { /* these calls are never short */
		CHECK_EQ(gmp_write_all(a, out, sizeof(out)), sizeof(out));
		CHECK_EQ(gmp_read_full(b, in, sizeof(in)), sizeof(in));
	}
	CHECK_EQ(gmp_close(a), 0);
	CHECK_EQ(gmp_close(b), 0);
}

TEST_PROCS(chaos_tcp_io_is_short_but_loses_nothing)
{
	run_chaos(procs, 0, 0, short_calls, NULL);
}

static void sleep_until_eintr(UNUSED void *arg)
{
	struct timespec t = { 0, 20 * MS };
	int interrupted = 0;

	for (int i = 0; i < 200 && !interrupted; i++)
		interrupted += nanosleep(&t, NULL) != 0 && errno == EINTR;
	CHECK(interrupted);
}

TEST(chaos_system_calls_fail_with_eintr)
{
	run_chaos(2, 0, 0, sleep_until_eintr, NULL);
}

enum { INTERRUPTIONS = 10 };

/* Answers each byte after 5 ms. */
static void answer(void *arg)
{
	int *fd = arg;
	char byte;

	while (read(fd[0], &byte, 1) == 1 && byte) {
		usleep(5000);
		CHECK_EQ(write(fd[3], &byte, 1), 1);
	}
}

static void read_under_chaos(UNUSED void *arg)
{
	struct timespec t = { 0, 5 * MS };
	int fd[4], interrupted = 0;
	struct ext_thread f;
	char byte = 1;

	CHECK_EQ(pipe(fd), 0);
	CHECK_EQ(pipe(fd + 2), 0);
	ext_thread_start(&f, answer, fd);
	for (int i = 0; i < 5000 && interrupted < INTERRUPTIONS; i++) {
		interrupted += nanosleep(&t, NULL) != 0 && errno == EINTR;
		CHECK_EQ(write(fd[1], &byte, 1), 1);
		CHECK_EQ(read(fd[2], &byte, 1), 1);
	}
	CHECK_EQ(interrupted, INTERRUPTIONS);
	byte = 0;
	CHECK_EQ(write(fd[1], &byte, 1), 1);
	ext_thread_join(&f);
	for (int i = 0; i < 4; i++)
		close(fd[i]);
}

TEST(chaos_read_that_the_kernel_restarts_does_not_fail)
{
	run_chaos(2, 0, 0, read_under_chaos, NULL);
}
