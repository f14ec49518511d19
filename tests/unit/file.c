/* SPDX-License-Identifier: MIT */
/*
 * Is a file's number given back only when no call uses it any more, and is what the calls run into
 * hidden?  pread and fsync are held up inside the system call, and broken off by signals.  Without
 * io_uring; unit/uring.c has the same for that way.
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
#include "netpoll.h"
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

static int held = -1, inside, go, broken_off; /* (a) */

ssize_t __wrap_pread(int fd, void *buf, size_t n, off_t at)
{
	if (ld_seq(&broken_off) && add_seq(&broken_off, -1) > 0) {
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
	if (ld_seq(&broken_off) && add_seq(&broken_off, -1) > 0) {
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

static void read_it(void *arg)
{
	char c;

	result = gmp_pread(*(int *)arg, &c, 1, 0);
}

static int closed; /* (a) */

static void close_it(void *arg)
{
	CHECK_EQ(gmp_close(*(int *)arg), 0);
	st_seq(&closed, 1);
}

/* From then on calls are refused; one that came before would be held up too. */
static void until_closing(int fd)
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

static void close_while_read(void *arg)
{
	gmp_g *reader, *closer;
	int fd = open_file();
	char c;

	(void)arg;
	st_seq(&go, 0);
	st_seq(&held, fd);
	CHECK_EQ(gmp_spawn(&reader, read_it, &fd, NULL), 0);
	while (!ld_seq(&inside))
		gmp_yield();
	CHECK_EQ(gmp_spawn(&closer, close_it, &fd, NULL), 0);
	until_closing(fd);
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

static int fd_left;

static void leave_a_read(void *arg)
{
	(void)arg;
	fd_left = open_file();
	st_seq(&go, 0);
	st_seq(&held, fd_left);
	CHECK_EQ(gmp_go(read_it, &fd_left), 0);
	while (!ld_seq(&inside))
		gmp_yield();
	st_seq(&closed, 0);
}

static void *close_at_the_end(void *arg)
{
	(void)arg;
	while (!ld_seq(&inside) || gmp_procs() > 0)
		os_nap(100000);
	os_nap(20000000);
	st_seq(&go, 1);
	return NULL;
}

/* Its use of the record has ended, so the end of the run is not held up by it. */
TEST_PROCS(shutdown_waits_for_running_pread)
{
	pthread_t t;

	CHECK_EQ(pthread_create(&t, NULL, close_at_the_end, NULL), 0);
	run_procs(procs, leave_a_read, NULL);
	CHECK_EQ(ld_seq(&inside), 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK_EQ(close(fd_left), 0);
}

static void broken(void *arg)
{
	int fd = open_file();
	char c;

	(void)arg;
	st_seq(&broken_off, 5);
	CHECK_EQ(gmp_pread(fd, &c, 1, 0), 1);
	st_seq(&broken_off, 5);
	CHECK_EQ(gmp_fsync(fd), 0);
	CHECK_EQ(gmp_close(fd), 0);
}

TEST_PROCS(file_call_interrupted_by_signal_restarts)
{
	run_procs(procs, broken, NULL);
}
