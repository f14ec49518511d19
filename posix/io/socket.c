/* SPDX-License-Identifier: MIT */
/*
 * Replaces accept, connect, shutdown and sendfile.
 *
 * accept has no MSG_DONTWAIT, and O_NONBLOCK of the listener is shared with other processes.  So a
 * green thread parks until poll(2) reports a connection, and then calls accept as blocking code.
 * If another process or thread takes the connection first, that call blocks its OS thread until the
 * next one comes, as natively; SO_RCVTIMEO then begins again.
 *
 * connect of a TCP socket is attempted with a send timeout of 0 (CONNECT-1), and the green thread
 * parks until the socket is writable.
 *
 *   caller                                           the kernel
 *    1 SO_SNDTIMEO = 0; connect: EINPROGRESS;         sends SYN, continues to connect
 *      SO_SNDTIMEO as it was
 *    2 park until POLLOUT or the program's timeout    established, or an error: POLLOUT
 *    3 TCP_CLOSE?  take the error, disconnect
 *    4 otherwise from 1: 0, or EALREADY if the
 *      wakeup was spurious
 *
 * Invariants
 *   CONNECT-1  The kernel takes a negative time as 0: connect returns EINPROGRESS or EALREADY and
 *              does not wait.  Other processes and OS threads that share the socket see that time
 *              for the length of the attempt, some 20 us.  Green threads attempt one after the
 *              other (attempt_begin): another one would take it for the socket's own.  No handler
 *              of the program runs meanwhile: siglongjmp would leave it behind.  The kernel logs
 *              the first ten such calls since the boot.
 *   -          The second connect returns what a blocking one would, and leaves the socket in the
 *              same state: SO_ERROR is 0, and after an error it may connect again.  It is not made
 *              for a closed socket, which it would connect again: the error may have been taken by
 *              another thread's connect (ECONNABORTED), or shutdown was called.
 *   CONNECT-3  A number that has another socket after the wait is EBADF (the cookie).
 *
 * A unix socket reports no event for room in the queue of the listener, so its connect is blocking
 * code, as for all other sockets: one OS thread per connection that waits.
 *
 * Rejected for connect
 *   O_NONBLOCK for the time of the call: other processes see it, for longer than an attempt.
 *   A SO_SNDTIMEO of 1 us: the kernel rounds it up to a tick, for which the OS thread blocks.
 *   IORING_OP_CONNECT: leaves a refused socket in another state than connect; not everywhere.
 *   MSG_FASTOPEN with MSG_DONTWAIT: it asks the peer for a cookie, and depends on a sysctl.
 *
 * sendfile to a socket parks until there is room, and then sends CHUNK bytes as blocking code.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/time.h>

#include "base/os.h"
#include "posix/call/point.h"
#include "posix/io/wait.h"

/* Bytes of a file in a section of blocking code: more than the send buffer's usual free third
 * needs few calls, less blocks for a short time.  Not measured. */
enum { CHUNK = 64 << 10 };

/* More locks let more threads attempt to connect at once.  Not measured. */
enum { ATTEMPT_LOCKS = 64 };

/* --- accept --- */

/* There is a connection, or libc has the error. */
static bool can_accept(const struct io_wait *w, int flags)
{
	return io_poll_now(w->fd, POLLIN) ||
	       (w->waits == 0 &&
		(io_option(w->fd, SO_ACCEPTCONN) <= 0 || flags & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)));
}

static ssize_t accept_waiting(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	struct io_wait w = io_start(fd, POLLIN, 0);
	ssize_t err = IO_WAITING(&w, can_accept(&w, flags) ? 0 : -EAGAIN, 0);

	return err ? err : IO_REPEATING(LIBC(accept4)(fd, addr, len, flags));
}

HOOK int accept(int fd, struct sockaddr *addr, socklen_t *len)
{
	return accept4(fd, addr, len, 0);
}

HOOK int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	return (int)IO_POINT(accept_waiting(fd, addr, len, flags),
			     HOOK_REPEATING(LIBC(accept4)(fd, addr, len, flags)));
}

/* --- connect --- */

struct connect_args {
	int fd;
	const struct sockaddr *addr;
	socklen_t len;
	uint64_t id; /* CONNECT-3 */
	struct io_wait w;
};

/* True if connect would wait in a way that it can do without; c is filled in. */
static bool connect_parks(struct connect_args *c)
{
	c->id = os_socket_id(c->fd);
	return c->id && io_option(c->fd, SO_PROTOCOL) == IPPROTO_TCP && !io_nonblocking(c->fd);
}

static int connect_blocking(const struct connect_args *c)
{
	return IO_BLOCKING(LIBC(connect)(c->fd, c->addr, c->len));
}

static bool set_send_timeout(int fd, const struct timeval *t)
{
	return setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, t, sizeof(*t)) == 0;
}

/* CONNECT-1, by socket.  Zero bytes are glibc's initializer. */
static pthread_mutex_t attempts[ATTEMPT_LOCKS];

static void attempt_begin(const struct connect_args *c)
{
	signals_hold();
	LIBC(pthread_mutex_lock)(&attempts[c->id % ATTEMPT_LOCKS]);
}

static void attempt_end(const struct connect_args *c)
{
	LIBC(pthread_mutex_unlock)(&attempts[c->id % ATTEMPT_LOCKS]);
	signals_release();
}

