/* SPDX-License-Identifier: MIT */
/*
 * Tests that a dial returns -EAGAIN at once if the system has no free port. For unix sockets EAGAIN
 * means a full backlog, so the dial retries until its deadline. The wrapped connect always fails
 * with EAGAIN.
 *
 * floors 0..6, wrap: connect
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/atomic.h"
#include "rt.h"

int __real_connect(int fd, const struct sockaddr *a, socklen_t n);
int __wrap_connect(int fd, const struct sockaddr *a, socklen_t n);

static int tries; /* (a) */

int __wrap_connect(int fd, const struct sockaddr *a, socklen_t n)
{
	(void)fd, (void)a, (void)n;
	add_seq(&tries, 1);
	errno = EAGAIN;
	return -1;
}

static void dial_all(void *arg)
{
	(void)arg;
	CHECK_EQ(gmp_dial("udp", "127.0.0.1:7"), -EAGAIN);
	CHECK_EQ(gmp_dial("tcp", "127.0.0.1:7"), -EAGAIN);
	CHECK_EQ(ld_seq(&tries), 2);
	CHECK_EQ(gmp_dial_until("unix", "@gmp-full", gmp_deadline(20000000)), -ETIMEDOUT);
	CHECK(ld_seq(&tries) > 3);
}

TEST(dial_without_free_port_returns_eagain_at_once)
{
	CHECK_EQ(gmp_run(dial_all, NULL, NULL), 0);
}
