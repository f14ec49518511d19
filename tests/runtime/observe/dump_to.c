/* SPDX-License-Identifier: MIT */
/*
 * Tests where gmp_dump can be called and what it can write to: any OS thread, any stack, any file
 * descriptor, also during shutdown.
 */
#include "dump_util.h"

#include <poll.h>
#include <signal.h>

/* --- callers and file descriptors --- */

static void dump_from_here(UNUSED void *arg)
{
	const char *b = block_of("parked");

	check_has(b, address(": channel receive", ch));
	check_has(strstr(b, " inner_call+0x"), " entry_of_all+0x");
	check_has_not(b, "the caller");
}

RT(dump_from_external_thread_shows_parked_g)
{
	struct ext_thread f;
	gmp_g *g;

	begin_chan();
	g = spawn_named("parked", entry_of_all, NULL);
	wait_parked(1);
	ext_thread_start(&f, dump_from_here, NULL);
	ext_thread_join(&f);
	end_chan(g);
}

TEST(dump_before_start_and_after_stop_returns_esrch)
{
	gmp_g *g;

	CHECK_EQ(gmp_dump(2), -ESRCH);
	CHECK_EQ(gmp_start(NULL), 0);
	begin_chan();
	g = spawn_named("parked", entry_of_all, NULL);
	wait_parked(1);
	dump_from_here(NULL);
	end_chan(g);
	CHECK_EQ(gmp_stop(), 0);
	CHECK_EQ(gmp_dump(2), -ESRCH);
}

static void dump_on_small_stack(UNUSED void *arg)
{
	dump_from_here(NULL);
	check_has(block_of("small"), " dump+0x");
}

RT(dump_on_smallest_stack_succeeds)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g, *small;

	begin_chan();
	a.stack_size = 16384;
	a.name = "parked";
	CHECK_EQ(gmp_spawn(&g, entry_of_all, NULL, &a), 0);
	wait_parked(1);
	a.name = "small";
	if (SANITIZED)
		a.stack_size = 65536;
	CHECK_EQ(gmp_spawn(&small, dump_on_small_stack, NULL, &a), 0);
	join(small);
	end_chan(g);
}

static void check_bad_descriptors(UNUSED void *arg)
{
	int fds[2], full_fd;

	CHECK_EQ(gmp_dump(-1), -EBADF);
	CHECK_EQ(gmp_dump(1 << 20), -EBADF);
	CHECK_EQ(pipe(fds), 0);
	CHECK_EQ(gmp_dump(fds[0]), -EBADF);
	close(fds[0]);
	signal(SIGPIPE, SIG_IGN);
	CHECK_EQ(gmp_dump(fds[1]), -EPIPE);
	close(fds[1]);
	CHECK_EQ(gmp_dump(fds[1]), -EBADF);
	full_fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	if (full_fd >= 0)
		CHECK_EQ(gmp_dump(full_fd), -ENOSPC);
	close(full_fd);
}

RT(dump_write_error_is_returned)
{
	struct ext_thread f;

	check_bad_descriptors(NULL);
	ext_thread_start(&f, check_bad_descriptors, NULL);
	ext_thread_join(&f);
}

/* A dump of so many green threads is larger than the buffer of a pipe. */
enum { PIPEFUL = 400 };

static gmp_g *crowd[PIPEFUL];

static void begin_crowd(void)
{
	begin_chan();
	for (int i = 0; i < PIPEFUL; i++)
		crowd[i] = spawn(entry_of_all, NULL);
	wait_parked(PIPEFUL);
}

static void end_crowd(void)
{
	CHECK_EQ(gmp_chan_close(ch), 0);
	for (int i = 0; i < PIPEFUL; i++)
		join(crowd[i]);
	gmp_chan_free(ch);
}

static int pipe_fds[2];
static atomic_long bytes_read;

static void read_slowly(UNUSED void *arg)
{
	char buf[1000];
	ssize_t n;

	while ((n = gmp_read(pipe_fds[0], buf, sizeof(buf))) > 0) {
		atomic_fetch_add(&bytes_read, n);
		gmp_yield();
	}
	CHECK_EQ(n, 0);
}

