/* SPDX-License-Identifier: MIT */
/*
 * Tests calls that find no free fd, buffer or memory: they return the errno, leak nothing, and
 * succeed again once the resource is available. The wrappers return the chosen errno.
 *
 * floors 0..6, wrap: socket epoll_ctl connect listen
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/atomic.h"
#include "rt.h"

int __real_socket(int family, int type, int protocol);
int __real_connect(int fd, const struct sockaddr *a, socklen_t n);
int __real_listen(int fd, int backlog);
int __real_epoll_ctl(int epfd, int op, int fd, struct epoll_event *e);
int __wrap_socket(int family, int type, int protocol);
int __wrap_connect(int fd, const struct sockaddr *a, socklen_t n);
int __wrap_listen(int fd, int backlog);
int __wrap_epoll_ctl(int epfd, int op, int fd, struct epoll_event *e);

/* errno of the next call, once; 0: the kernel's result */
static int socket_errno, connect_errno, listen_errno, epoll_errno; /* (a) */

static int fail_once(int *next)
{
	errno = xchg_seq(next, 0);
	return errno != 0;
}

int __wrap_socket(int family, int type, int protocol)
{
	return fail_once(&socket_errno) ? -1 : __real_socket(family, type, protocol);
}

int __wrap_connect(int fd, const struct sockaddr *a, socklen_t n)
{
	return fail_once(&connect_errno) ? -1 : __real_connect(fd, a, n);
}

int __wrap_listen(int fd, int backlog)
{
	return fail_once(&listen_errno) ? -1 : __real_listen(fd, backlog);
}

int __wrap_epoll_ctl(int epfd, int op, int fd, struct epoll_event *e)
{
	return op == EPOLL_CTL_ADD && fail_once(&epoll_errno) ? -1
							      : __real_epoll_ctl(epfd, op, fd, e);
}

/* Returns the lowest free fd: a leaked fd makes it grow. */
static int lowest_fd(void)
{
	int fd = dup(0);

	CHECK(fd >= 0);
	close(fd);
	return fd;
}

static int l;
static char addr[64];

static void talk(void)
{
	int c = gmp_dial("tcp", addr), s = gmp_accept(l);
	char byte;

	CHECK(c >= 0);
	CHECK(s >= 0);
	CHECK_EQ(gmp_write(c, "x", 1), 1);
	CHECK_EQ(gmp_read(s, &byte, 1), 1);
	CHECK_EQ(gmp_close(c), 0);
	CHECK_EQ(gmp_close(s), 0);
}

static uint64_t descriptors(void)
{
	gmp_stats s = GMP_STATS_INIT;

	CHECK_EQ(gmp_stats_get(&s), 0);
	return s.descriptors;
}

static const int errors[] = { EMFILE, ENFILE, ENOBUFS, ENOMEM };

/* Returns the fd that the next open gets. */
static int listen_first(void)
{
	l = gmp_listen("tcp", "127.0.0.1:0");
	CHECK(l >= 0);
	CHECK(gmp_local_addr(l, addr, sizeof(addr)) > 0);
	return lowest_fd();
}

static void fail_each_stage(void *arg)
{
	int *const stages[] = { &socket_errno, &epoll_errno, &connect_errno, &listen_errno };

	(void)arg;
	int fd = listen_first();

	for (unsigned i = 0; i < 4; i++) {
		for (int k = 0; k < 3; k++) {
			st_seq(stages[k], errors[i]);
			CHECK_EQ(gmp_dial("tcp", addr), -errors[i]);
			CHECK_EQ(lowest_fd(), fd);
			if (k == 1) /* connected before the registration failed */
				CHECK_EQ(gmp_close(gmp_accept(l)), 0);
		}
		for (int k = 0; k < 4; k++) {
			if (k == 2)
				continue;
			st_seq(stages[k], errors[i]);
			CHECK_EQ(gmp_listen("tcp", "127.0.0.1:0"), -errors[i]);
			CHECK_EQ(lowest_fd(), fd);
		}
		CHECK_EQ(descriptors(), 1);
		talk();
	}
	CHECK_EQ(gmp_close(l), 0);
}

TEST_PROCS(dial_and_listen_without_fds_or_memory_leak_nothing)
{
	run_procs(procs, fail_each_stage, NULL);
}

static void listen_at_path(void *arg)
{
	int *const stages[] = { &listen_errno, &epoll_errno };
	char dir[] = "/tmp/gmp-test-XXXXXX", path[64];

	(void)arg;
	CHECK(mkdtemp(dir) != NULL);
	snprintf(path, sizeof(path), "%s/socket", dir);
	for (unsigned i = 0; i < 2; i++) {
		st_seq(stages[i], ENOSPC);
		CHECK_EQ(gmp_listen("unix", path), -ENOSPC);
		CHECK_EQ(access(path, F_OK), -1);
		l = gmp_listen("unix", path);
		CHECK(l >= 0);
		/* and the socket file of the first stays */
		CHECK_EQ(gmp_listen("unix", path), -EADDRINUSE);
		CHECK_EQ(access(path, F_OK), 0);
		CHECK_EQ(gmp_close(l), 0);
		CHECK_EQ(unlink(path), 0);
	}
	CHECK_EQ(rmdir(dir), 0);
	st_seq(&listen_errno, EADDRINUSE);
	CHECK_EQ(gmp_listen("unix", "@gmp-exhausted"), -EADDRINUSE); /* abstract: no path */
}

