/* SPDX-License-Identifier: MIT */
/*
 * Tests that gmp_accept reports each errno of accept4 and that the listener stays usable. The
 * wrapped accept4 returns the chosen errno.
 *
 * floors 0..6, wrap: accept4
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/atomic.h"
#include "rt.h"

int __real_accept4(int fd, struct sockaddr *a, socklen_t *n, int flags);
int __wrap_accept4(int fd, struct sockaddr *a, socklen_t *n, int flags);

static int answer;     /* (a) errno of the next accept4, once; 0: the kernel's result */
static int interrupts; /* (a) number of EINTR results before it */

int __wrap_accept4(int fd, struct sockaddr *a, socklen_t *n, int flags)
{
	if (ld_seq(&interrupts)) {
		sub_seq(&interrupts, 1);
		errno = EINTR;
		return -1;
	}
	int err = xchg_seq(&answer, 0);

	if (!err)
		return __real_accept4(fd, a, n, flags);
	errno = err;
	return -1;
}

static void accept_through_errors(void *arg)
{
	static const int errors[] = { EMFILE, ENFILE, ENOBUFS, ENOMEM, ECONNABORTED, EPROTO };
	char addr[64];
	int l = gmp_listen("tcp", "127.0.0.1:0");

	(void)arg;
	CHECK(l >= 0);
	CHECK(gmp_local_addr(l, addr, sizeof(addr)) > 0);
	for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		int c = gmp_dial("tcp", addr), s;

		CHECK(c >= 0);
		st_seq(&answer, errors[i]);
		st_seq(&interrupts, (int)i);
		CHECK_EQ(gmp_accept(l), -errors[i]);
		s = gmp_accept(l); /* the connection is still there */
		CHECK(s >= 0);
		CHECK_EQ(gmp_write_all(c, "x", 1), 1);
		CHECK_EQ(gmp_read(s, addr + 60, 1), 1);
		CHECK_EQ(gmp_close(c), 0);
		CHECK_EQ(gmp_close(s), 0);
	}
	CHECK_EQ(gmp_close(l), 0);
}

TEST_PROCS(accept_error_is_reported_and_listener_stays_usable)
{
	run_procs(procs, accept_through_errors, NULL);
}

static int returned; /* (a) */

static void accept_and_count(void *arg)
{
	int fd = gmp_accept(*(int *)arg);

	if (fd == -ENFILE)
		add_seq(&returned, 1);
	else
		CHECK_EQ(gmp_close(fd), 0);
	add_seq(&returned, 100);
}

/* The error ends one waiter without a connection; both connections go to the other two waiters. */
static void accept_behind_errors(void *arg)
{
	char addr[64];
	int l = gmp_listen("tcp", "127.0.0.1:0"), c[2];

	(void)arg;
	st_seq(&returned, 0);
	CHECK(l >= 0);
	CHECK(gmp_local_addr(l, addr, sizeof(addr)) > 0);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(gmp_go(accept_and_count, &l), 0);
	for (gmp_stats s = GMP_STATS_INIT; s.greens_waiting < 3; gmp_yield())
		CHECK_EQ(gmp_stats_get(&s), 0);
	st_seq(&answer, ENFILE);
	for (int i = 0; i < 2; i++) {
		c[i] = gmp_dial("tcp", addr);
		CHECK(c[i] >= 0);
	}
	while (ld_seq(&returned) < 300)
		gmp_yield();
	CHECK_EQ(ld_seq(&returned), 301);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(gmp_close(c[i]), 0);
	CHECK_EQ(gmp_close(l), 0);
}

TEST_PROCS(accept_error_leaves_connection_to_next_waiter)
{
	run_procs(procs, accept_behind_errors, NULL);
}
