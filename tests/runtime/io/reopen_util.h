/* SPDX-License-Identifier: MIT */
/*
 * Helpers that wait for an fd in a G while the fd is closed and reopened by system calls, without
 * gmp.
 */
#ifndef GMP_TEST_REOPEN_UTIL_H
#define GMP_TEST_REOPEN_UTIL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdbool.h>
#include <sys/syscall.h>

#include "io_util.h"

struct wait {
	int fd, events;
	int64_t deadline, ended;
	atomic_int begun, done, result;
};

static inline void wait_it(void *arg)
{
	struct wait *w = arg;

	atomic_store(&w->begun, 1);
	atomic_store(&w->result, gmp_fd_wait(w->fd, w->events, w->deadline));
	w->ended = gmp_now();
	atomic_store(&w->done, 1);
}

static inline void read_it(void *arg)
{
	struct wait *w = arg;
	char buf[16];

	atomic_store(&w->begun, 1);
	atomic_store(&w->result, (int)gmp_read(w->fd, buf, sizeof(buf)));
	w->ended = gmp_now();
	atomic_store(&w->done, 1);
}

static inline gmp_g *start(gmp_fn fn, struct wait *w, int fd, int events)
{
	*w = (struct wait){ .fd = fd, .events = events, .deadline = gmp_deadline(PATIENCE) };
	return spawn(fn, w);
}

/*
 * A raw system call: ThreadSanitizer would report close() here as a race, which this test intends.
 */
static inline void plain_close(int fd)
{
	CHECK_EQ(syscall(SYS_close, fd), 0);
}

static inline void plain_dup2(int from, int to)
{
	CHECK_EQ(syscall(SYS_dup3, from, to, 0), to);
}

static inline void plain_write(int fd)
{
	CHECK_EQ(write(fd, "x", 1), 1);
}

static inline void plain_pair(int s[2])
{
	CHECK_EQ(syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s), 0);
}

/* Opens a connected pair with one end at the given fd number; *peer is the other end. */
static inline void open_at(int number, int *peer)
{
	int s[2];

	plain_pair(s);
	if (s[1] == number) {
		s[1] = s[0];
		s[0] = number;
	} else if (s[0] != number) {
		plain_dup2(s[0], number);
		CHECK_EQ(close(s[0]), 0);
	}
	*peer = s[1];
}

/* Checks that a write by the peer ends the wait of another G on fd. */
static inline void check_wait_ends(int fd, int peer)
{
	struct wait w;
	gmp_g *g = start(wait_it, &w, fd, GMP_READ);

	wait_parked(1);
	plain_write(peer);
	join(g);
	CHECK_EQ(w.result, GMP_READ);
}

static inline int adopt_pair(int *peer)
{
	int s[2];

	plain_pair(s);
	CHECK_EQ(gmp_fd_adopt(s[0]), s[0]);
	*peer = s[1];
	return s[0];
}

#endif
