/* SPDX-License-Identifier: MIT */
/*
 * Tests that a dial does not report success if no listener exists. TCP connects a socket to itself
 * if the system assigns it the port that it dials. The wrapped connect makes that happen as often
 * as the test wants.
 *
 * floors 0..6, wrap: connect
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/atomic.h"
#include "rt.h"

int __real_connect(int fd, const struct sockaddr *a, socklen_t n);
int __wrap_connect(int fd, const struct sockaddr *a, socklen_t n);

static int self_connects, tries; /* (a) */

int __wrap_connect(int fd, const struct sockaddr *a, socklen_t n)
{
	struct linger reset = { 1, 0 }; /* avoids TIME_WAIT */
	int one = 1;

	if (add_seq(&tries, 1) < ld_seq(&self_connects)) {
		CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
		CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
		CHECK_EQ(bind(fd, a, n), 0);
	}
	return __real_connect(fd, a, n);
}

/* Bind the port without listening: no other socket gets it, and it refuses connections. */
static int take_port(int family, char addr[64])
{
	struct sockaddr_in6 a = { .sin6_family = (sa_family_t)family };
	socklen_t n = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(a);
	int s = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	if (family == AF_INET)
		((struct sockaddr_in *)(void *)&a)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		a.sin6_addr = in6addr_loopback;
	if (s < 0 || setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    bind(s, (struct sockaddr *)&a, n) < 0) {
		CHECK(family == AF_INET6);
		if (s >= 0)
			close(s);
		return -1;
	}
	CHECK_EQ(getsockname(s, (struct sockaddr *)&a, &n), 0);
	snprintf(addr, 64, family == AF_INET ? "127.0.0.1:%d" : "[::1]:%d", ntohs(a.sin6_port));
	return s;
}

static void dial_without_listener(int family)
{
	char addr[64];
	int s = take_port(family, addr);

	if (s < 0) /* no IPv6 */
		return;
	for (int i = 0; i < 4; i++) {
		st_seq(&tries, 0);
		st_seq(&self_connects, i);
		CHECK_EQ(gmp_dial("tcp", addr), -ECONNREFUSED);
		CHECK_EQ(ld_seq(&tries), i < 3 ? i + 1 : 3);
	}
	CHECK_EQ(close(s), 0);
}

static void dial_both(void *arg)
{
	int fd = dup(0);

	(void)arg;
	dial_without_listener(AF_INET);
	dial_without_listener(AF_INET6);
	CHECK_EQ(close(fd), 0);
	CHECK_EQ(dup(0), fd); /* no fd has leaked */
	CHECK_EQ(close(fd), 0);
}

TEST_PROCS(dial_connected_to_itself_is_retried)
{
	run_procs(procs, dial_both, NULL);
}
