/* SPDX-License-Identifier: MIT */
/* Calls on a file descriptor that wait until it is ready: see fd.c. */
#ifndef GMP_FD_H
#define GMP_FD_H

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "netpoll/netpoll.h"

/* Most bytes per system call.  Linux itself stops 4 KiB short of 2 GiB. */
enum { IO_MOST = 1 << 30 };

/* Arguments of a system call, apart from the fd. */
struct io_args {
	void *buf;
	size_t n;
};

/*
 * One attempt of a call.  Returns a count, a negative errno, -EAGAIN if fd is not ready, or
 * FD_NO_EVENT: not ready, and no event will report when it is.  No errno is as low.
 */
enum { FD_NO_EVENT = -4096 };
typedef ssize_t (*io_call)(int fd, const struct io_args *a);

/*
 * Flags in `how`, next to the side.
 *   FD_SLEEPS   the call may block in the kernel although fd is non-blocking (it reads from a
 *               disk), so each attempt is a blocking section
 *   FD_COUNTED  io_args.n is a number of bytes: a call of 0 bytes attempts once although waiters
 *               are queued
 *   FD_BACKOFF  the call may return FD_NO_EVENT; set by fd_call
 */
enum { FD_SLEEPS = 2, FD_COUNTED = 4, FD_BACKOFF = 8 };

/*
 * Repeat the call while it returns -EAGAIN, and wait for readiness before each repetition.  Returns
 * the result of the call, or -EBADF if gmp does not know fd; -ECANCELED if fd was closed or the
 * caller cancelled meanwhile; -ETIMEDOUT; -ESRCH without a runtime.
 */
ssize_t fd_call(int fd, int how, io_call call, const struct io_args *a, int64_t deadline);

/*
 * Backoff between two attempts if no event reports readiness: sleep 1, 2, 4 ... 16 ms.  *last: the
 * last interval in ns, 0 at first.  Returns 0, -ETIMEDOUT, -ECANCELED or -ESRCH.
 */
int fd_backoff(int64_t *last, int64_t deadline);

/* One attempt without waiting.  Returns as fd_call, or -EAGAIN. */
ssize_t fd_try(int fd, int side, io_call call, const struct io_args *a);

/* --- for waiters other than fd_call --- */

/* Slow path of fd_find: NULL if pd is not open; otherwise a thread has lost the fd (OWNER-2). */
struct polldesc *fd_find_slow(struct polldesc *pd);
/*
 * End a call that was cancelled, or whose registration seq is gone.  In the second case the caller
 * is remembered as a former owner (netpoll/owner.c).  Returns -ECANCELED.
 */
int fd_lost(struct polldesc *pd, uint32_t seq);

/* The record of an open fd, or NULL.  The caller begins a call on it. */
static inline struct polldesc *fd_find(int fd)
{
	struct polldesc *pd = netpoll_find(fd);

	if (likely(pd && (ld_acq(&pd->use) & (PD_OPEN | PD_CLOSING | PD_LOST)) ==
				 PD_OPEN)) /* ORD(pd.use) */
		return pd;
	return pd ? fd_find_slow(pd) : NULL;
}

/* True if pd is open and its registration is still seq, with which the call began. */
static inline bool fd_same(struct polldesc *pd, uint32_t seq)
{
	return (ld_acq(&pd->use) & (PD_OPEN | PD_CLOSING)) == PD_OPEN && /* ORD(pd.use) */
	       ld_rlx(&pd->seq) == seq;
}

/* Begin a use (netpoll_use) if the registration is still seq, with which the call began. */
static inline bool fd_use(struct polldesc *pd, uint32_t seq)
{
	if (!netpoll_use(pd))
		return false;
	if (likely(ld_rlx(&pd->seq) == seq))
		return true;
	netpoll_unuse(pd);
	return false;
}

/*
 * Nonzero if fd is known to be no socket (PD_PLAIN), or chaos shortens its transfers (PD_SHORT).
 * Reads and writes try recv and send first; the first ENOTSOCK is remembered.  Inside a use.
 */
static inline uint8_t fd_plain(int fd)
{
	return ld_rlx(&netpoll_find(fd)->plain);
}

static inline void fd_set_plain(int fd)
{
	st_rlx(&netpoll_find(fd)->plain, (uint8_t)PD_PLAIN);
}

/* Number of bytes in all buffers. */
static inline size_t iov_bytes(const struct iovec *v, size_t count)
{
	size_t n = 0;

	for (size_t i = 0; i < count; i++)
		n += v[i].iov_len;
	return n;
}

/* NETPOLL-3: pass the token of the side on.  The caller has it, from registration seq. */
void fd_pass_token(struct polldesc *pd, uint32_t seq, int side);
/*
 * End a call on registration seq that finds the deadline of the side expired (NETPOLL-6); pass the
 * token on if the caller has it.  Returns -ETIMEDOUT or -ECANCELED.
 */
int fd_expired(struct polldesc *pd, uint32_t seq, int side, bool token);

/*
 * netpoll_open, after a release of the same fd that is under way.  Readies the waiters that it
 * ends.
 */
int fd_open(int fd, unsigned how);

/* --- buffers --- */

/*
 * True if the n bytes at `at` reach into the guard below the stack of the calling G: an array that
 * is larger than the rest of the stack.  The kernel would fill it from its lowest byte, which may
 * belong to a neighbouring stack.  off_stack_blocked: in a blocking section; false on an external
 * thread.
 */
bool off_stack_blocked(const void *at, size_t n);

static inline bool off_stack(const void *at, size_t n)
{
	const struct m *m = getm();

	return unlikely(m ? stack_guard_overlaps(m->curg->stack, at, n) : off_stack_blocked(at, n));
}

/* The same for an address that the kernel writes, whose length is known to the kernel only: an
 * unreadable length is its EFAULT.  An address that begins in the guard reaches into it. */
static inline bool address_off_stack(const void *addr, const void *len)
{
	return off_stack(len, sizeof(socklen_t)) || off_stack(addr, 1);
}

/* Register a new, non-blocking fd with the poller; closes it on failure.  Returns fd or -errno. */
int fd_register(int fd, bool tcp);

/*
 * gmp_close, except that it returns FD_STALE instead of -EBADF if another connection owns fd now: a
 * plain close() would close that one.  No errno is as low, and close(2) may return ESTALE itself.
 */
enum { FD_STALE = -4097 };
int fd_close(int fd);
/* The commit step of a wait in the record pd, an object of wait_on. */
void fd_commit_unlock(void *pd);
/* gmp_close, also if the runtime stops meanwhile: the record ends with it. */
void fd_close_always(int fd);
/* Close fd, which is not registered, and return err. */
int fd_close_with(int fd, int err);

#endif
