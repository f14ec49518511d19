/* SPDX-License-Identifier: MIT */
/*
 * Tests that a gmp_sendfile that blocks in the kernel releases its P and delays close and shutdown,
 * and that an fd is tried as a socket only once. The wrappers hold or count the system calls.
 *
 * floors 0..6, wrap: sendfile send sendmsg
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/atomic.h"
#include "base/os.h"
#include "rt.h"

#define PATIENCE INT64_C(40000000000) /* a bound on failure only */

ssize_t __real_sendfile(int out, int in, off_t *offset, size_t n);
ssize_t __real_send(int fd, const void *buf, size_t n, int flags);
ssize_t __real_sendmsg(int fd, const struct msghdr *m, int flags);
ssize_t __wrap_sendfile(int out, int in, off_t *offset, size_t n);
ssize_t __wrap_send(int fd, const void *buf, size_t n, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags);

static int held;   /* (a) sendfile blocks while it is set, as on a disk */
static int inside; /* (a) number of blocked calls */
static int sends;  /* (a) calls of send and sendmsg */

ssize_t __wrap_sendfile(int out, int in, off_t *offset, size_t n)
{
	int64_t limit = gmp_now() + PATIENCE;

	add_seq(&inside, 1);
	while (ld_seq(&held)) {
		CHECK(gmp_now() < limit);
		usleep(100);
	}
	ssize_t done = __real_sendfile(out, in, offset, n);
	int err = errno;

	sub_seq(&inside, 1);
	errno = err;
	return done;
}

ssize_t __wrap_send(int fd, const void *buf, size_t n, int flags)
{
	add_seq(&sends, 1);
	return __real_send(fd, buf, n, flags);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags)
{
	add_seq(&sends, 1);
	return __real_sendmsg(fd, m, flags);
}

/* Wait until n calls block in sendfile. */
static void wait_inside(int n)
{
	int64_t limit = gmp_now() + PATIENCE;

	while (ld_seq(&inside) != n) {
		CHECK(gmp_now() < limit);
		gmp_yield();
	}
}

/* --- a sendfile that blocks --- */

static int pair[2], in, sent; /* sent: (a) */
static ssize_t result;

static void open_all(void)
{
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	CHECK_EQ(gmp_fd_adopt(pair[0]), pair[0]);
	in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	CHECK(in >= 0);
	st_seq(&held, 1);
	st_seq(&sent, 0);
}

static void send_held(void *arg)
{
	off_t at = 0;

	(void)arg;
	result = gmp_sendfile(pair[0], in, &at, 100);
	if (result == 100)
		CHECK_EQ(at, 100);
	st_seq(&sent, 1);
}

static void run_beside_sendfile(void *arg)
{
	gmp_g *g;

	(void)arg;
	open_all();
	CHECK_EQ(gmp_spawn(&g, send_held, NULL, NULL), 0);
	wait_inside(1); /* with one P: it has been handed to this G */
	gmp_stats s = GMP_STATS_INIT;

	CHECK_EQ(gmp_stats_get(&s), 0);
	CHECK(gmp_procs() > 1 || s.handoffs > 0);
	CHECK_EQ(s.preempted, 0);
	for (int i = 0; i < 100; i++)
		gmp_yield();
	CHECK_EQ(gmp_sleep(1000000), 0);
	CHECK(!ld_seq(&sent));
	st_seq(&held, 0);
	CHECK_EQ(gmp_join(g), 0);
	CHECK_EQ(result, 100);
	CHECK_EQ(gmp_close(pair[0]), 0);
	close(pair[1]);
	close(in);
}

TEST_PROCS(sendfile_that_blocks_releases_p)
{
	run_procs(procs, run_beside_sendfile, NULL);
}

static void close_sender(void *arg)
{
	CHECK_EQ(gmp_close(pair[0]), 0);
	CHECK(ld_seq(&sent) || !ld_seq(&inside));
	st_seq((int *)arg, 1);
}

