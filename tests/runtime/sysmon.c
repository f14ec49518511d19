/* SPDX-License-Identifier: MIT */
/* Tests fairness: Gs that compute, or whose calls never wait, do not starve others (sysmon). */
#include "io_util.h"

static atomic_int stop, ran;

static void yield_until_stop(UNUSED void *arg)
{
	atomic_fetch_add(&ran, 1);
	while (!atomic_load(&stop))
		gmp_yield();
}

static void mark(void *arg)
{
	atomic_store((atomic_int *)arg, 1);
}

/* The other Ps always have a runnable G, so they never steal. */
RT(sysmon_runs_gs_queued_behind_computing_g)
{
	int64_t limit = gmp_deadline(PATIENCE);
	atomic_int seen[3] = { 0 };
	gmp_g *g[4], *queued[3];

	if (procs == 1)
		check_skip("needs a second P");
	for (int i = 0; i < procs - 1; i++)
		g[i] = spawn(yield_until_stop, NULL);
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

/* --- calls that never wait, without a checkpoint --- */

static void exchange_with_self(UNUSED void *arg)
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

static void block_briefly(UNUSED void *arg)
{
	while (!atomic_load(&stop))
		(void)gmp_blocking(getppid());
}

static void read_cached_file(UNUSED void *arg)
{
	char b;
	int fd = gmp_open("/proc/self/exe", O_RDONLY, 0);

	CHECK(fd >= 0);
	while (!atomic_load(&stop))
		CHECK_EQ(gmp_pread(fd, &b, 1, 0), 1);
	CHECK_EQ(gmp_close(fd), 0);
}

static void check_not_starving(gmp_fn fn, int procs)
{
	atomic_int seen = 0;
	gmp_g *g[4], *queued;

	for (int i = 0; i < procs; i++)
		g[i] = spawn(fn, NULL);
	queued = spawn(mark, &seen);
	WAIT_FOR(atomic_load(&seen)); /* passes only if this G gets the P again */
	atomic_store(&stop, 1);
	for (int i = 0; i < procs; i++)
		join(g[i]);
	join(queued);
}

RT(socket_io_that_never_waits_does_not_starve_others)
{
	check_not_starving(exchange_with_self, procs);
}

RT(short_blocking_calls_do_not_starve_others)
{
	check_not_starving(block_briefly, procs);
}

RT(cached_file_reads_do_not_starve_others)
{
	check_not_starving(read_cached_file, procs);
}
