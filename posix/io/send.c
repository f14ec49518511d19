/* SPDX-License-Identifier: MIT */
/*
 * Replaces the calls that send to a socket.
 *
 * Each attempt is made with MSG_DONTWAIT.  IO-3 and IO-4 of readwrite.c hold: a blocking stream
 * socket takes all bytes, and datagrams are never split, since the kernel takes all of one or
 * nothing.
 *
 * Blocking code: MSG_FASTOPEN, which connects.
 */
#include "posix/io/wait.h"

ssize_t message_send_rest(struct io_wait *w, const void *buf, size_t n, ssize_t sent)
{
	size_t done = sent > 0 ? (size_t)sent : 0;

	if (sent > 0 && w->flags & MSG_DONTWAIT)
		return sent;
	while (sent == -EAGAIN || (sent >= 0 && done < n)) {
		const char *rest = (const char *)buf + done;

		w->partial |= done > 0;
		int err = sent == -EAGAIN ? io_not_ready(w) : 0;
		int flags = w->flags | (w->partial ? MSG_NOSIGNAL : 0);

		if (err && err != IO_BLOCK)
			sent = err;
		else if (io_ends(w))
			sent = 0;
		else if (err)
			sent = IO_REPEATING(LIBC(send)(w->fd, rest, n - done, flags));
		else
			sent = message_send(w->fd, rest, n - done, flags | MSG_DONTWAIT);
		done += sent > 0 ? (size_t)sent : 0;
		if (err || sent == 0)
			break;
	}
	return done ? (ssize_t)done : sent;
}

ssize_t message_send_later(struct io_wait *w, const void *buf, size_t n)
{
	return message_send_rest(w, buf, n, 0);
}

ssize_t iov_rest(rest_fn rest, struct io_wait *w, const struct iovec *v, size_t count, size_t done)
{
	size_t skip = done;

	w->partial = true;
	for (size_t i = 0; i < count; i++) {
		size_t from = min_of(skip, v[i].iov_len), n = v[i].iov_len - from;

		skip -= from;
		ssize_t some =
			n && !io_is_closed(w) ? rest(w, (const char *)v[i].iov_base + from, n) : 0;

		done += some > 0 ? (size_t)some : 0;
		if (some < (ssize_t)n)
			break;
	}
	return (ssize_t)done;
}

/* --- one buffer --- */

/* An address in `to` matters to the first attempt only: datagrams have no rest, and streams ignore
 * it. */
static ssize_t sendto_waiting(int fd, const void *buf, size_t n, int flags,
			      const struct sockaddr *to, socklen_t len)
{
	struct io_wait w = io_start(fd, POLLOUT, flags);
	int now = flags | MSG_DONTWAIT;

	if (flags & MSG_FASTOPEN)
		return IO_BLOCKING(LIBC(sendto)(fd, buf, n, flags, to, len));
	ssize_t sent = IO_WAITING(&w,
				  to || len ? IO_SYS(LIBC(sendto)(fd, buf, n, now, to, len))
					    : message_send(fd, buf, n, now),
				  IO_REPEATING(LIBC(sendto)(fd, buf, n, flags, to, len)));

	if (sent > 0 && (size_t)sent < n && !w.blocked)
		sent = message_send_rest(&w, buf, n, sent);
	return sent;
}

HOOK ssize_t send(int fd, const void *buf, size_t n, int flags)
{
	return IO_POINT(sendto_waiting(fd, buf, n, flags, NULL, 0),
			HOOK_REPEATING(LIBC(send)(fd, buf, n, flags)));
}

HOOK ssize_t sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *to,
		    socklen_t len)
{
	return IO_POINT(sendto_waiting(fd, buf, n, flags, to, len),
			HOOK_WAITING(LIBC(sendto)(fd, buf, n, flags, to, len)));
}

/* --- messages --- */

static size_t msg_bytes(const struct msghdr *m)
{
	return iov_bytes(m->msg_iov, m->msg_iovlen);
}

/* An attempt has sent that many bytes of m: send the rest, unless the call does not wait.  Returns
 * how many are sent then. */
static size_t msg_rest(struct io_wait *w, const struct msghdr *m, size_t sent)
{
	if (w->blocked || w->flags & MSG_DONTWAIT || sent >= msg_bytes(m))
		return sent;
	return (size_t)iov_rest(message_send_later, w, m->msg_iov, m->msg_iovlen, sent);
}

static ssize_t sendmsg_waiting(int fd, const struct msghdr *m, int flags)
{
	struct io_wait w = io_start(fd, POLLOUT, flags);

	if (flags & MSG_FASTOPEN)
		return IO_BLOCKING(LIBC(sendmsg)(fd, m, flags));
	ssize_t sent = IO_WAITING(&w, IO_SYS(LIBC(sendmsg)(fd, m, flags | MSG_DONTWAIT)),
				  IO_REPEATING(LIBC(sendmsg)(fd, m, flags)));

	return sent > 0 ? (ssize_t)msg_rest(&w, m, (size_t)sent) : sent;
}

HOOK ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	return IO_POINT(sendmsg_waiting(fd, m, flags), HOOK_REPEATING(LIBC(sendmsg)(fd, m, flags)));
}

/*
 * As in the kernel: message by message, each with the socket's timeout; an error after the first is
 * not reported, and a message that is sent in part is the last.
 */
static ssize_t sendmmsg_waiting(int fd, struct mmsghdr *m, unsigned n, int flags)
{
	struct io_wait w = io_start(fd, POLLOUT, flags);
	unsigned done = 0;
	struct mmsghdr *last;
	ssize_t sent;

	n = min_of(n, 1024u);
	do {
		w.waits = 0;
		w.partial = false;
		sent = IO_WAITING(
			&w, IO_SYS(LIBC(sendmmsg)(fd, m + done, n - done, flags | MSG_DONTWAIT)),
			IO_REPEATING(LIBC(sendmmsg)(fd, m + done, 1, flags)));
		if (sent <= 0)
			break;
		done += (unsigned)sent;
		last = &m[done - 1];
		last->msg_len = (unsigned)msg_rest(&w, &last->msg_hdr, last->msg_len);
	} while (done < n && last->msg_len >= msg_bytes(&last->msg_hdr) && !io_is_closed(&w));
	return done ? (ssize_t)done : sent;
}

HOOK int sendmmsg(int fd, struct mmsghdr *m, unsigned n, int flags)
{
	return (int)IO_POINT(n ? sendmmsg_waiting(fd, m, n, flags)
			       : IO_BLOCKING(LIBC(sendmmsg)(fd, m, n, flags)),
			     HOOK_WAITING(LIBC(sendmmsg)(fd, m, n, flags)));
}
