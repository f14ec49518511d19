/* SPDX-License-Identifier: MIT */
/*
 * Helpers for the tests that follow Go's public network tests: pairs of connected ends over tcp,
 * unix sockets and pipes.
 */
#ifndef TESTS_RUNTIME_GO_NET_UTIL_H
#define TESTS_RUNTIME_GO_NET_UTIL_H

#include <netdb.h>
#include <sys/uio.h>

#include "io_util.h"

/* One end of a connection: the fds to read and to write, which differ only for a pair of pipes. */
struct conn {
	int r, w;
};

static const char *const kinds[] = { "tcp", "unix", "pipe" };

/* For each kind of connection: FOR_KINDS(kind) { ... } */
#define FOR_KINDS(kind)                                                                            \
	for (const char *kind = kinds[0], *const *kind##_p_ = kinds; kind##_p_ < kinds + 3;        \
	     kind##_p_++, kind = kind##_p_ < kinds + 3 ? *kind##_p_ : NULL)

UNUSED static int adopted(int fd)
{
	CHECK_EQ(gmp_fd_adopt(fd), fd);
	return fd;
}

UNUSED static void connect_ends(const char *kind, struct conn *a, struct conn *b)
{
	int there[2], back[2];

	if (strcmp(kind, "pipe") != 0) {
		make_pair(kind, &a->r, &b->r);
		a->w = a->r;
		b->w = b->r;
		return;
	}
	CHECK_EQ(pipe(there), 0);
	CHECK_EQ(pipe(back), 0);
	*a = (struct conn){ adopted(back[0]), adopted(there[1]) };
	*b = (struct conn){ adopted(there[0]), adopted(back[1]) };
}

UNUSED static void close_end(const struct conn *c)
{
	CHECK_EQ(gmp_close(c->r), 0);
	if (c->w != c->r)
		CHECK_EQ(gmp_close(c->w), 0);
}

UNUSED static void set_deadlines(const struct conn *c, int which, int64_t deadline)
{
	if (which & GMP_READ)
		CHECK_EQ(gmp_fd_set_deadline(c->r, GMP_READ, deadline), 0);
	if (which & GMP_WRITE)
		CHECK_EQ(gmp_fd_set_deadline(c->w, GMP_WRITE, deadline), 0);
}

/* A deadline that is long past, but positive. */
#define LONG_AGO INT64_C(1)

enum { BOTH = GMP_READ | GMP_WRITE };

/* True for the results of a call whose fd or peer is closed meanwhile. */
UNUSED static int is_end(ssize_t n)
{
	return n == 0 || n == -EPIPE || n == -ECONNRESET || n == -ECANCELED || n == -EBADF;
}

UNUSED static void echo_all(void *arg)
{
	const struct conn *c = arg;
	char buf[1024];
	ssize_t n;

	while ((n = gmp_read(c->r, buf, sizeof(buf))) > 0)
		if ((n = gmp_write_all(c->w, buf, (size_t)n)) < 0)
			break;
	CHECK(is_end(n));
}

UNUSED static void drain_all(void *arg)
{
	const struct conn *c = arg;
	char buf[1024];
	ssize_t n;

	while ((n = gmp_read(c->r, buf, sizeof(buf))) > 0)
		;
	CHECK(is_end(n));
}

UNUSED static void stream_all(void *arg)
{
	const struct conn *c = arg;
	char buf[1024];
	ssize_t n;

	memset(buf, 's', sizeof(buf));
	while ((n = gmp_write(c->w, buf, sizeof(buf))) > 0)
		;
	CHECK(is_end(n));
}

/* One round trip; the other end echoes. */
UNUSED static void round_trip(const struct conn *c)
{
	set_deadlines(c, BOTH, GMP_FOREVER);
	say(c->w, "there and back again");
	hear(c->r, "there and back again");
}

#endif
