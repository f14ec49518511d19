/* SPDX-License-Identifier: MIT */
/*
 * Replaces poll, select and epoll_wait.
 *
 *   poll, ppoll      gmp_poll
 *   select, pselect  libc's select without timeout; if nothing is ready, gmp_poll of the same fds,
 *                    and again
 *   epoll_wait       libc's without timeout; if there is no event, wait until the epoll descriptor
 *                    is readable, and again
 *
 * Blocking code: a call with a signal mask (ppoll, pselect, epoll_pwait), since the kernel
 * exchanges the mask and sleeps in one step, so no signal is missed in between (mask.h); a select
 * that reports nothing although gmp_poll does (a peer that has hung up, of which only exceptions
 * are asked for), or has more descriptors than an fd_set has bits; fds that the poller cannot
 * watch.
 *
 * None of the calls restarts after a signal handler.
 */
#include <stdlib.h>
#include <string.h>

#include "posix/call/point.h"
#include "posix/call/times.h"
#include "posix/call/user.h"
#include "posix/io/wait.h"
#include "posix/signal/mask.h"

/* --- poll --- */

static int poll_blocking(struct pollfd *fds, nfds_t n, int64_t deadline)
{
	struct timespec left = time_left(deadline);

	return IO_BLOCKING(LIBC(ppoll)(fds, n, deadline == GMP_FOREVER ? NULL : &left, NULL));
}

static int poll_waiting(struct pollfd *fds, nfds_t n, int64_t deadline)
{
	n = (unsigned)n; /* the kernel takes 32 bits of it */
	int ready = HANDLER_WAIT(gmp_poll(fds, n, deadline));

	switch (ready) {
	case -ETIMEDOUT: return 0;
	case -ECANCELED:
	case -EINTR:
	case -EFAULT: return ready;
	default: /* below 0: the poller cannot watch one, or libc has the error */
		return ready < 0 ? poll_blocking(fds, n, deadline) : ready;
	}
}

/* The deadline of a timeout in ms. */
static int64_t deadline_of(int timeout)
{
	return timeout < 0 ? GMP_FOREVER : gmp_deadline(timeout * GMP_MS);
}

HOOK int poll(struct pollfd *fds, nfds_t n, int timeout)
{
	int64_t deadline = deadline_of(timeout); /* before the caller may yield */

	return (int)IO_POINT(poll_waiting(fds, n, deadline),
			     HOOK_WAITING(LIBC(poll)(fds, n, timeout)));
}

HOOK int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t room)
{
	if (room / sizeof(*fds) < n)
		return LIBC(__poll_chk)(fds, n, timeout, room); /* ends the process */
	return poll(fds, n, timeout);
}

/* The kernel exchanges a mask for the call, or libc has the error. */
static bool is_kernels(const struct timespec *timeout, const sigset_t *mask)
{
	return mask || (timeout && !is_duration(timeout));
}

HOOK int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	bool by_kernel = is_kernels(timeout, mask);
	int64_t deadline = by_kernel ? 0 : deadline_after(timeout);

	return (int)IO_POINT(by_kernel
				     ? IO_SYS(HOOK_MASKED(mask, LIBC(ppoll)(fds, n, timeout, mask)))
				     : poll_waiting(fds, n, deadline),
			     HOOK_WAITING(LIBC(ppoll)(fds, n, timeout, mask)));
}

HOOK int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		     const sigset_t *mask, size_t room)
{
	if (room / sizeof(*fds) < n)
		return LIBC(__ppoll_chk)(fds, n, timeout, mask, room); /* the same */
	return ppoll(fds, n, timeout, mask);
}

/* --- select --- */

enum { SETS = 3 };

/* A call: the caller's sets, and copies of what it asks for. */
struct select_call {
	int n;
	size_t bytes; /* of each set, as the kernel reads them */
	fd_set *sets[SETS];
	fd_set asked[SETS];
	int64_t deadline;
};

/* Returns how many are asked for. */
static nfds_t list_fds(const struct select_call *c, struct pollfd *fds)
{
	static const short events[SETS] = { POLLIN, POLLOUT, POLLPRI };
	nfds_t count = 0;

	for (int fd = 0; fd < c->n; fd++) {
		struct pollfd p = { .fd = fd };

		for (int i = 0; i < SETS; i++)
			if (FD_ISSET(fd, &c->asked[i]))
				p.events |= events[i];
		if (p.events)
			fds[count++] = p;
	}
	return count;
}

/* The caller's sets as they were; the kernel has written to them. */
static void restore_sets(const struct select_call *c)
{
	for (int i = 0; i < SETS; i++)
		if (c->sets[i])
			memcpy(c->sets[i], &c->asked[i], c->bytes);
}

/* A signal that is pending makes it EINTR, which leaves the sets. */
static int select_now(const struct select_call *c)
{
	struct timeval none = { 0, 0 };
	int n;

	do
		n = IO_SYS(LIBC(select)(c->n, c->sets[0], c->sets[1], c->sets[2], &none));
	while (n == -EINTR);
	return n;
}

static int select_blocking(const struct select_call *c)
{
	return IO_REPEATING(({
		struct timespec left = time_left(c->deadline);

		LIBC(pselect)
		(c->n, c->sets[0], c->sets[1], c->sets[2],
		 c->deadline == GMP_FOREVER ? NULL : &left, NULL);
	}));
}

