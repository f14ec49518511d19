/* SPDX-License-Identifier: MIT */
/*
 * Helpers that make one call on an fd in a thread of its own and record its result and the time of
 * its return.
 */
#ifndef TESTS_RUNTIME_IO_CALLS_H
#define TESTS_RUNTIME_IO_CALLS_H

#include "io_util.h"

struct call {
	int fd;
	atomic_int result, begun;
	int64_t ended;
};

static atomic_int count; /* calls that have returned */

static inline void call_begins(struct call *c)
{
	atomic_store(&c->begun, 1);
}

static inline void call_ends(struct call *c, ssize_t result)
{
	c->ended = gmp_now();
	atomic_store(&c->result, (int)result);
	atomic_fetch_add(&count, 1);
}

static inline void read_it(void *arg)
{
	struct call *c = arg;
	char buf[16];

	call_begins(c);
	call_ends(c, gmp_read(c->fd, buf, sizeof(buf)));
}

static inline void read_it_fully(void *arg)
{
	struct call *c = arg;
	char buf[16];

	call_begins(c);
	call_ends(c, gmp_read_full(c->fd, buf, sizeof(buf)));
}

static inline void accept_it(void *arg)
{
	struct call *c = arg;

	call_begins(c);
	call_ends(c, gmp_accept(c->fd));
}

/* Writes more than the socket buffers hold. */
static inline void fill_it(void *arg)
{
	struct call *c = arg;
	size_t n = 64 << 20;
	char *buf = calloc(1, n);

	CHECK(buf != NULL);
	call_begins(c);
	ssize_t result = gmp_write_all(c->fd, buf, n);

	free(buf);
	call_ends(c, result);
}

#endif
