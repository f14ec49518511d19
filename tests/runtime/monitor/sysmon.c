/* SPDX-License-Identifier: MIT */
/*
 * Tests fairness: Gs that compute, or whose calls never wait, do not starve others (sysmon). Its
 * cases compare times: each needs a CPU.
 */
#include "io/io_util.h"

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

/* --- a G with checkpoints, beside two that wake each other --- */

enum {
	SHARED_NS = 300 * 1000 * 1000,
	CALL_MOST_NS = 200 * 1000, /* of gmp_checkpoint, if it does not yield */
};

static gmp_chan *there, *back;

static void answer(UNUSED void *arg)
{
	char c;

	while (gmp_chan_recv(there, &c) == 0)
		CHECK_EQ(gmp_chan_send(back, &c), 0);
}

static void ask_until_stop(UNUSED void *arg)
{
	char c = 1;

	while (!atomic_load(&stop)) {
		CHECK_EQ(gmp_chan_send(there, &c), 0);
		CHECK_EQ(gmp_chan_recv(back, &c), 0);
	}
	CHECK_EQ(gmp_chan_close(there), 0);
}

/* CPU time of the process: other programs may delay it, and sysmon, by many milliseconds. */
static int64_t cpu_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void share_p(UNUSED void *arg)
{
	int64_t begin, theirs = 0, now;
	gmp_g *g[2];

	check_skip_on_valgrind("Valgrind runs one thread at a time");
	CHECK((there = gmp_chan_new(1, 0)) != NULL);
	CHECK((back = gmp_chan_new(1, 0)) != NULL);
	g[0] = spawn(answer, NULL);
	g[1] = spawn(ask_until_stop, NULL);
	for (begin = now = cpu_now(); now - begin < SHARED_NS;) {
		int64_t before = cpu_now();

		gmp_checkpoint();
		now = cpu_now();
		if (now - before > CALL_MOST_NS)
			theirs += now - before;
	}
	atomic_store(&stop, 1);
	join(g[0]);
	join(g[1]);
	gmp_chan_free(there);
	gmp_chan_free(back);
	CHECK(theirs > SHARED_NS / 5);
}

/* The pair shares slices of 2 ms (PICK-1). If the G were asked after 10 ms, the pair would
 * have a tenth of the time. */
TEST(g_with_checkpoints_shares_p_with_pair_that_wakes_each_other)
{
	run_procs(1, share_p, NULL);
}