static void dump_to_pipe(UNUSED void *arg)
{
	CHECK_EQ(gmp_dump_all(pipe_fds[1]), 0);
}

static void check_pipe(int flags, int by_external)
{
	struct ext_thread f;
	gmp_g *reader;

	CHECK_EQ(pipe2(pipe_fds, O_CLOEXEC), 0);
	CHECK_EQ(fcntl(pipe_fds[1], F_SETFL, flags), 0);
	CHECK(gmp_fd_adopt(pipe_fds[0]) >= 0);
	atomic_store(&bytes_read, 0);
	reader = spawn(read_slowly, NULL);
	if (by_external) {
		ext_thread_start(&f, dump_to_pipe, NULL);
		ext_thread_join(&f);
	} else {
		dump_to_pipe(NULL);
	}
	close(pipe_fds[1]);
	join(reader);
	CHECK_EQ(gmp_close(pipe_fds[0]), 0);
	CHECK(atomic_load(&bytes_read) > 65536);
}

RT(dump_to_full_pipe_lets_reader_run)
{
	begin_crowd();
	for (int by_external = 0; by_external < 2; by_external++) {
		check_pipe(0, by_external);
		check_pipe(O_NONBLOCK, by_external);
	}
	end_crowd();
}

/* --- shutdown --- */

static atomic_int dumping;

static void dump_until_killed(UNUSED void *arg)
{
	atomic_fetch_add(&dumping, 1);
	gmp_dump_all(pipe_fds[1]);
	check_failed("a dump into a full pipe has returned");
}

enum { DUMPERS = 20 };

static void end_while_dumping(UNUSED void *arg)
{
	begin_chan();
	for (int i = 0; i < PIPEFUL; i++)
		spawn(entry_of_all, NULL);
	wait_parked(PIPEFUL);
	for (int i = 0; i < DUMPERS; i++)
		spawn(dump_until_killed, NULL);
	WAIT_FOR(atomic_load(&dumping) == DUMPERS);
	WAIT_FOR(poll(&(struct pollfd){ .fd = pipe_fds[1], .events = POLLOUT }, 1, 0) == 0);
	gmp_sleep(5 * MS);
}

/* Each dump has working memory of 100 KiB and more. */
TEST_PROCS(dump_killed_at_shutdown_leaks_nothing)
{
	long kb = 0;

	for (int i = 0; i < 10; i++) {
		CHECK_EQ(pipe2(pipe_fds, O_CLOEXEC), 0);
		atomic_store(&dumping, 0);
		run_cooperative(procs, end_while_dumping, NULL); /* few OS threads: see below */
		gmp_chan_free(ch);
		close(pipe_fds[0]);
		close(pipe_fds[1]);
		if (i == 1)
			kb = proc_kb("/proc/self/status", "VmSize");
	}
	/* with more OS threads the memory that the C library keeps for them varies by more */
	if (!SANITIZED && procs == 1)
		CHECK(proc_kb("/proc/self/status", "VmSize") < kb + 8L * DUMPERS * 100 / 2);
}

static void dump_until_shutdown(UNUSED void *arg)
{
	atomic_fetch_add(&dumping, 1);
	CHECK_EQ(gmp_dump_all(pipe_fds[1]), -ESRCH);
}

static struct ext_thread late;

static void end_during_external_dump(UNUSED void *arg)
{
	begin_chan();
	for (int i = 0; i < PIPEFUL; i++)
		spawn(entry_of_all, NULL);
	wait_parked(PIPEFUL);
	ext_thread_start(&late, dump_until_shutdown, NULL);
	WAIT_FOR(poll(&(struct pollfd){ .fd = pipe_fds[1], .events = POLLOUT }, 1, 0) == 0);
}

TEST_PROCS(dump_by_external_thread_returns_esrch_at_shutdown)
{
	CHECK_EQ(pipe2(pipe_fds, O_CLOEXEC), 0);
	run_procs(procs, end_during_external_dump, NULL);
	ext_thread_join(&late);
	CHECK_EQ(gmp_dump(2), -ESRCH);
}
