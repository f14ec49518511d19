/* SPDX-License-Identifier: MIT */
/*
 * Tests spare Ps: while the Ms of all Ps sleep in the kernel outside of blocking sections, sysmon
 * adds a P; a G that computes is no reason for one.
 */
#define _GNU_SOURCE 1
#include "util.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

static int ends[2];

static void read_in_kernel(int fd)
{
	char c;

	while (read(fd, &c, 1) < 0 && errno == EINTR)
		;
}

static void sleep_in_kernel(int64_t ns)
{
	struct timespec t = { ns / SEC, ns % SEC };

	while (nanosleep(&t, &t) < 0 && errno == EINTR)
		;
}

static void read_undeclared(void *arg)
{
	atomic_fetch_add((atomic_int *)arg, 1);
	read_in_kernel(ends[0]);
	atomic_fetch_sub((atomic_int *)arg, 1);
}

RT(undeclared_blocking_on_all_ps_adds_spare_p)
{
	atomic_int inside = 0;
	gmp_g *g[8];

	for (int round = 0; round < 3; round++) {
		CHECK_EQ(pipe(ends), 0);
		for (int i = 0; i < procs; i++)
			g[i] = spawn(read_undeclared, &inside);
		WAIT_FOR(atomic_load(&inside) == procs); /* needs one more P */
		CHECK(stats().spares >= (uint64_t)round + 1);
		CHECK_EQ(stats().procs_spare, 1);
		CHECK_EQ(gmp_procs(), procs);
		for (int i = 0; i < procs; i++)
			CHECK_EQ(write(ends[1], "x", 1), 1);
		for (int i = 0; i < procs; i++)
			join(g[i]);
		WAIT_FOR(stats().procs_spare == 0);
		close(ends[0]);
		close(ends[1]);
	}
	CHECK_EQ(atomic_load(&inside), 0);
}

static void read_twice(void *arg)
{
	read_undeclared(arg);
	read_undeclared(arg);
}

/* The spare P is blocked as well. */
RT(undeclared_blocking_on_spare_p_adds_further_spare_ps)
{
	enum { MORE = 3 };
	atomic_int inside = 0;
	gmp_g *g[8];
	int n = procs + MORE;

	CHECK_EQ(pipe(ends), 0);
	for (int i = 0; i < n; i++)
		g[i] = spawn(i % 2 ? read_undeclared : read_twice, &inside);
	WAIT_FOR(atomic_load(&inside) == n);
	CHECK(stats().spares >= MORE + 1);
	for (int i = 0; i < n + n; i++)
		CHECK_EQ(write(ends[1], "x", 1), 1);
	for (int i = 0; i < n; i++)
		join(g[i]);
	WAIT_FOR(stats().procs_spare == 0);
	close(ends[0]);
	close(ends[1]);
}

static void compute(void *arg)
{
	while (!atomic_load((atomic_int *)arg))
		;
}

static void end_computation(void *arg)
{
	sleep_in_kernel(100 * MS);
	atomic_store((atomic_int *)arg, 1);
}

/* A G that computes is not blocked, so its P needs no replacement. */
RT(computing_on_all_ps_adds_no_spare_p)
{
	atomic_int stop = 0;
	struct ext_thread f;
	gmp_g *g[4];

	for (int i = 0; i < procs; i++)
		g[i] = spawn(compute, &stop);
	ext_thread_start(&f, end_computation, &stop);
	gmp_yield();
	for (int i = 0; i < procs; i++)
		join(g[i]);
	ext_thread_join(&f);
	CHECK_EQ(stats().spares, 0);
}
