/* SPDX-License-Identifier: MIT */
/* Tests gmp_done: it is set once, and ends every wait and select on it, on any OS thread. */
#include <malloc.h>

#include "util.h"

static gmp_done *done;
static atomic_int count, watching;

static void make(void)
{
	done = gmp_done_new();
	CHECK(done != NULL);
}

#if defined(__GLIBC__)
TEST(done_free_leaks_no_memory)
{
	if (SANITIZED)
		check_skip("a sanitizer delays the reuse of freed memory");
	size_t before = mallinfo2().uordblks;

	for (int i = 0; i < 10000; i++) {
		make();
		CHECK(gmp_done_chan(done) != NULL);
		CHECK_EQ(gmp_done_set(done), 0);
		gmp_done_free(done);
	}
	CHECK(mallinfo2().uordblks < before + 100000); /* object.h keeps 128 objects */
}
#endif

static void check_basics(UNUSED void *arg)
{
	gmp_done *d = gmp_done_new();
	int64_t t = gmp_now();

	CHECK(d != NULL);
	CHECK_EQ(gmp_done_get(d), 0);
	CHECK_EQ(gmp_done_wait_until(d, 0), -ETIMEDOUT);
	CHECK_EQ(gmp_done_wait_until(d, t + 2 * MS), -ETIMEDOUT);
	CHECK(gmp_now() >= t + 2 * MS);
	CHECK_EQ(gmp_chan_try_recv(gmp_done_chan(d), NULL), -EAGAIN);
	CHECK_EQ(gmp_done_set(d), 0);
	CHECK_EQ(gmp_done_set(d), -EALREADY);
	CHECK_EQ(gmp_done_get(d), 1);
	CHECK_EQ(gmp_done_wait(d), 0);
	CHECK_EQ(gmp_done_wait_until(d, 0), 0);
	CHECK_EQ(gmp_chan_try_recv(gmp_done_chan(d), NULL), -EPIPE);
	gmp_done_free(d);
	gmp_done_free(NULL);
	CHECK_EQ(gmp_done_set(NULL), -EINVAL);
	CHECK_EQ(gmp_done_get(NULL), 0);
	CHECK_EQ(gmp_done_wait(NULL), -EINVAL);
	CHECK(gmp_done_chan(NULL) == NULL);
}

RT(done_is_set_once_and_stays_set)
{
	struct ext_thread f;

	check_basics(NULL);
	ext_thread_start(&f, check_basics, NULL);
	ext_thread_join(&f);
}

TEST(done_without_runtime_is_set_once_and_stays_set)
{
	check_basics(NULL);
}

static void wait_done(UNUSED void *arg)
{
	atomic_fetch_add(&watching, 1);
	CHECK_EQ(gmp_done_wait(done), 0);
	CHECK_EQ(gmp_done_get(done), 1);
	atomic_fetch_add(&count, 1);
}

static void select_done(void *arg)
{
	gmp_chan *c = arg;
	int v, got = 0;

	for (;;) {
		gmp_case cs[] = { GMP_RECV_CASE(c, &v), GMP_RECV_CASE(gmp_done_chan(done), NULL) };
		int ran = gmp_select(cs, 2);

		if (ran == 1) {
			CHECK_EQ(cs[1].status, -EPIPE);
			break;
		}
		CHECK_EQ(cs[0].status, 0);
		if (got++ == 0)
			atomic_fetch_add(&watching, 1);
	}
	CHECK_EQ(gmp_done_get(done), 1);
	CHECK(got > 0);
	atomic_fetch_add(&count, 1);
}

RT(done_set_ends_all_waits_and_selects)
{
	gmp_chan *c[100];
	gmp_g *g[200];
	struct ext_thread f[3];

	for (int round = 0; round < 5; round++) {
		make();
		atomic_store(&count, 0);
		atomic_store(&watching, 0);
		for (int i = 0; i < 100; i++) {
			c[i] = gmp_chan_new(sizeof(int), 1);
			CHECK(c[i] != NULL);
			g[i] = spawn(select_done, c[i]);
			g[100 + i] = spawn(wait_done, NULL);
		}
		ext_thread_start(&f[0], wait_done, NULL);
		ext_thread_start(&f[1], select_done, c[0]);
		ext_thread_start(&f[2], wait_done, NULL);
		CHECK_EQ(gmp_chan_send(c[0], &round), 0);
		for (int i = 0; i < 100; i++)
			CHECK_EQ(gmp_chan_send(c[i], &round), 0);
		/*
		 * the external thread may take all elements of c[0]: send until both readers have
		 * one
		 */
		while (atomic_load(&watching) < 203) {
			gmp_chan_try_send(c[0], &round);
			gmp_yield();
		}
		CHECK_EQ(atomic_load(&count), 0);
		CHECK_EQ(gmp_done_set(done), 0);
		for (int i = 0; i < 200; i++)
			join(g[i]);
		for (int i = 0; i < 3; i++)
			ext_thread_join(&f[i]);
		CHECK_EQ(atomic_load(&count), 203);
		for (int i = 0; i < 100; i++)
			gmp_chan_free(c[i]);
		gmp_done_free(done);
	}
}

