/* SPDX-License-Identifier: MIT */
/*
 * Tests that gmp_close closes the fd only after its last call has ended (NETPOLL-4). A wrapped recv
 * holds a read inside its system call until the closer waits for it.
 *
 * floors 0..6, wrap: recv close gmp_yield
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>

#include "base/atomic.h"
#include "base/os.h"
#include "rt.h"

#define PATIENCE INT64_C(40000000000) /* a bound on failure only */

/* --- the hooks --- */

ssize_t __real_recv(int fd, void *buf, size_t n, int flags);
int __real_close(int fd);
void __real_gmp_yield(void);
ssize_t __wrap_recv(int fd, void *buf, size_t n, int flags);
int __wrap_close(int fd);
void __wrap_gmp_yield(void);

static int held = -1;       /* (a) the fd whose reads are held */
static int inside;          /* (a) a read is inside the system call */
static int closing, yields; /* (a) gmp_close has been called; number of its yields since */
static int pair[2];

static ssize_t recv_held(int fd, void *buf, size_t n, int flags)
{
	int64_t limit = gmp_now() + PATIENCE;

	st_seq(&inside, 1);
	while (ld_seq(&yields) < 3) {
		CHECK(gmp_now() < limit);
		os_yield();
	}
	ssize_t got = __real_recv(fd, buf, n, flags);
	int err = errno;

	st_seq(&inside, 0);
	errno = err;
	return got;
}

ssize_t __wrap_recv(int fd, void *buf, size_t n, int flags)
{
	return fd == ld_seq(&held) ? recv_held(fd, buf, n, flags) : __real_recv(fd, buf, n, flags);
}

int __wrap_close(int fd)
{
	if (fd == ld_seq(&held))
		CHECK(!ld_seq(&inside));
	return __real_close(fd);
}

void __wrap_gmp_yield(void)
{
	if (ld_seq(&closing))
		add_seq(&yields, 1);
	__real_gmp_yield();
}

/* --- the cases --- */

static int done; /* (a) */
static ssize_t result;

static void read_held(void *arg)
{
	char c;

	(void)arg;
	result = gmp_read(pair[0], &c, 1);
	st_seq(&done, 1);
}

static void *read_held_external(void *arg)
{
	read_held(arg);
	return NULL;
}

static void begin(void)
{
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	CHECK_EQ(gmp_fd_adopt(pair[0]), pair[0]);
	st_seq(&closing, 0);
	st_seq(&yields, 0);
	st_seq(&done, 0);
	st_seq(&held, pair[0]);
}

static void wait_inside(void)
{
	int64_t limit = gmp_now() + PATIENCE;

	while (!ld_seq(&inside)) {
		CHECK(gmp_now() < limit);
		gmp_yield();
	}
}

static void close_held(ssize_t expected)
{
	int next[2], number = pair[0];
	char c = 0;

	st_seq(&closing, 1);
	CHECK_EQ(gmp_close(number), 0);
	CHECK(!ld_seq(&inside));
	CHECK_EQ(fcntl(number, F_GETFD), -1); /* closed */
	st_seq(&held, -1);
	/* Data of the new socket with this fd does not reach the reader of the old one. */
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, next), 0);
	CHECK_EQ(next[0], number);
	CHECK_EQ(send(next[1], "y", 1, 0), 1);
	CHECK_EQ(gmp_fd_adopt(number), number);
	while (!ld_seq(&done))
		gmp_yield();
	CHECK_EQ(result, expected);
	CHECK_EQ(gmp_read(number, &c, 1), 1);
	CHECK_EQ(c, 'y');
	CHECK_EQ(gmp_close(number), 0);
	close(next[1]);
	close(pair[1]);
}

static void close_under_external_read(void *arg)
{
	pthread_t reader;

	(void)arg;
	for (int i = 0; i < 10; i++) {
		begin();
		if (i % 2)
			CHECK_EQ(send(pair[1], "x", 1, 0), 1);
		CHECK_EQ(pthread_create(&reader, NULL, read_held_external, NULL), 0);
		wait_inside();
		close_held(i % 2 ? 1 : -ECANCELED);
		CHECK_EQ(pthread_join(reader, NULL), 0);
	}
}

/* Without GMP_DEBUG_CHECKS the runtime makes these system calls itself (base/os_msg.h). */
static void need_libc_calls(void)
{
#ifndef GMP_DEBUG_CHECKS
	check_skip("recv and send are not libc's here");
#endif
}

TEST_PROCS(close_waits_for_read_of_external_thread)
{
	need_libc_calls();
	run_procs(procs, close_under_external_read, NULL);
}

static void close_under_green_read(void *arg)
{
	(void)arg;
	for (int i = 0; i < 10; i++) {
		begin();
		if (i % 2)
			CHECK_EQ(send(pair[1], "x", 1, 0), 1);
		CHECK_EQ(gmp_go(read_held, NULL), 0);
		wait_inside();
		close_held(i % 2 ? 1 : -ECANCELED);
	}
}

TEST(close_waits_for_read_of_green_thread)
{
	need_libc_calls();
	for (int procs = 2; procs <= 4; procs *= 2)
		run_procs(procs, close_under_green_read, NULL);
}

TEST(close_by_external_thread_waits_for_reads)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	need_libc_calls();
	cfg.procs = 2;
	CHECK_EQ(gmp_start(&cfg), 0);
	close_under_green_read(NULL);
	close_under_external_read(NULL);
	CHECK_EQ(gmp_stop(), 0);
}