TEST_PROCS(listen_failed_on_unix_path_removes_socket_file)
{
	run_procs(procs, listen_at_path, NULL);
}

static void listen_without_ipv6(void *arg)
{
	(void)arg;
	st_seq(&socket_errno, EAFNOSUPPORT);
	l = gmp_listen("tcp", ":0");
	CHECK(l >= 0);
	CHECK_EQ(ld_seq(&socket_errno), 0);
	CHECK(gmp_local_addr(l, addr, sizeof(addr)) > 0);
	CHECK(strncmp(addr, "0.0.0.0:", 8) == 0);
	CHECK_EQ(gmp_close(l), 0);
}

TEST_PROCS(listen_without_ipv6_binds_ipv4_wildcard)
{
	run_procs(procs, listen_without_ipv6, NULL);
}

static void accept_unregistered(void *arg)
{
	(void)arg;
	int fd = listen_first();

	for (unsigned i = 0; i < 4; i++) {
		int c = gmp_dial("tcp", addr);
		char byte;

		CHECK(c >= 0);
		st_seq(&epoll_errno, errors[i]);
		CHECK_EQ(gmp_accept(l), -errors[i]);
		/* closed: the peer reads the end of the stream */
		CHECK_EQ(gmp_read(c, &byte, 1), 0);
		CHECK_EQ(gmp_close(c), 0);
		CHECK_EQ(lowest_fd(), fd);
		CHECK_EQ(descriptors(), 1);
		talk();
	}
	CHECK_EQ(gmp_close(l), 0);
}

TEST_PROCS(accept_failed_registration_closes_connection)
{
	run_procs(procs, accept_unregistered, NULL);
}

static void adopt_and_open(void *arg)
{
	int p[2], fd;

	(void)arg;
	CHECK_EQ(pipe(p), 0);
	fd = lowest_fd();
	for (unsigned i = 0; i < 4; i++) {
		st_seq(&epoll_errno, errors[i]);
		CHECK_EQ(gmp_fd_adopt(p[0]), -errors[i]);
		CHECK(!(fcntl(p[0], F_GETFL) & O_NONBLOCK)); /* unchanged */
		CHECK_EQ(descriptors(), 0);
		st_seq(&epoll_errno, errors[i]);
		CHECK_EQ(gmp_open("/dev/null", O_RDONLY | O_CLOEXEC, 0), -errors[i]);
		CHECK_EQ(lowest_fd(), fd);
	}
	CHECK_EQ(gmp_fd_adopt(p[0]), p[0]);
	CHECK_EQ(gmp_close(p[0]), 0);
	close(p[1]);
}

TEST_PROCS(fd_adopt_failed_registration_leaves_fd_unchanged)
{
	run_procs(procs, adopt_and_open, NULL);
}

static void wait_unregistered(void *arg)
{
	int status, fd = lowest_fd();
	pid_t pid = fork();

	(void)arg;
	CHECK(pid >= 0);
	if (pid == 0) {
		usleep(20000);
		_exit(7);
	}
	st_seq(&epoll_errno, ENOMEM);
	CHECK_EQ(gmp_waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 7);
	CHECK_EQ(lowest_fd(), fd);
	st_seq(&epoll_errno, 0);
}

TEST_PROCS(waitpid_failed_registration_waits_as_blocking_code)
{
	run_procs(procs, wait_unregistered, NULL);
}

static void notify_signals(void *arg)
{
	gmp_chan *c = gmp_chan_new(sizeof(int), 1);
	int fd = lowest_fd();

	(void)arg;
	st_seq(&epoll_errno, ENOMEM);
	CHECK_EQ(gmp_signal_notify(c, SIGUSR1), -ENOMEM);
	CHECK_EQ(lowest_fd(), fd);
	CHECK_EQ(gmp_signal_notify(c, SIGUSR1), 0);
	CHECK_EQ(kill(getpid(), SIGUSR1), 0);
	CHECK_EQ(gmp_chan_recv(c, &fd), 0);
	CHECK_EQ(fd, SIGUSR1);
	CHECK_EQ(gmp_signal_stop(c, SIGUSR1), 0);
	gmp_chan_free(c);
}

TEST_PROCS(signal_notify_failed_registration_returns_enomem)
{
	run_procs(procs, notify_signals, NULL);
}