static void close_during_sendfile(void *arg)
{
	int closed = 0;
	gmp_g *g, *closer;

	(void)arg;
	open_all();
	CHECK_EQ(gmp_spawn(&g, send_held, NULL, NULL), 0);
	wait_inside(1);
	CHECK_EQ(gmp_spawn(&closer, close_sender, &closed, NULL), 0);
	CHECK_EQ(gmp_sleep(3000000), 0);
	CHECK(!ld_seq(&closed)); /* NETPOLL-4 */
	st_seq(&held, 0);
	CHECK_EQ(gmp_join(closer), 0);
	CHECK_EQ(gmp_join(g), 0);
	CHECK_EQ(result, 100);
	close(pair[1]);
	close(in);
}

TEST_PROCS(close_waits_for_blocked_sendfile)
{
	run_procs(procs, close_during_sendfile, NULL);
}

static int wanted; /* (a) the external closer may begin */

static void *close_external(void *arg)
{
	while (!ld_seq(&wanted))
		usleep(100);
	int err = gmp_close(pair[0]);

	CHECK(err == 0 || err == -ESRCH);
	if (err)
		close(pair[0]);
	return arg;
}

static void *release_later(void *arg)
{
	while (!ld_seq(&wanted))
		usleep(100);
	usleep(20000);
	st_seq(&held, 0);
	return arg;
}

static void end_during_sendfile(void *arg)
{
	(void)arg;
	open_all();
	CHECK_EQ(gmp_go(send_held, NULL), 0);
	wait_inside(1);
	st_seq(&wanted, 1);
	CHECK_EQ(gmp_sleep(2000000), 0);
}

/*
 * The sender is killed at shutdown when it returns; an external closer that waits for it is not
 * blocked.
 */
TEST_PROCS(shutdown_waits_for_blocked_sendfile)
{
	pthread_t closer, later;

	CHECK_EQ(pthread_create(&closer, NULL, close_external, NULL), 0);
	CHECK_EQ(pthread_create(&later, NULL, release_later, NULL), 0);
	run_procs(procs, end_during_sendfile, NULL);
	CHECK_EQ(ld_seq(&inside), 0);
	CHECK_EQ(pthread_join(closer, NULL), 0);
	CHECK_EQ(pthread_join(later, NULL), 0);
	close(pair[1]);
	close(in);
}

/* --- not a socket --- */

static void write_four(int fd)
{
	struct iovec v = { (void *)(uintptr_t) "ef", 2 };

	CHECK_EQ(gmp_write(fd, "ab", 2), 2);
	CHECK_EQ(gmp_write_all(fd, "cd", 2), 2);
	CHECK_EQ(gmp_writev(fd, &v, 1), 2);
	CHECK_EQ(gmp_writev(fd, &v, 1), 2);
}

static void write_pipes_and_sockets(void *arg)
{
	int p[2], q[2], s[2];

	(void)arg;
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(pipe2(p, O_CLOEXEC), 0);
		CHECK_EQ(pipe2(q, O_CLOEXEC), 0);
		CHECK_EQ(gmp_fd_adopt(p[1]), p[1]);
		CHECK_EQ(gmp_fd_adopt(q[1]), q[1]);
		st_seq(&sends, 0);
		write_four(p[1]);
		CHECK_EQ(ld_seq(&sends), 1);
		for (int k = 0; k < 3; k++) /* only by writev */
			CHECK_EQ(gmp_writev(q[1], &(struct iovec){ p, sizeof(p) }, 1), sizeof(p));
		CHECK_EQ(ld_seq(&sends), 2);
		/* the new file with this fd is a socket, so it is tried with send */
		CHECK_EQ(gmp_close(p[1]), 0);
		CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
		CHECK(s[0] == p[1] || s[1] == p[1]);
		CHECK_EQ(gmp_fd_adopt(p[1]), p[1]);
		write_four(p[1]);
		CHECK_EQ(ld_seq(&sends), 6);
		CHECK_EQ(gmp_close(p[1]), 0);
		close(s[0] == p[1] ? s[1] : s[0]);
		close(p[0]);
		CHECK_EQ(gmp_close(q[1]), 0);
		close(q[0]);
	}
}

/* Without GMP_DEBUG_CHECKS the runtime makes these system calls itself (base/os_msg.h). */
static void need_libc_calls(void)
{
#ifndef GMP_DEBUG_CHECKS
	check_skip("recv and send are not libc's here");
#endif
}

TEST_PROCS(write_to_pipe_tries_send_once)
{
	need_libc_calls();
	run_procs(procs, write_pipes_and_sockets, NULL);
}