static long written;

static void write_and_set(UNUSED void *arg)
{
	written++;
	CHECK_EQ(gmp_done_set(done), 0);
}

RT(done_set_happens_before_wait_returns)
{
	for (int i = 0; i < (SLOW ? 200 : 2000); i++) {
		long before = written;
		gmp_g *g;

		make();
		g = spawn(write_and_set, NULL);
		if (i % 2)
			CHECK_EQ(gmp_done_wait(done), 0);
		else
			WAIT_FOR(gmp_done_get(done));
		CHECK_EQ(written, before + 1);
		gmp_done_free(done); /* the setter may still be inside gmp_done_set() */
		join(g);
	}
}

static void cancelled_wait(UNUSED void *arg)
{
	CHECK_EQ(gmp_done_wait(done), -ECANCELED);
	CHECK_EQ(gmp_done_wait_until(done, gmp_deadline(SEC)), -ECANCELED);
	CHECK_EQ(gmp_done_set(done), 0);
	CHECK_EQ(gmp_done_wait(done), 0); /* does not wait */
}

RT(done_wait_cancelled_returns_ecanceled)
{
	gmp_g *g;

	make();
	g = spawn(cancelled_wait, NULL);
	gmp_yield();
	CHECK_EQ(gmp_cancel(g), 0);
	join(g);
	gmp_done_free(done);
}

static void try_to_set(UNUSED void *arg)
{
	if (gmp_done_set(done) == 0)
		atomic_fetch_add(&count, 1);
	CHECK_EQ(gmp_done_get(done), 1);
}

RT(done_concurrent_sets_have_one_winner)
{
	gmp_g *g[20];

	for (int i = 0; i < 100; i++) {
		make();
		atomic_store(&count, 0);
		for (int k = 0; k < 20; k++)
			g[k] = spawn(try_to_set, NULL);
		for (int k = 0; k < 20; k++)
			join(g[k]);
		CHECK_EQ(atomic_load(&count), 1);
		gmp_done_free(done);
	}
}

static void poll_done_chan(UNUSED void *arg)
{
	for (int i = 0; i < 50; i++) {
		gmp_chan *c = gmp_done_chan(done);
		int err = gmp_chan_try_recv(c, NULL);

		CHECK(c != NULL);
		CHECK(err == -EAGAIN || err == -EPIPE);
		gmp_yield();
	}
	CHECK_EQ(gmp_done_wait(done), 0);
}

RT(done_chan_racing_set_is_closed)
{
	gmp_g *g[40];

	for (int i = 0; i < (SLOW ? 20 : 200); i++) {
		make();
		for (int k = 0; k < 40; k++)
			g[k] = spawn(poll_done_chan, NULL);
		for (int k = 0; k < i % 7; k++)
			gmp_yield();
		CHECK_EQ(gmp_done_set(done), 0);
		for (int k = 0; k < 40; k++)
			join(g[k]);
		gmp_done_free(done);
	}
}

static void leave_watchers(UNUSED void *arg)
{
	atomic_store(&watching, 0);
	for (int i = 0; i < 20; i++)
		CHECK_EQ(gmp_go(wait_done, NULL), 0);
	WAIT_FOR(atomic_load(&watching) == 20);
}

TEST_PROCS(done_outlives_run_with_killed_waiters)
{
	make();
	run_procs(procs, leave_watchers, NULL);
	run_procs(procs, leave_watchers, NULL);
	CHECK_EQ(gmp_done_set(done), 0);
	CHECK_EQ(gmp_done_wait(done), 0);
	CHECK_EQ(atomic_load(&count), 0);
	gmp_done_free(done);
}