/* In the child of a fork no other thread attempts. */
static void forget_attempts(void)
{
	memset(attempts, 0, sizeof(attempts));
}

IN_FORK_CHILD(forget_attempts)

/* Step 1.  Returns 0, -errno, or IO_BLOCK: it cannot be done without a wait. */
static int connect_at_once(const struct connect_args *c)
{
	static const struct timeval at_once = { .tv_sec = -1 };
	struct timeval before; /* another thread may have changed it during the wait */
	socklen_t size = sizeof(before);
	int result = IO_BLOCK;

	attempt_begin(c);
	if (getsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &before, &size) == 0 &&
	    set_send_timeout(c->fd, &at_once)) {
		result = IO_SYS(LIBC(connect)(c->fd, c->addr, c->len));
		set_send_timeout(c->fd, &before);
	}
	attempt_end(c);
	return result;
}

/* Step 3.  Returns 0 if the socket is not closed, otherwise the error. */
static int connect_error(const struct connect_args *c)
{
	static const struct sockaddr nowhere = { .sa_family = AF_UNSPEC };
	uint8_t state = 0;
	int err = 0;
	socklen_t size = sizeof(state), len = sizeof(err);

	if (os_socket_id(c->fd) != c->id)
		return -EBADF;
	if (getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &state, &size) < 0 || state != TCP_CLOSE)
		return 0;
	getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len);
	LIBC(connect)(c->fd, &nowhere, sizeof(nowhere)); /* disconnects */
	return err ? -err : -ECONNABORTED;
}

static int connect_waiting(struct connect_args *c)
{
	attempt_begin(c);
	c->w.deadline = io_deadline(c->fd, POLLOUT);
	attempt_end(c);
	int result = connect_at_once(c), first = result; /* what a timeout returns */

	while (result == -EINPROGRESS || result == -EALREADY) {
		int err = io_park(&c->w);

		if (err == -ETIMEDOUT)
			return first;
		if (!err)
			err = connect_error(c);
		if (err && err != IO_BLOCK)
			return err;
		result = err ? err : connect_at_once(c);
		if (result == -EISCONN) /* another thread's connect has got the 0 */
			return 0;
	}
	return result == IO_BLOCK ? connect_blocking(c) : result;
}

static int connect_call(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct connect_args c = {
		.fd = fd, .addr = addr, .len = len, .w = io_start(fd, POLLOUT, 0)
	};

	return connect_parks(&c) ? connect_waiting(&c) : connect_blocking(&c);
}

HOOK int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	return (int)IO_POINT(connect_call(fd, addr, len),
			     HOOK_WAITING(LIBC(connect)(fd, addr, len)));
}

/* --- shutdown --- */

/* A shutdown counts as an event (IOWAIT-7). */
static int park_shutdown(int fd, int how)
{
	int saved = errno;
	struct glist out = { 0 };

	signals_hold(); /* no handler leaves by siglongjmp with the lock of pd: SIGTAB-7 */
	int err = gmp_shutdown(fd, how);

	signals_release();
	if (err == -EBADF) {
		err = IO_SYS(LIBC(shutdown)(fd, how));
		struct polldesc *pd = netpoll_find(fd);

		signals_hold();
		if (pd && !err)
			netpoll_shut_down(pd, PD_GOES_ON, &out);
		ready_list(&out);
		signals_release();
	}
	return (int)io_return(err, saved);
}

HOOK int shutdown(int fd, int how)
{
	return hook_parks() ? park_shutdown(fd, how) : HOOK_BLOCKING(LIBC(shutdown)(fd, how));
}

/* --- sendfile --- */

/* What poll(2) reports if there is room, or an error. */
static int room(const struct io_wait *w)
{
	int events = io_poll_now(w->fd, POLLOUT);

	return events ? events : -EAGAIN;
}

static ssize_t sendfile_waiting(int to, int from, off_t *at, size_t n)
{
	struct io_wait w = io_start(to, POLLOUT, 0);
	size_t done = 0;

	w.uncut = true;
	while (done < n) {
		size_t most = min_of(n - done, (size_t)CHUNK);
		ssize_t some = IO_WAITING(&w, room(&w), 0);

		if (done && some >= 0 && (some & POLLERR || io_is_closed(&w)))
			break; /* IO-4: not reported after a part */
		if (some >= 0)
			some = IO_REPEATING(LIBC(sendfile)(to, from, at, most));
		if (some < 0)
			return done ? (ssize_t)done : some;
		done += (size_t)some;
		w.partial = done > 0;
		if ((size_t)some < most)
			break;
	}
	return (ssize_t)done;
}

static ssize_t park_sendfile(int to, int from, off_t *at, size_t n)
{
	int saved = errno;

	hook_checkpoint();
	if (io_option(to, SO_TYPE) < 0 || io_nonblocking(to))
		return io_return(IO_REPEATING(LIBC(sendfile)(to, from, at, n)), saved);
	return io_return(sendfile_waiting(to, from, at, min_of(n, RW_MOST)), saved);
}

HOOK ssize_t sendfile(int to, int from, off_t *at, size_t n)
{
	return hook_parks() ? park_sendfile(to, from, at, n)
			    : HOOK_REPEATING(LIBC(sendfile)(to, from, at, n));
}

HOOK_ALIAS(sendfile64, sendfile);
