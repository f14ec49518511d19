/* SPDX-License-Identifier: MIT */
/*
 * Replaces the calls that close and duplicate descriptors.
 *
 * An fd that gmp knows (gmp_fd_adopt) is closed by gmp_close, so calls of gmp on it end with
 * -ECANCELED.  dup2 to such a number releases it first.
 *
 * Invariants
 *   -        POSIX does not say what a waiting call returns when another thread closes its fd.
 *            If a caller in HOOK_PARK closes it, the replaced calls of green threads that park on
 *            the number return EBADF, before the number is free.  They do not read another file
 *            that gets the number.  On Linux the OS threads continue to wait on the closed file,
 *            and so do the calls in blocking code.
 *            Any other caller ends no wait.
 *   CLOSE-2  The runtime's own descriptors (os_fd_is_own) count as closed in calls that close:
 *            close of one is EBADF, closefrom and close_range leave it out, and dup2 to one is
 *            EBUSY.  So a program may close all descriptors.  Code that is not replaced may still
 *            close one.
 *   CLOSE-3  The child of a vfork runs as blocking code (vfork.c), so what it closes ends no wait
 *            of the parent.
 */
#include "base/os.h"
#include "posix/call/point.h"
#include "posix/io/wait.h"

/* --- close --- */

/* The number is about to be closed, or to get another file: end the waits of replaced calls. */
static void leave_number(struct polldesc *pd)
{
	struct glist out = { 0 };

	if (!pd)
		return;
	signals_hold(); /* no handler leaves by siglongjmp with the lock of pd: SIGTAB-7 */
	netpoll_close_number(pd, &out);
	if (out.head || out.external)
		ready_list(&out);
	signals_release();
}

static int close_call(int fd)
{
	struct polldesc *pd = netpoll_find(fd);

	leave_number(pd);
	int result = io_is_known(pd) ? HANDLER_WAIT(fd_close(fd)) : -EBADF;

	return result == -EBADF || result == FD_STALE ? IO_BLOCKING(LIBC(close)(fd)) : result;
}

HOOK int close(int fd)
{
	if (unlikely(os_fd_is_own(fd))) {
		errno = EBADF; /* CLOSE-2 */
		return -1;
	}
	return (int)IO_POINT(close_call(fd), HOOK_BLOCKING(LIBC(close)(fd)));
}

/* --- ranges --- */

/* Before a green thread closes the numbers from first to last. */
static void leave_numbers(unsigned first, unsigned last)
{
	int saved = errno;

	for (unsigned n = first; n <= last && n < netpoll_end(); n++) {
		struct polldesc *pd = netpoll_find((int)n);

		if (!pd) {
			n |= POLL_CHUNK - 1; /* skip its chunk */
			continue;
		}
		if (os_fd_is_own((int)n))
			continue;
		leave_number(pd);
		if (io_is_known(pd))
			HANDLER_WAIT(fd_close((int)n));
	}
	errno = saved;
}

/* close_range without the runtime's own: CLOSE-2. */
static int range_of_others(unsigned first, unsigned last, int flags)
{
	for (int own; (own = os_fd_next_own(first)) >= 0; first = (unsigned)own + 1) {
		if ((unsigned)own > last)
			break;
		if ((unsigned)own > first && LIBC(close_range)(first, (unsigned)own - 1, flags))
			return -1;
		if ((unsigned)own == last)
			return 0;
	}
	return LIBC(close_range)(first, last, flags);
}

HOOK int close_range(unsigned first, unsigned last, int flags)
{
	enum hook_how how = hook_how();

	/* A flag of later kernels could close the runtime's own.  With UNSHARE other green threads
	 * of the OS thread would get the new table. */
	if (first > last || flags & ~(CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC) ||
	    (how != HOOK_LIBC && flags & CLOSE_RANGE_UNSHARE)) {
		errno = EINVAL;
		return -1;
	}
	if (!(flags & CLOSE_RANGE_CLOEXEC) && how == HOOK_PARK)
		leave_numbers(first, last);
	return HOOK_BLOCKING(range_of_others(first, last, flags));
}

/* close_range is refused, or Linux is older than 5.9. */
static void close_each(unsigned first)
{
	for (int own; (own = os_fd_next_own(first)) >= 0; first = (unsigned)own + 1)
		for (; first < (unsigned)own; first++)
			LIBC(close)((int)first);
	LIBC(closefrom)((int)first);
}

HOOK void closefrom(int from)
{
	unsigned first = from > 0 ? (unsigned)from : 0;

	if (hook_parks())
		leave_numbers(first, UINT32_MAX);
	if (HOOK_BLOCKING(range_of_others(first, UINT32_MAX, 0)))
		HOOK_BLOCKING((close_each(first), 0));
}

/* --- dup --- */

HOOK int dup(int fd)
{
	return LIBC(dup)(fd); /* it does not block */
}

/* Before dup2 or dup3, which close `to` unless fd is bad.  Returns false with errno set: CLOSE-2.
 * Linux returns EBUSY while another thread is opening the number. */
static bool begin_dup(int fd, int to)
{
	int saved = errno;

	if (unlikely(os_fd_is_own(to)) && fd != to) {
		errno = EBUSY;
		return false;
	}
	if (hook_parks() && fd != to && LIBC(fcntl)(fd, F_GETFD) >= 0) {
		struct polldesc *pd = netpoll_find(to);

		leave_number(pd);
		if (io_is_known(pd))
			HANDLER_WAIT(gmp_fd_release(to));
	}
	errno = saved;
	return true;
}

/* Both close a file. */
HOOK int dup2(int fd, int to)
{
	return begin_dup(fd, to) ? HOOK_BLOCKING(LIBC(dup2)(fd, to)) : -1;
}

HOOK int dup3(int fd, int to, int flags)
{
	if (flags & ~O_CLOEXEC) {
		errno = EINVAL;
		return -1;
	}
	return begin_dup(fd, to) ? HOOK_BLOCKING(LIBC(dup3)(fd, to, flags)) : -1;
}
