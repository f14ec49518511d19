/* SPDX-License-Identifier: MIT */
/* How does a call on a descriptor wait until the descriptor is ready?  See fd.c. */
#ifndef GMP_FD_H
#define GMP_FD_H

#include <sys/types.h>

#include "netpoll.h"

enum { IO_MOST = 1 << 30 }; /* bytes a system call; Linux itself stops 4 KiB short of 2 GiB */

/* What a system call needs beside the descriptor. */
struct io_args {
	void *buf;
	size_t n;
};

/* One try: a count, or a negative errno, -EAGAIN when it is not ready.  FD_DEAF: it is not, and no event will
 * say when it is; no errno is as low. */
enum { FD_DEAF = -4096 };
typedef ssize_t (*io_call)(int fd, const struct io_args *a);

/* Beside the side: the call may sleep in the kernel although the descriptor is non-blocking (it reads
 * from a disk), so each try is blocking code. */
enum { FD_SLEEPS = 2 };

/* Call until it says something else than -EAGAIN, waiting in between; -EBADF for a descriptor that
 * is not ours, -ECANCELED if it was closed while we waited, -ESRCH, -ETIMEDOUT. */
ssize_t fd_call(int fd, int how, io_call call, const struct io_args *a, int64_t deadline);

/* For what the kernel tells nobody: a nap of 1, 2, 4 ... 16 ms, of which *nap, 0 at first, remembers the last.
 * 0, or an error: -ETIMEDOUT, -ECANCELED, -ESRCH. */
int fd_nap(int64_t *nap, int64_t deadline);

/* One try of it, by one who does not want to wait: also -EAGAIN. */
ssize_t fd_try(int fd, int side, io_call call, const struct io_args *a);

/* --- for the waiters beside fd_call --- */

/* A record that is not open (NULL), or of a number that a thread has lost: OWNER-2. */
struct polldesc *fd_find_slow(struct polldesc *pd);
/* What a call returns whose registration has gone: -ECANCELED; its caller is remembered (netpoll/owner.c).  A caller that
 * was cancelled, of a registration that is there, is not. */
int fd_lost(struct polldesc *pd, uint32_t seq);

/* The record of an open descriptor, or NULL.  The caller begins a call on it. */
static inline struct polldesc *fd_find(int fd)
{
	struct polldesc *pd = netpoll_find(fd);

	if (likely(pd && (ld_acq(&pd->use) & (PD_OPEN | PD_CLOSING | PD_LOST)) ==
				 PD_OPEN)) /* ORD(pd.use) */
		return pd;
	return pd ? fd_find_slow(pd) : NULL;
}

/* It is open, and still the one that the call began with. */
static inline bool fd_same(struct polldesc *pd, uint32_t seq)
{
	return (ld_acq(&pd->use) & (PD_OPEN | PD_CLOSING)) == PD_OPEN && /* ORD(pd.use) */
	       ld_rlx(&pd->seq) == seq;
}

/* Use, if it is still the registration that the call began with. */
static inline bool fd_use(struct polldesc *pd, uint32_t seq)
{
	if (!netpoll_use(pd))
		return false;
	if (likely(ld_rlx(&pd->seq) == seq))
		return true;
	netpoll_unuse(pd);
	return false;
}

/* Writes begin with what sends no SIGPIPE, and ends in ENOTSOCK on what is no socket: asked once, and
 * remembered.  For one who uses the record. */
static inline uint8_t fd_plain(int fd)
{
	return ld_rlx(&netpoll_find(fd)->plain);
}

static inline void fd_set_plain(int fd)
{
	st_rlx(&netpoll_find(fd)->plain, (uint8_t)PD_PLAIN);
}

/* N3: done with the turn. */
void fd_pass_turn(struct polldesc *pd, int side);
/* N6: what a call returns that comes too late; the turn, if it has it, goes on. */
int fd_late(struct polldesc *pd, int side, bool turn);

/* netpoll_open, after a release of the same number that is under way; runs the waiters that it ends. */
int fd_open(int fd, unsigned how);

/* --- buffers --- */

/* The n bytes at `at` reach into the guard below the stack of the calling green thread: an array that is larger
 * than the rest of the stack.  The kernel would fill it from its lowest byte, which may be a neighbour's.  False
 * on an external thread. */
bool off_stack_blocked(const void *at, size_t n);

static inline bool off_stack(const void *at, size_t n)
{
	const struct m *m = getm();

	return unlikely(m ? stack_guard_overlaps(m->curg->stack, at, n) : off_stack_blocked(at, n));
}

/* Make a fresh, non-blocking descriptor the poller's; closes it on failure.  fd or -errno. */
int fd_register(int fd, bool tcp);

/* gmp_close, except that it returns FD_STALE in place of -EBADF if another connection has the number: a plain close()
 * would then close the fd of that connection.  No errno is as low, and close(2) may say ESTALE itself. */
enum { FD_STALE = -4097 };
int fd_close(int fd);

#endif
