/* SPDX-License-Identifier: MIT */
/*
 * Waits of replaced calls for one fd, without a change of O_NONBLOCK and without an adoption.
 *
 * A replaced call attempts the system call so that it does not block (readwrite.c, socket.c).  If
 * that returns EAGAIN, io_not_ready decides: the fd is non-blocking, or the caller parks.  The wait
 * is that of gmp_poll for one fd (netpoll/multi.c).
 *
 *   caller                                          an event, a replaced close or shutdown
 *    1 seen = counts of the record                   1 lock pd; the counts grow
 *    2 attempt: EAGAIN                               2 fire the entry: claim the waiter
 *    3 O_NONBLOCK?  return EAGAIN                    3 unlock pd; make it runnable
 *    4 lock pd; closed since?  EBADF; an event
 *      since? from 1; EPOLL_CTL_MOD arms the
 *      registration; link the entry; unlock pd
 *    5 park; unlink the entry; from 1
 *
 * Invariants
 *   -         No lost wakeup: step 4 comes after the attempt, and arming reports at once what is
 *             ready by then.  So the wait is level-triggered.
 *   -         No call relies on what an earlier one has found: whether the fd blocks, and for how
 *             long, is asked before the first wait of each call, and what it returns is the
 *             kernel's answer to its last attempt.
 *   IOWAIT-2  Arming fails with ENOENT if the number has another file than the registered one.  The
 *             new file is then registered.  So code that is not replaced may close and reopen the
 *             number before a wait begins.  If it does so during a wait, sysmon finds it within a
 *             second (netpoll/check.c), and the call attempts again, with the number's new file.
 *   -         If a close of a caller that parks (close.c) comes after step 1, the call is EBADF
 *             (MULTI-7).
 *   IOWAIT-4  No busy loop: from the third wait on, if poll(2) reports the fd as ready after an
 *             EAGAIN, the call runs libc's function as blocking code.  Examples: a datagram socket
 *             that was shut down, a message to the full queue of another unix socket.  If the fd
 *             became ready after the attempt, libc's function returns at once, except a write of
 *             more than there is room for and MSG_WAITALL.
 *   IOWAIT-7  The kernel reports no event to a writer that waits for room in a unix socket if its
 *             side is shut down, nor to a reader of datagrams.  So a replaced shutdown counts as an
 *             event.
 *
 * Cost of a wait: fcntl, getsockopt and epoll_ctl (0.08, 0.15 and 0.15 us; epoll_ctl 1.1 us with
 * 10,000 connections, since it misses the caches).
 * Rejected: an OS thread in the blocking call; O_NONBLOCK, which other processes and numbers share;
 * a registration for both directions (a writer's socket reports room after each read of its peer);
 * hints of what earlier calls have found, which leave out the attempt, the questions, or the arming
 * (a persistent registration).  Measured, 5 interleaved rounds: without them an echo server with
 * 10,000 connections takes 10 % more CPU time for a request; of tinyproxy, stunnel4 and MariaDB the
 * rates are 6 % higher or more, which is noise.
 */
#include "posix/io/wait.h"

#include <sys/time.h>

/* Waits before IOWAIT-4 asks poll(2).  Not measured. */
enum { WAITS_UNASKED = 2 };

noinline struct polldesc *io_record_new(int fd)
{
	signals_hold(); /* of the table's lock: SIGTAB-7 */
	struct polldesc *pd = netpoll_record(fd);

	signals_release();
	return pd;
}

int io_poll_now(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };
	int saved = errno, n;

	do
		n = LIBC(poll)(&p, 1, 0);
	while (n < 0 && errno == EINTR);
	errno = saved;
	return n > 0 ? p.revents : 0;
}

bool io_nonblocking(int fd)
{
	int flags = LIBC(fcntl)(fd, F_GETFL);

	return flags >= 0 && flags & O_NONBLOCK;
}

int64_t io_deadline(int fd, short events)
{
	int option = events == POLLIN ? SO_RCVTIMEO : SO_SNDTIMEO;
	struct timeval t;
	socklen_t len = sizeof(t);

	if (getsockopt(fd, SOL_SOCKET, option, &t, &len) < 0 || (t.tv_sec == 0 && t.tv_usec == 0) ||
	    t.tv_sec > INT32_MAX)
		return GMP_FOREVER;
	return gmp_deadline((int64_t)t.tv_sec * GMP_S + (int64_t)t.tv_usec * GMP_US);
}

int io_option(int fd, int name)
{
	int value = -1;
	socklen_t size = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
}

bool io_ends(const struct io_wait *w)
{
	return w->partial && (io_is_closed(w) || io_poll_now(w->fd, w->events) & POLLERR);
}

/* The mask ends before a handler runs, which may leave by siglongjmp. */
static int park(struct io_wait *w)
{
	int masked = w->uncut ? gmp_cancel_mask(1) : -EINVAL;
	int err = poll_park(w->fd, w->events, &w->seen, w->since, w->deadline);

	if (!masked)
		gmp_cancel_mask(0);
	return err;
}

int io_park(struct io_wait *w)
{
	if (!w->since)
		w->since = gmp_now();
	int err = HANDLER_WAIT(park(w));

	multi_look_again(&w->seen, netpoll_find(w->fd));
	switch (err) {
	case -EINTR:
		return w->deadline == GMP_FOREVER && !w->partial && handler_restarts() ? 0 : err;
	case 0:
	case -ETIMEDOUT:
	case -EBADF:
	case -ECANCELED: return err;
	default: return io_is_closed(w) ? -EBADF : IO_BLOCK;
	}
}

int io_not_ready(struct io_wait *w)
{
	if (w->flags & MSG_DONTWAIT)
		return -EAGAIN;
	if (w->waits == 0) {
		if (io_nonblocking(w->fd))
			return -EAGAIN;
		w->deadline = io_deadline(w->fd, w->events);
	}
	if (unlikely(w->waits++ >= WAITS_UNASKED) && io_poll_now(w->fd, w->events))
		return io_is_closed(w) ? -EBADF : IO_BLOCK;
	int err = io_park(w);

	return err == -ETIMEDOUT ? -EAGAIN : err;
}
