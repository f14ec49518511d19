/* SPDX-License-Identifier: MIT */
/*
 * Waits of replaced calls for one fd, without a change of O_NONBLOCK and without an adoption.
 *
 * A replaced call attempts the system call so that it does not block (readwrite.c, socket.c).  If
 * that returns EAGAIN, io_not_ready decides: the fd is non-blocking, or the caller parks.  The wait
 * uses the one-shot registration that gmp_poll makes for fds that gmp does not know
 * (netpoll/multi.c), or a persistent one (IOWAIT-9).
 *
 *   caller                                          an event, a replaced close
 *    1 attempt: EAGAIN                               1 lock pd; the registration is disarmed
 *    2 O_NONBLOCK?  return EAGAIN                    2 fire it: fired = true, claim the waiter
 *    3 lock pd; EPOLL_CTL_MOD arms the               3 unlock pd; make it runnable
 *      registration; link the entry; unlock pd
 *    4 lock multi; fired? go to 6
 *    5 park; the commit step unlocks multi
 *    6 unlink the entry (lock pd); from 1
 *
 * Invariants
 *   -         No lost wakeup: step 3 comes after the attempt, and arming reports at once what is
 *             ready by then.  So the wait is level-triggered; of IOWAIT-9, see MULTI-1.
 *   IOWAIT-2  Arming fails with ENOENT if the number has another file than the registered one.  The
 *             new file is then registered.  So code that is not replaced may close and reopen the
 *             number before a wait begins (one without a check is short, IOWAIT-5).  If it does so
 *             during a wait, sysmon finds it within a second (netpoll/check.c), and the call
 *             attempts again, with the number's new file.
 *   -         The entry lies on the caller's stack; MULTI-3 holds.
 *   IOWAIT-4  No busy loop: from the third wait on, if poll(2) reports the fd as ready after an
 *             EAGAIN, the call runs libc's function as blocking code.  Examples: a datagram socket
 *             that was shut down, a message to the full queue of another unix socket.  If the fd
 *             became ready after the attempt, libc's function returns at once.
 *   IOWAIT-5  Step 2 costs two system calls.  If the last check of the fd found it blocking and
 *             without a timeout, and the wait after it was shorter than UNCHECKED_NS
 *             (HINT_SHORT_WAIT), a read parks without the check, for UNCHECKED_NS at most.  Then it
 *             attempts again, and checks before it waits again.  So a stale hint changes no result:
 *             EAGAIN, or data of another file, comes that much later, once.  An fd whose waits are
 *             longer is checked in each: a wait that expires costs two parks and attempts more.
 *   IOWAIT-6  Before the first wait for a number since it was closed (no HINT_WAITED), the call
 *             lets other green threads run and attempts again, unless the fd is non-blocking.  If
 *             it was closed meanwhile (gmp__posix_closes), the call is EBADF, as a wait is.  A
 *             connection for one request often has its answer by then, and needs no registration:
 *             EPOLL_CTL_ADD, EPOLL_CTL_DEL and two checks, some 2.5 us.  Otherwise the second
 *             attempt costs 0.3 us, once.
 *   IOWAIT-7  The kernel reports no event to a writer that waits for room in a unix socket if its
 *             side is shut down, so the replaced shutdown wakes the linked entries.  If shutdown
 *             was after the attempt and before step 3, the writer finds it by an empty send.
 *   IOWAIT-8  A call that left out its first attempt (hint_empty) waits for UNCHECKED_NS at most,
 *             and attempts before it returns EAGAIN or EINTR.  So it returns data that was there
 *             when it began, also if poll(2) does not report it (SO_RCVLOWAT).
 *
 * An fd that gmp knows (gmp_fd_adopt) has another registration: its waits are those of gmp_poll.
 *
 * Cost of a wait: fcntl, getsockopt and epoll_ctl (0.08, 0.15 and 0.15 us; epoll_ctl 1.1 us with
 * 10,000 connections, since it misses the caches); of a persistent registration a second getsockopt
 * in place of epoll_ctl, unless it is a pipe; with HINT_SHORT_WAIT a timer in place of fcntl and
 * getsockopt.
 * Rejected: gmp_poll for all fds: three poll(2) more.  A persistent registration of both
 * directions: a writer's socket reports room after each read of its peer.  EPOLL_CTL_ADD as the
 * check of IOWAIT-2: no cheaper than arming.
 */
