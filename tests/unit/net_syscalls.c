/* SPDX-License-Identifier: MIT */
/*
 * Tests how many system calls one request and its answer cost on a connection. The wrappers count
 * them.
 *
 * floors 0..6, wrap: epoll_ctl recv send
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/atomic.h"
#include "rt.h"

int __real_epoll_ctl(int ep, int op, int fd, struct epoll_event *e);
ssize_t __real_recv(int fd, void *buf, size_t n, int flags);
ssize_t __real_send(int fd, const void *buf, size_t n, int flags);
int __wrap_epoll_ctl(int ep, int op, int fd, struct epoll_event *e);
ssize_t __wrap_recv(int fd, void *buf, size_t n, int flags);
ssize_t __wrap_send(int fd, const void *buf, size_t n, int flags);

static int controls, receives, sends; /* (a) */

int __wrap_epoll_ctl(int ep, int op, int fd, struct epoll_event *e)
{
	/* key 0 is the eventfd: it wakes an M that sleeps in the poller, as the schedule has it */
	if (!e || e->data.u64 != 0)
		add_seq(&controls, 1);
	return __real_epoll_ctl(ep, op, fd, e);
}

ssize_t __wrap_recv(int fd, void *buf, size_t n, int flags)
{
	add_seq(&receives, 1);
	return __real_recv(fd, buf, n, flags);
}

ssize_t __wrap_send(int fd, const void *buf, size_t n, int flags)
{
	add_seq(&sends, 1);
	return __real_send(fd, buf, n, flags);
}

enum { REQUESTS = 1000 };

static void echo_requests(void *arg)
{
	int l = (int)(intptr_t)arg, fd = gmp_accept(l);
	char buf[64];
	ssize_t n;

	CHECK(fd >= 0);
	while ((n = gmp_read(fd, buf, sizeof(buf))) > 0)
		CHECK_EQ(gmp_write(fd, buf, (size_t)n), n);
	CHECK_EQ(gmp_close(fd), 0);
}

static void send_request(int fd)
{
	char buf[64];

	CHECK_EQ(gmp_write(fd, "request", 7), 7);
	CHECK_EQ(gmp_read(fd, buf, sizeof(buf)), 7);
}

static void count_calls(void *arg)
{
	int l = gmp_listen("tcp", "127.0.0.1:0"), fd;
	char addr[64];
	gmp_g *g;

	(void)arg;
	CHECK(l >= 0);
	CHECK(gmp_local_addr(l, addr, sizeof(addr)) > 0);
	CHECK_EQ(gmp_spawn(&g, echo_requests, (void *)(intptr_t)l, NULL), 0);
	fd = gmp_dial("tcp", addr);
	CHECK(fd >= 0);
	send_request(fd);
	st_seq(&controls, 0);
	st_seq(&receives, 0);
	st_seq(&sends, 0);
	for (int i = 0; i < REQUESTS; i++)
		send_request(fd);
	CHECK_EQ(ld_seq(&controls), 0);
#ifdef GMP_DEBUG_CHECKS /* other builds make these system calls themselves */
	CHECK_EQ(ld_seq(&sends), 2 * REQUESTS);
	/* The client's first recv may precede the answer; a drained socket is not read again. */
	CHECK(ld_seq(&receives) <= 2 * REQUESTS + REQUESTS / 10);
#endif
	CHECK_EQ(gmp_close(fd), 0);
	CHECK_EQ(gmp_join(g), 0);
	CHECK_EQ(gmp_close(l), 0);
}

TEST_PROCS(request_makes_no_epoll_ctl_and_no_empty_recv)
{
	run_procs(procs, count_calls, NULL);
}
