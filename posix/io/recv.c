/* SPDX-License-Identifier: MIT */
/*
 * Replaces the calls that receive from a socket.
 *
 * Each attempt is made with MSG_DONTWAIT.
 *
 *   MSG_WAITALL        the call waits until the buffer is full; a datagram ends it
 *   MSG_WAITALL with   blocking code: what was received in part could not be given back
 *     MSG_PEEK, or in
 *     recvmsg
 *   MSG_ERRQUEUE,      never wait, as natively
 *     MSG_OOB
 */
#include "posix/call/times.h"
#include "posix/call/user.h"
#include "posix/io/wait.h"

static struct io_wait recv_start(int fd, int flags)
{
	return io_start(fd, POLLIN,
			flags & (MSG_ERRQUEUE | MSG_OOB) ? flags | MSG_DONTWAIT : flags);
}

/* --- one buffer --- */

struct recv_args {
	int fd, flags;
	void *buf;
	size_t n;
	struct sockaddr *from;
	socklen_t *len;
};

static ssize_t recv_blocking(const struct recv_args *a, size_t done)
{
	return IO_REPEATING(LIBC(recvfrom)(a->fd, (char *)a->buf + done, a->n - done, a->flags,
					   a->from, a->len));
}

/* Until something is received. */
static ssize_t recv_some(const struct recv_args *a, struct io_wait *w, size_t done)
{
	char *to = (char *)a->buf + done;
	size_t n = a->n - done;
	int flags = a->flags | MSG_DONTWAIT;

	return IO_WAITING(w,
			  io_ends(w) ? 0
			  : a->from || a->len
				  ? IO_SYS(LIBC(recvfrom)(a->fd, to, n, flags, a->from, a->len))
				  : message_recv(a->fd, to, n, flags),
			  recv_blocking(a, done));
}

static ssize_t recv_all(const struct recv_args *a, struct io_wait *w)
{
	ssize_t got = recv_some(a, w, 0);
	size_t done = got > 0 ? (size_t)got : 0;

	if (got <= 0 || done == a->n || a->flags & MSG_DONTWAIT ||
	    io_option(a->fd, SO_TYPE) != SOCK_STREAM)
		return got;
	w->partial = true;
	while (got > 0 && done < a->n) {
		got = recv_some(a, w, done);
		done += got > 0 ? (size_t)got : 0;
	}
	return (ssize_t)done;
}

static ssize_t recv_waiting(const struct recv_args *a)
{
	struct io_wait w = recv_start(a->fd, a->flags);

	if (!(a->flags & MSG_WAITALL))
		return recv_some(a, &w, 0);
	return a->flags & MSG_PEEK ? recv_blocking(a, 0) : recv_all(a, &w);
}

HOOK ssize_t recv(int fd, void *buf, size_t n, int flags)
{
	return recvfrom(fd, buf, n, flags, NULL, NULL);
}

HOOK ssize_t __recv_chk(int fd, void *buf, size_t n, size_t room, int flags)
{
	if (n > room)
		return LIBC(__recv_chk)(fd, buf, n, room, flags); /* ends the process */
	return recv(fd, buf, n, flags);
}

HOOK ssize_t recvfrom(int fd, void *buf, size_t n, int flags, struct sockaddr *from, socklen_t *len)
{
	return IO_POINT(recv_waiting(&(struct recv_args){ fd, flags, buf, n, from, len }),
			HOOK_REPEATING(LIBC(recvfrom)(fd, buf, n, flags, from, len)));
}

HOOK ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t room, int flags,
			    struct sockaddr *from, socklen_t *len)
{
	if (n > room)
		return LIBC(__recvfrom_chk)(fd, buf, n, room, flags, from, len); /* the same */
	return recvfrom(fd, buf, n, flags, from, len);
}

/* --- messages --- */

static ssize_t recvmsg_waiting(int fd, struct msghdr *m, int flags)
{
	struct io_wait w = recv_start(fd, flags);

	if (flags & MSG_WAITALL)
		return IO_REPEATING(LIBC(recvmsg)(fd, m, flags));
	return IO_WAITING(&w, IO_SYS(LIBC(recvmsg)(fd, m, flags | MSG_DONTWAIT)),
			  IO_REPEATING(LIBC(recvmsg)(fd, m, flags)));
}

HOOK ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	return IO_POINT(recvmsg_waiting(fd, m, flags), HOOK_REPEATING(LIBC(recvmsg)(fd, m, flags)));
}

/* --- many messages --- */

struct recvmmsg_args {
	int fd, flags;
	struct mmsghdr *m;
	unsigned n;
	struct timespec *timeout;
	int64_t deadline; /* of the timeout; GMP_FOREVER: none */
};

/* The kernel updates the caller's timeout if a message was received. */
static ssize_t recvmmsg_end(const struct recvmmsg_args *a, unsigned done)
{
	struct timespec rest = time_left(a->deadline);

	return a->timeout && !user_write(a->timeout, &rest, sizeof(rest)) ? -EFAULT : (ssize_t)done;
}

static ssize_t recvmmsg_blocking(const struct recvmmsg_args *a, unsigned done)
{
	struct timespec rest = time_left(a->deadline);

	return IO_BLOCKING(LIBC(recvmmsg)(a->fd, a->m + done, a->n - done, a->flags,
					  a->timeout ? &rest : NULL));
}

/* Also as there: an error after the first message is not reported, and waits for the next call. */
static ssize_t recvmmsg_waiting(const struct recvmmsg_args *a)
{
	struct io_wait w = recv_start(a->fd, a->flags);
	unsigned done = 0;
	ssize_t got;

	do {
		got = IO_WAITING(&w,
				 io_ends(&w)
					 ? 0
					 : IO_SYS(LIBC(recvmmsg)(a->fd, a->m + done, a->n - done,
								 a->flags | MSG_DONTWAIT, NULL)),
				 recvmmsg_blocking(a, done));
		done += got > 0 ? (unsigned)got : 0;
		w.partial = done > 0;
		w.waits = 0; /* SO_RCVTIMEO is for each message */
			     /* as in the kernel, the clock is read after each receipt */
	} while (got > 0 && done < a->n && !w.blocked && !(a->flags & MSG_WAITFORONE) &&
		 gmp_now() < a->deadline);
	return done ? recvmmsg_end(a, done) : got;
}

static ssize_t recvmmsg_call(int fd, struct mmsghdr *m, unsigned n, int flags,
			     struct timespec *timeout)
{
	struct timespec time;
	bool bad = timeout && (!user_read(&time, timeout, sizeof(time)) || !is_duration(&time));

	if (n == 0 || bad || flags & MSG_WAITALL)
		return IO_BLOCKING(LIBC(recvmmsg)(fd, m, n, flags, timeout));
	return recvmmsg_waiting(&(struct recvmmsg_args){ fd, flags, m, n, timeout,
							 deadline_after(timeout ? &time : NULL) });
}

HOOK int recvmmsg(int fd, struct mmsghdr *m, unsigned n, int flags, struct timespec *timeout)
{
	return (int)IO_POINT(recvmmsg_call(fd, m, n, flags, timeout),
			     HOOK_WAITING(LIBC(recvmmsg)(fd, m, n, flags, timeout)));
}