/* Nothing is ready: wait.  The sets of the caller are empty. */
static int select_waiting(const struct select_call *c, struct pollfd *fds, nfds_t count)
{
	int result;

	for (int waits = 0;; waits++) {
		int ready = HANDLER_WAIT(gmp_poll(fds, count, c->deadline));

		if (ready == -ETIMEDOUT)
			return 0;
		restore_sets(c);
		if (ready == -ECANCELED || ready == -EINTR)
			return ready; /* as natively: an error leaves the sets */
		if (ready < 0 || waits > 1)
			return select_blocking(c);
		result = select_now(c);
		if (result)
			return result;
	}
}

/* The result, or -errno.  Of more descriptors than an fd_set has bits, the kernel ignores those for
 * which the table of the process has no room: how many is not known here. */
static int select_call(struct select_call *c)
{
	if ((unsigned)c->n > FD_SETSIZE)
		return select_blocking(c);
	c->bytes = round_up((size_t)c->n, 8 * sizeof(long)) / 8;
	for (int i = 0; i < SETS; i++)
		if (c->sets[i] && !user_read(&c->asked[i], c->sets[i], c->bytes))
			return -EFAULT;
	int result = select_now(c);

	if (result || c->deadline <= gmp_now())
		return result;
	struct pollfd *fds = malloc((size_t)c->n * sizeof(*fds) + 1);

	if (!fds) {
		restore_sets(c);
		return -ENOMEM;
	}
	result = select_waiting(c, fds, list_fds(c, fds));
	free(fds);
	return result;
}

HOOK int select(int n, fd_set *in, fd_set *out, fd_set *except, struct timeval *timeout)
{
	if (!hook_parks())
		return HOOK_WAITING(LIBC(select)(n, in, out, except, timeout));
	int saved = io_begin();
	struct select_call c = { .n = n, .sets = { in, out, except }, .deadline = GMP_FOREVER };

	if (timeout && (timeout->tv_sec < 0 || timeout->tv_usec < 0))
		return HOOK_WAITING(LIBC(select)(n, in, out, except, timeout));
	if (timeout)
		c.deadline = deadline_after(
			&(struct timespec){ timeout->tv_sec + timeout->tv_usec / 1000000,
					    timeout->tv_usec % 1000000 * GMP_US });
	int result = select_call(&c);

	if (timeout && c.deadline != GMP_FOREVER) { /* as Linux does */
		struct timespec left = time_left(c.deadline);

		*timeout = (struct timeval){ left.tv_sec, left.tv_nsec / GMP_US };
	}
	return (int)io_end(result, saved);
}

HOOK int pselect(int n, fd_set *in, fd_set *out, fd_set *except, const struct timespec *timeout,
		 const sigset_t *mask)
{
	struct select_call c = { .n = n, .sets = { in, out, except } };

	return (int)IO_POINT(is_kernels(timeout, mask)
				     ? IO_SYS(HOOK_MASKED(mask, LIBC(pselect)(n, in, out, except,
									      timeout, mask)))
				     : (c.deadline = deadline_after(timeout), select_call(&c)),
			     HOOK_WAITING(LIBC(pselect)(n, in, out, except, timeout, mask)));
}

/* --- epoll --- */

static int ms_until(int64_t deadline)
{
	if (deadline == GMP_FOREVER)
		return -1;
	int64_t left = max_of(deadline - gmp_now(), (int64_t)0);

	return (int)min_of((left + GMP_MS - 1) / GMP_MS, (int64_t)INT32_MAX);
}

/* If another OS thread takes the signal that the kernel woke this one for, poll(2) continues, and
 * epoll_wait(2) returns EINTR.  It is repeated until a handler has run here: the other OS thread
 * belongs to the runtime, and has forwarded the signal (trampoline.c). */
static int epoll_blocking(int fd, struct epoll_event *events, int n, int64_t deadline,
			  const sigset_t *mask)
{
	struct signal_state *s = gmp__signal_state();
	int got;

	s->ran = false;
	do
		got = IO_SYS(HOOK_MASKED(
			mask, LIBC(epoll_pwait)(fd, events, n, ms_until(deadline), mask)));
	while (got == -EINTR && !s->ran);
	return got;
}

/* The result, or -errno. */
static int epoll_waiting(int fd, struct epoll_event *events, int n, int64_t deadline)
{
	struct io_wait w = io_start(fd, POLLIN, 0);

	w.deadline = deadline;
	w.partial = true; /* no restart */
	for (;;) {
		int got = IO_SYS(LIBC(epoll_wait)(fd, events, n, 0));

		if (got || deadline <= gmp_now())
			return got;
		int err = io_park(&w);

		if (err == IO_BLOCK)
			return epoll_blocking(fd, events, n, deadline, NULL);
		if (err && err != -ETIMEDOUT) /* that: what came at the last moment */
			return err;
	}
}

HOOK int epoll_pwait(int fd, struct epoll_event *events, int n, int timeout, const sigset_t *mask)
{
	int64_t deadline = deadline_of(timeout);

	return (int)IO_POINT(mask ? epoll_blocking(fd, events, n, deadline, mask)
				  : epoll_waiting(fd, events, n, deadline),
			     HOOK_WAITING(LIBC(epoll_pwait)(fd, events, n, timeout, mask)));
}

HOOK int epoll_wait(int fd, struct epoll_event *events, int n, int timeout)
{
	return hook_parks() ? epoll_pwait(fd, events, n, timeout, NULL)
			    : HOOK_WAITING(LIBC(epoll_wait)(fd, events, n, timeout));
}