#include "posix/io/wait.h"

#include <netinet/in.h>
#include <sys/time.h>

#include "io/poll.h"
#include "netpoll/netpoll.h"

/* WAITS_UNASKED: waits before IOWAIT-4 asks poll(2).  UNCHECKED_NS: IOWAIT-5; a shorter time costs
 * waits that last a check more often, a longer one delays the EAGAIN of a stale hint.  Not
 * measured. */
enum { WAITS_UNASKED = 2, UNCHECKED_NS = MS };

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

int64_t io_deadline(int fd, int timeout)
{
	struct timeval t;
	socklen_t len = sizeof(t);

	if (!timeout || getsockopt(fd, SOL_SOCKET, timeout, &t, &len) < 0 ||
	    (t.tv_sec == 0 && t.tv_usec == 0))
		return GMP_FOREVER;
	if (t.tv_sec > INT32_MAX)
		return GMP_FOREVER;
	return gmp_deadline((int64_t)t.tv_sec * GMP_S + (int64_t)t.tv_usec * GMP_US);
}

int io_option(int fd, int name)
{
	int value = -1;
	socklen_t size = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
}

enum kind io_socket_kind(int fd)
{
	int type = io_option(fd, SO_TYPE);

	return type < 0 ? KIND_FILE : type == SOCK_STREAM ? KIND_STREAM_SOCKET : KIND_SOCKET;
}

/* --- parking --- */

/* A wait for an fd that gmp knows. */
static noinline int park_known(int fd, short events, int64_t deadline)
{
	struct pollfd p = { .fd = fd, .events = events };
	int n = gmp_poll(&p, 1, deadline); /* inside a pair of handler_wait_begin and _end */

	return n < 0 ? n : p.revents & POLLNVAL ? -EBADF : 0;
}

