/* SPDX-License-Identifier: MIT */
/*
 * Replaces accept, connect, shutdown and sendfile.
 *
 * accept has no MSG_DONTWAIT, and O_NONBLOCK of the listener is shared with other processes.  So a
 * green thread parks until poll(2) reports a connection, and then calls accept as blocking code.
 * If another process or OS thread takes the connection first, that call blocks its OS thread until
 * the next one comes, as natively; SO_RCVTIMEO then begins again.
 *
 * connect is blocking code: one OS thread per connection that is being established.
 * Rejected for connect
 *   O_NONBLOCK for the time of the call: other processes see it.
 *   A short SO_SNDTIMEO, after which the kernel continues to connect: visible, too, and a process
 *   that is killed or forks in between leaves it behind.
 *   MSG_FASTOPEN with MSG_DONTWAIT: it asks the peer for a cookie, and depends on a sysctl.
 *
 * sendfile to a socket parks until there is room, and then sends CHUNK bytes as blocking code.
 */
#include "netpoll.h"
#include "netpoll/fire.h"
#include "park.h"
#include "posix/cancel.h"
#include "posix/wait.h"

/* Bytes of a file in a section of blocking code: more than the send buffer's usual free third
 * needs few calls, less blocks for a short time.  Not measured. */
enum { CHUNK = 64 << 10 };

static int finish(int result, int saved)
{
	if (unlikely(result == -ECANCELED))
		cancel_waited();
	return (int)io_return(result, saved);
}

/* --- accept --- */

static bool listens(int fd)
{
	int on = 0;
	socklen_t len = sizeof(on);

	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &len) == 0 && on;
}

static int accept_blocking(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	return IO_REPEATING(LIBC(accept4)(fd, addr, len, flags));
}

static int accept_waiting(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	struct io_wait w = { .fd = fd, .events = POLLIN, .timeout = SO_RCVTIMEO };

	while (!io_poll_now(fd, POLLIN)) {
		if (w.waits == 0 && (!listens(fd) || flags & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)))
			break; /* libc has the error */
		int err = io_not_ready(&w);

		if (err && err != IO_BLOCK)
			return err;
		if (err)
			break;
	}
	return accept_blocking(fd, addr, len, flags);
}

static int park_accept(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	int saved = errno;

	cancel_point();
	gmp_checkpoint();
	int result = accept_waiting(fd, addr, len, flags);

	kind_forget(result);
	return finish(result, saved);
}

HOOK int accept(int fd, struct sockaddr *addr, socklen_t *len)
{
	switch (hook_how()) {
	case HOOK_LIBC: return LIBC(accept)(fd, addr, len);
	case HOOK_BLOCK: return HOOK_REPEATING(LIBC(accept)(fd, addr, len));
	case HOOK_PARK: break;
	}
	return park_accept(fd, addr, len, 0);
}

HOOK int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	switch (hook_how()) {
	case HOOK_LIBC: return LIBC(accept4)(fd, addr, len, flags);
	case HOOK_BLOCK: return HOOK_REPEATING(LIBC(accept4)(fd, addr, len, flags));
	case HOOK_PARK: break;
	}
	return park_accept(fd, addr, len, flags);
}

/* --- connect, shutdown --- */

HOOK int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	switch (hook_how()) {
	case HOOK_LIBC: return LIBC(connect)(fd, addr, len);
	case HOOK_PARK: cancel_point(); /* and as the next */
	case HOOK_BLOCK: break;
	}
	kind_forget(fd);
	return HOOK_BLOCKING(LIBC(connect)(fd, addr, len));
}

/* The kernel reports no event to some waiters: writers to a unix socket, readers of datagrams.  So
 * all of them attempt again. */
static void wake_waiters(int fd)
{
	struct polldesc *pd = netpoll_find(fd);
	struct glist out = { 0 };

	if (!pd || !ld_rlx(&pd->multi))
		return;
	lock(&pd->lock, LR_POLLDESC);
	multi_fire(pd, 0, &out);
	unlock(&pd->lock, LR_POLLDESC);
	ready_list(&out);
}

static int park_shutdown(int fd, int how)
{
	int saved = errno;
	struct polldesc *pd = netpoll_find(fd);
	int err = -EBADF;

	if (pd && ld_rlx(&pd->use) & PD_OPEN) /* a hint: gmp_shutdown checks it */
		err = gmp_shutdown(fd, how);
	if (err == -EBADF)
		err = IO_SYS(LIBC(shutdown)(fd, how));
	if (!err)
		wake_waiters(fd);
	return (int)io_return(err, saved);
}

HOOK int shutdown(int fd, int how)
{
	switch (hook_how()) {
	case HOOK_LIBC: return LIBC(shutdown)(fd, how);
	case HOOK_BLOCK: return HOOK_BLOCKING(LIBC(shutdown)(fd, how));
	case HOOK_PARK: break;
	}
	return park_shutdown(fd, how);
}

/* --- sendfile --- */

/* Wait for room.  Returns 0, or the end of the call: IO_BLOCK or -errno. */
static int wait_for_room(struct io_wait *w, size_t done)
{
	int events;

	while (!(events = io_poll_now(w->fd, POLLOUT))) {
		int err = io_not_ready(w);

		if (err)
			return err;
	}
	return done && events & POLLERR ? -EPIPE : 0; /* IO-4: not reported after a part */
}

static ssize_t sendfile_waiting(int to, int from, off_t *at, size_t n)
{
	struct io_wait w = { .fd = to, .events = POLLOUT, .timeout = SO_SNDTIMEO };
	size_t done = 0;

	while (done < n) {
		int err = wait_for_room(&w, done);
		size_t most = min_of(n - done, (size_t)CHUNK);

		if (err && err != IO_BLOCK)
			return done ? (ssize_t)done : err;
		ssize_t some = IO_REPEATING(LIBC(sendfile)(to, from, at, most));

		if (some < 0)
			return done ? (ssize_t)done : some;
		done += (size_t)some;
		if ((size_t)some < most)
			break;
	}
	return (ssize_t)done;
}

static ssize_t park_sendfile(int to, int from, off_t *at, size_t n)
{
	int saved = errno, type;
	socklen_t len = sizeof(type);

	gmp_checkpoint();
	if (getsockopt(to, SOL_SOCKET, SO_TYPE, &type, &len) < 0 || io_nonblocking(to))
		return io_return(IO_REPEATING(LIBC(sendfile)(to, from, at, n)), saved);
	ssize_t done = sendfile_waiting(to, from, at, min_of(n, (size_t)0x7ffff000));

	return io_return(done, saved);
}

HOOK ssize_t sendfile(int to, int from, off_t *at, size_t n)
{
	switch (hook_how()) {
	case HOOK_LIBC: return LIBC(sendfile)(to, from, at, n);
	case HOOK_BLOCK: return HOOK_REPEATING(LIBC(sendfile)(to, from, at, n));
	case HOOK_PARK: break;
	}
	return park_sendfile(to, from, at, n);
}

HOOK ssize_t sendfile64(int to, int from, off64_t *at, size_t n)
{
	return sendfile(to, from, at, n);
}
