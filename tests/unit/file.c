/* SPDX-License-Identifier: MIT */
/*
 * Tests that close waits for running calls on a file, and that EINTR is hidden. Wrapped pread and
 * fsync hold the call and simulate signals. Without io_uring: unit/uring.c has the same tests with
 * the ring.
 *
 * floors 0..6, wrap: pread fsync close
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/atomic.h"
#include "base/os.h"
#include "netpoll/netpoll.h"
#include "rt.h"

__attribute__((constructor)) static void without_uring(void)
{
	setenv("GMP_DEBUG", "nouring", 1);
}

ssize_t __real_pread(int fd, void *buf, size_t n, off_t at);
int __real_fsync(int fd);
int __real_close(int fd);
ssize_t __wrap_pread(int fd, void *buf, size_t n, off_t at);
int __wrap_fsync(int fd);
int __wrap_close(int fd);

static int held = -1, inside, go, interrupts; /* (a) */

ssize_t __wrap_pread(int fd, void *buf, size_t n, off_t at)
{
	if (ld_seq(&interrupts) && add_seq(&interrupts, -1) > 0) {
		errno = EINTR;
		return -1;
	}
	if (fd == ld_seq(&held)) {
		CHECK(gmp_self() == NULL); /* in blocking code */
		add_seq(&inside, 1);
		while (!ld_seq(&go))
			os_yield();
		add_seq(&inside, -1);
	}
	return __real_pread(fd, buf, n, at);
}

int __wrap_fsync(int fd)
{
	if (ld_seq(&interrupts) && add_seq(&interrupts, -1) > 0) {
		errno = EINTR;
		return -1;
	}
	return __real_fsync(fd);
}

int __wrap_close(int fd)
{
	if (fd == ld_seq(&held))
		CHECK_EQ(ld_seq(&inside), 0);
	return __real_close(fd);
}

static ssize_t result;

static void read_file(void *arg)
{
	char c;

	result = gmp_pread(*(int *)arg, &c, 1, 0);
}

static int closed; /* (a) */

static void close_file(void *arg)
{
	CHECK_EQ(gmp_close(*(int *)arg), 0);
	st_seq(&closed, 1);
}

static void release_file(void *arg)
{
	CHECK_EQ(gmp_fd_release(*(int *)arg), 0);
}

static void adopt_file(void *arg)
{
	CHECK_EQ(gmp_fd_adopt(*(int *)arg), *(int *)arg);
}

/* Wait until calls are refused; an earlier call would be held, too. */
static void wait_until_closing(int fd)
{
	while (!(ld_seq(&netpoll_find(fd)->use) & PD_CLOSING) && !ld_seq(&closed))
		gmp_yield();
}

static int open_file(void)
{
	char name[] = "/tmp/gmp-unit-XXXXXX";
	int fd = mkstemp(name);

	CHECK(fd >= 0);
	CHECK_EQ(unlink(name), 0);
	CHECK_EQ(pwrite(fd, "x", 1, 0), 1);
	CHECK_EQ(gmp_fd_adopt(fd), fd);
	return fd;
}

/* Starts a G whose read of *fd is held inside the system call until `go`. */
static gmp_g *start_held_read(int *fd)
{
	gmp_g *reader;

	st_seq(&go, 0);
	st_seq(&held, *fd);
	CHECK_EQ(gmp_spawn(&reader, read_file, fd, NULL), 0);
	while (!ld_seq(&inside))
		gmp_yield();
	return reader;
}

static void close_while_read(void *arg)
{
	int fd = open_file();
	gmp_g *reader = start_held_read(&fd), *closer;
	char c;

	(void)arg;
	CHECK_EQ(gmp_spawn(&closer, close_file, &fd, NULL), 0);
	wait_until_closing(fd);
	for (int i = 0; i < 20; i++)
		CHECK_EQ(gmp_sleep(1000000), 0);
	CHECK(!ld_seq(&closed));
	CHECK_EQ(gmp_pread(fd, &c, 1, 0), -EBADF); /* it is closing */
	st_seq(&go, 1);
	CHECK_EQ(gmp_join(reader), 0);
	CHECK_EQ(gmp_join(closer), 0);
	CHECK_EQ(result, 1);
	st_seq(&held, -1);
}

TEST_PROCS(close_waits_for_running_pread_and_other_gs_run)
{
	run_procs(procs, close_while_read, NULL);
}

static uint64_t switches(void)
{
	gmp_stats s = GMP_STATS_INIT;

	CHECK_EQ(gmp_stats_get(&s), 0);
	return s.switches;
}

/* A read may never return: a release (or close) that waits for it, and an adoption of the number,
 * sleep for longer and longer, also if their callers are cancelled. */
static void wait_for_stuck_read(void *arg)
{
	int fd = open_file();
	gmp_g *reader = start_held_read(&fd), *waiting[2];

	(void)arg;
	CHECK_EQ(gmp_spawn(&waiting[0], release_file, &fd, NULL), 0);
	wait_until_closing(fd);
	CHECK_EQ(gmp_spawn(&waiting[1], adopt_file, &fd, NULL), 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(gmp_cancel(waiting[i]), 0);
	uint64_t before = switches();

	CHECK_EQ(gmp_sleep(300000000), 0);
	CHECK(switches() - before < 300); /* sleeps of 50 us alone: 6,000 */
	st_seq(&go, 1);
	CHECK_EQ(gmp_join(reader), 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(gmp_join(waiting[i]), 0);
	st_seq(&held, -1);
	CHECK_EQ(gmp_close(fd), 0);
}

TEST_PROCS(release_and_adopt_sleep_while_read_is_stuck)
{
	run_procs(procs, wait_for_stuck_read, NULL);
}

static int fd_left;

static void leave_read(void *arg)
{
	(void)arg;
	fd_left = open_file();
	st_seq(&go, 0);
	st_seq(&held, fd_left);
	CHECK_EQ(gmp_go(read_file, &fd_left), 0);
	while (!ld_seq(&inside))
		gmp_yield();
	st_seq(&closed, 0);
}

static void *release_after_stop(void *arg)
{
	(void)arg;
	while (!ld_seq(&inside) || gmp_procs() > 0)
		os_nap(100000);
	os_nap(20000000);
	st_seq(&go, 1);
	return NULL;
}

/* The reader has ended its use of the record, so it does not delay the end of the run. */
TEST_PROCS(shutdown_waits_for_running_pread)
{
	pthread_t t;

	CHECK_EQ(pthread_create(&t, NULL, release_after_stop, NULL), 0);
	run_procs(procs, leave_read, NULL);
	CHECK_EQ(ld_seq(&inside), 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK_EQ(close(fd_left), 0);
}

static void interrupt_calls(void *arg)
{
	int fd = open_file();
	char c;

	(void)arg;
	st_seq(&interrupts, 5);
	CHECK_EQ(gmp_pread(fd, &c, 1, 0), 1);
	st_seq(&interrupts, 5);
	CHECK_EQ(gmp_fsync(fd), 0);
	CHECK_EQ(gmp_close(fd), 0);
}

TEST_PROCS(file_call_interrupted_by_signal_restarts)
{
	run_procs(procs, interrupt_calls, NULL);
}
