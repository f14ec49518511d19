/* SPDX-License-Identifier: MIT */
/* Tests of what the watcher sees to. */
#include "io_util.h"

static atomic_int stop, ran;

static void yield_for_ever(UNUSED void *arg)
{
	atomic_fetch_add(&ran, 1);
	while (!atomic_load(&stop))
		gmp_yield();
}

static void mark(void *arg)
{
	atomic_store((atomic_int *)arg, 1);
}

/* The others never run dry, so they do not come to steal. */
RT(what_is_queued_behind_one_that_computes_runs_though_all_ps_are_busy)
{
	int64_t limit = gmp_deadline(PATIENCE);
	atomic_int seen[3] = { 0 };
	gmp_g *g[4], *queued[3];

	if (procs == 1)
		check_skip("nobody else is there");
	for (int i = 0; i < procs - 1; i++)
		g[i] = spawn(yield_for_ever, NULL);
	WAIT_FOR(atomic_load(&ran) == procs - 1);
	for (int i = 0; i < 3; i++)
		queued[i] = spawn(mark, &seen[i]);
	for (int i = 0; i < 3; i++)
		while (!atomic_load(&seen[i]))
			CHECK(gmp_now() < limit);
	atomic_store(&stop, 1);
	for (int i = 0; i < procs - 1; i++)
		join(g[i]);
	for (int i = 0; i < 3; i++)
		join(queued[i]);
}

/* --- what never waits, and makes no checkpoint of its own --- */

static void talk_to_itself(UNUSED void *arg)
{
	char b = 'x';
	int p[2];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p), 0);
	CHECK_EQ(gmp_fd_adopt(p[0]), p[0]);
	CHECK_EQ(gmp_fd_adopt(p[1]), p[1]);
	while (!atomic_load(&stop)) {
		CHECK_EQ(gmp_write(p[0], &b, 1), 1);
		CHECK_EQ(gmp_read(p[1], &b, 1), 1);
	}
	close_pair(p[0], p[1]);
}

static void block_for_moments(UNUSED void *arg)
{
	while (!atomic_load(&stop))
		(void)gmp_blocking(getppid());
}

static void read_a_file(UNUSED void *arg)
{
	char b;
	int fd = gmp_open("/proc/self/exe", O_RDONLY, 0);

	CHECK(fd >= 0);
	while (!atomic_load(&stop))
		CHECK_EQ(gmp_pread(fd, &b, 1, 0), 1);
	CHECK_EQ(gmp_close(fd), 0);
}

static void gives_way(gmp_fn fn, int procs)
{
	atomic_int seen = 0;
	gmp_g *g[4], *queued;

	for (int i = 0; i < procs; i++)
		g[i] = spawn(fn, NULL);
	queued = spawn(mark, &seen);
	WAIT_FOR(atomic_load(&seen)); /* if this one ever runs again */
	atomic_store(&stop, 1);
	for (int i = 0; i < procs; i++)
		join(g[i]);
	join(queued);
}

RT(a_peer_that_is_never_behind_keeps_the_p_from_nobody)
{
	gives_way(talk_to_itself, procs);
}

RT(blocking_code_that_never_lasts_keeps_the_p_from_nobody)
{
	gives_way(block_for_moments, procs);
}

RT(a_file_in_memory_keeps_the_p_from_nobody)
{
	gives_way(read_a_file, procs);
}