/* IOWAIT-7.  Only for unix sockets: TCP would take a pending error away. */
static bool is_shut_for_writers(int fd)
{
	int saved = errno;
	bool shut = io_option(fd, SO_DOMAIN) == AF_UNIX && io_option(fd, SO_TYPE) == SOCK_STREAM &&
		    LIBC(send)(fd, NULL, 0, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == EPIPE;

	errno = saved;
	return shut;
}

/* --- persistent registrations --- */

/*
 *   IOWAIT-9  From the second call that waits on, reads of a connection (TCP, MPTCP, a unix stream
 *             socket) wait by a persistent registration: steps 3 and 4 are those of
 *             netpoll/multi.c.  There an attempt finds nothing only if poll(2) reports nothing, so
 *             no event is needed for what the attempt left.  Not so a datagram socket that was shut
 *             down (IOWAIT-4).
 *   -         A wait after a check compares the id of the socket (MULTI-7); another one is short,
 *             and may wait for a former connection of the number (IOWAIT-5).  So accept, connect
 *             and close forget the hints of their fd.
 *   -         Reads of a KIND_PIPE use a persistent registration, too.  A pipe has no id, so a wait
 *             after a check arms it again (EPOLL_CTL_MOD), which reports data that is there.  Only
 *             a short wait can miss data that a short read has left, for UNCHECKED_NS; io_probes
 *             ends that.  Files of KIND_STREAM keep the one-shot registration: a short read
 *             of an eventfd with EFD_SEMAPHORE leaves data each time.
 */
static bool may_persist(int fd)
{
	int family = io_option(fd, SO_DOMAIN), protocol = io_option(fd, SO_PROTOCOL);
	bool tcp = (family == AF_INET || family == AF_INET6) &&
		   (protocol == IPPROTO_TCP || protocol == IPPROTO_MPTCP);

	return (tcp || family == AF_UNIX) && io_option(fd, SO_TYPE) == SOCK_STREAM &&
	       io_option(fd, SO_ACCEPTCONN) == 0;
}

/* The record has no persistent registration of this file, or the file has no id.  For a file that
 * must not have one, HINT_PERSISTENT is cleared, and a one-shot registration armed. */
static noinline int begin_persistent(struct multi_entry *e, const struct io_wait *w,
				     struct glist *out)
{
	struct multi_read r = { .seen = w->seen, .socket = NO_SOCKET, .begin = true };

	if (kind_of(w->fd) == KIND_PIPE)
		return multi_link_read(e, w->fd, &r, out);
	r.socket = os_socket_id(w->fd);
	if (!r.socket || !may_persist(w->fd)) {
		hint_set(w->fd, HINT_PERSISTENT, false);
		if (r.socket)
			kind_set(w->fd, KIND_SOCKET); /* do not ask again */
		return multi_link_unknown(e, w->fd, out);
	}
	int result = multi_link_read(e, w->fd, &r, out);

	if (result != MULTI_LINKED || likely(os_socket_id(w->fd) == r.socket))
		return result;
	multi_forget_socket(w->fd); /* the number was closed and reopened since the id was read */
	return MULTI_CHANGED;
}

/* MULTI-7: unless the wait is short, the id is compared; a pipe is armed again instead. */
static int link_read(struct multi_entry *e, const struct io_wait *w, struct glist *out)
{
	struct multi_read r = { .seen = w->seen };

	if (!(hint_of(w->fd) & HINT_PERSISTENT))
		return multi_link_unknown(e, w->fd, out);
	if (w->checked && kind_of(w->fd) != KIND_PIPE)
		r.socket = os_socket_id(w->fd);
	if (w->checked && !r.socket)
		return begin_persistent(e, w, out);
	int result = multi_link_read(e, w->fd, &r, out);

	return likely(result != MULTI_ABSENT) ? result : begin_persistent(e, w, out);
}

/* read: the call, if it reads; NULL: another call. */
static int link_and_wait(int fd, short events, int64_t deadline, int64_t since,
			 const struct io_wait *read)
{
	struct glist out = { 0 };
	struct external unused;
	struct multi_entry e;
	struct multi_wait w = { .multi.sg = self_sudog(&unused), .entries = &e, .n = 1 };
	int result;

	e = (struct multi_entry){ .of = &w.multi, .events = events, .since = since };
	netpoll_add_waiter(); /* POLL-3 */
	result = read ? link_read(&e, read, &out) : multi_link_unknown(&e, fd, &out);
	if (unlikely(out.head || out.external))
		ready_list(&out);
	bool shut = unlikely(events & POLLOUT) && is_shut_for_writers(fd);

	if (likely(result == MULTI_LINKED && !shut)) {
		result = multi_wait(&w, deadline);
		return !result && e.closed ? -EBADF : result;
	}
	multi_unlink_all(&w);
	if (shut || result == MULTI_CHANGED)
		return 0;
	return result == MULTI_AGAIN ? park_known(fd, events, deadline) : result;
}

/* io_park with a deadline that has not passed. */
static int park_one(int fd, short events, int64_t deadline, int64_t since,
		    const struct io_wait *read)
{
	return HANDLER_WAIT(link_and_wait(fd, events, deadline, since, read));
}

int io_park(int fd, short events, int64_t deadline)
{
	int late = too_late(deadline);

	return late ? late : park_one(fd, events, deadline, NEVER, NULL);
}

/* The same for the wait of a call, which begins now. */
static int park_call(struct io_wait *w, int64_t deadline, int64_t now)
{
	if (!w->since)
		w->since = now;
	return park_one(w->fd, w->events, deadline, w->since, w->events == POLLIN ? w : NULL);
}

/* --- the decision --- */

/* IOWAIT-9.  A connection for one request needs no persistent registration. */
static void note_second_wait(int fd)
{
	enum kind kind = kind_of(fd);

	if (kind == KIND_STREAM_SOCKET || kind == KIND_PIPE)
		hint_set(fd, HINT_PERSISTENT, true);
}

/* Note what the check of a read has found. */
static void note_check(const struct io_wait *w)
{
	if (kind_of(w->fd) == KIND_UNKNOWN && w->timeout)
		kind_set(w->fd, io_socket_kind(w->fd));
	else
		note_second_wait(w->fd);
	if (w->has_timeout)
		hint_set(w->fd, HINT_SHORT_WAIT, false);
}

/* Step 2.  Returns 0 or -EAGAIN. */
static int check(struct io_wait *w)
{
	if (io_nonblocking(w->fd)) {
		hint_set(w->fd, HINT_SHORT_WAIT, false);
		return -EAGAIN;
	}
	w->checked = true;
	w->deadline = io_deadline(w->fd, w->timeout);
	w->has_timeout = w->deadline != GMP_FOREVER;
	if (w->events == POLLIN)
		note_check(w);
	return 0;
}

/* A wait after a check.  Returns 0 to attempt again, or an error. */
static int wait_checked(struct io_wait *w)
{
	int64_t begin = gmp_now();
	int err = too_late(w->deadline);

	if (likely(!err))
		err = park_call(w, w->deadline, begin);
	if (w->events == POLLIN && !w->has_timeout && !err)
		hint_set(w->fd, HINT_SHORT_WAIT, gmp_now() - begin < UNCHECKED_NS); /* IOWAIT-5 */
	return err;
}

/* A wait without an attempt has expired: was the socket ready, and no event to come? */
static void note_expired(const struct io_wait *w)
{
	if (w->seen && w->seen == io_seen(w->fd) && io_poll_now(w->fd, POLLIN))
		multi_always_attempt(w->fd);
}

/* IOWAIT-5: one of the first waits.  Returns 0 to attempt again, or an error. */
static int wait_unchecked(struct io_wait *w, bool untried)
{
	note_second_wait(w->fd);
	int64_t now = gmp_now();
	int err = park_call(w, now + UNCHECKED_NS, now);

	w->waits++;
	if (err == -ETIMEDOUT) {
		if (untried)
			note_expired(w);
		hint_set(w->fd, HINT_SHORT_WAIT, false);
		return 0;
	}
	if (err == -EINTR)
		w->has_timeout = io_deadline(w->fd, w->timeout) != GMP_FOREVER;
	return err;
}

/* IOWAIT-6.  Returns 0 to attempt again; -EBADF: closed meanwhile; -EAGAIN: it does not apply. */
static int yield_first(const struct io_wait *w)
{
	if (likely(w->waits || hint_of(w->fd) & HINT_WAITED) || (unsigned)w->fd >= KINDS)
		return -EAGAIN;
	uint8_t closes = ld_rlx(&gmp__posix_closes[w->fd]);

	hint_set(w->fd, HINT_WAITED, true);
	if (!(hint_of(w->fd) & HINT_WAITED) || io_nonblocking(w->fd))
		return -EAGAIN;
	hook_yield();
	return ld_rlx(&gmp__posix_closes[w->fd]) == closes ? 0 : -EBADF;
}

static int decide(struct io_wait *w, bool untried)
{
	int err;

	if (w->flags & MSG_DONTWAIT)
		return -EAGAIN;
	err = yield_first(w);
	if (err != -EAGAIN)
		return err;
	if (w->events == POLLIN && !w->checked && w->waits < WAITS_UNASKED &&
	    hint_of(w->fd) & HINT_SHORT_WAIT) {
		err = wait_unchecked(w, untried);
	} else if (untried) {
		return 0; /* no wait without an attempt or a bound: IOWAIT-8 */
	} else {
		err = w->checked ? 0 : check(w);
		if (err)
			return err;
		if (unlikely(w->waits++ >= WAITS_UNASKED) && io_poll_now(w->fd, w->events))
			return IO_BLOCK;
		err = wait_checked(w);
	}
	switch (err) {
	case -ETIMEDOUT: return -EAGAIN;
	case -EINTR: return !w->has_timeout && !w->partial && handler_restarts() ? 0 : -EINTR;
	case 0:
	case -EBADF:
	case -ECANCELED: return err;
	default: return IO_BLOCK; /* the poller cannot watch it, or has no room */
	}
}

int io_not_ready(struct io_wait *w)
{
	bool untried = w->untried;

	if (unlikely(w->end))
		return w->end;
	w->untried = false;
	int err = decide(w, untried);

	if (unlikely(untried && (err == -EAGAIN || err == -EINTR))) { /* IOWAIT-8 */
		w->end = err;
		err = 0;
	}
	if (!err && w->events == POLLIN)
		w->seen = io_seen(w->fd);
	return err;
}
