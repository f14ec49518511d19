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
#include "posix/call/user.h"
#include "posix/io/wait.h"

/* A part is sent, and the rest must not be: an error is pending that the next call must get (IO-4),
 * or the number is closed. */
static bool ends_here(const struct io_wait *w)
{
	return w->partial && (io_is_closed(w) || io_poll_now(w->fd, POLLOUT) & POLLERR);
}

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
		else if (ends_here(w))
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
static ssize_t park_sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *to,
			   socklen_t len)
{
	int saved = io_begin(), now = flags | MSG_DONTWAIT;
	struct io_wait w = io_start(fd, POLLOUT, flags);

	if (flags & MSG_FASTOPEN)
		return io_end(IO_BLOCKING(LIBC(sendto)(fd, buf, n, flags, to, len)), saved);
	ssize_t sent = IO_WAITING(&w,
				  to || len ? IO_SYS(LIBC(sendto)(fd, buf, n, now, to, len))
					    : message_send(fd, buf, n, now),
				  IO_REPEATING(LIBC(sendto)(fd, buf, n, flags, to, len)));

	if (sent > 0 && (size_t)sent < n && !w.blocked)
		sent = message_send_rest(&w, buf, n, sent);
	return io_end(sent, saved);
}

HOOK ssize_t send(int fd, const void *buf, size_t n, int flags)
{
	return hook_parks() ? park_sendto(fd, buf, n, flags, NULL, 0)
			    : HOOK_REPEATING(LIBC(send)(fd, buf, n, flags));
}

HOOK ssize_t sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *to,
		    socklen_t len)
{
	return hook_parks() ? park_sendto(fd, buf, n, flags, to, len)
			    : HOOK_BLOCKING(LIBC(sendto)(fd, buf, n, flags, to, len));
}

/* --- messages --- */

static size_t msg_bytes(const struct msghdr *m)
{
	return iov_bytes(m->msg_iov, m->msg_iovlen);
}

/* The result, or -errno. */
static ssize_t sendmsg_waiting(struct io_wait *w, const struct msghdr *m)
{
	ssize_t sent = IO_WAITING(w, IO_SYS(LIBC(sendmsg)(w->fd, m, w->flags | MSG_DONTWAIT)),
				  IO_REPEATING(LIBC(sendmsg)(w->fd, m, w->flags)));

	if (sent > 0 && !w->blocked && !(w->flags & MSG_DONTWAIT) && (size_t)sent < msg_bytes(m))
		return iov_rest(message_send_later, w, m->msg_iov, m->msg_iovlen, (size_t)sent);
	return sent;
}

static ssize_t park_sendmsg(int fd, const struct msghdr *m, int flags)
{
	int saved = io_begin();
	struct io_wait w = io_start(fd, POLLOUT, flags);

	if (flags & MSG_FASTOPEN)
		return io_end(IO_REPEATING(LIBC(sendmsg)(fd, m, flags)), saved);
	return io_end(sendmsg_waiting(&w, m), saved);
}

HOOK ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	return hook_parks() ? park_sendmsg(fd, m, flags)
			    : HOOK_REPEATING(LIBC(sendmsg)(fd, m, flags));
}

/*
 * As in the kernel: message by message, each with the socket's timeout; an error after the first is
 * not reported, and a message that is sent in part is the last.
 */
static ssize_t sendmmsg_waiting(int fd, struct mmsghdr *m, unsigned n, int flags)
{
	struct io_wait w = io_start(fd, POLLOUT, flags);
	unsigned done = 0;
	ssize_t result = 0;

	n = min_of(n, 1024u);
	while (done < n && !(done && io_is_closed(&w))) {
		w.waits = 0;
		w.partial = false;
		result = IO_SYS(LIBC(sendmmsg)(fd, m + done, n - done, flags | MSG_DONTWAIT));
		if (result > 0) {
			struct mmsghdr *last = &m[done + (unsigned)result - 1];
			struct msghdr *h = &last->msg_hdr;

			done += (unsigned)result;
			if (last->msg_len >= msg_bytes(h))
				continue;
			if (!(flags & MSG_DONTWAIT))
				last->msg_len =
					(unsigned)iov_rest(message_send_later, &w, h->msg_iov,
							   h->msg_iovlen, last->msg_len);
			if (last->msg_len < msg_bytes(h))
				break;
		} else if (result == -EAGAIN) {
			result = sendmsg_waiting(&w, &m[done].msg_hdr);
			unsigned sent = (unsigned)result;

			if (result >= 0 && !user_write(&m[done].msg_len, &sent, sizeof(sent)))
				result = -EFAULT; /* as the kernel: sent, and not counted */
			if (result < 0)
				break;
			done++;
			if (sent < msg_bytes(&m[done - 1].msg_hdr))
				break;
		} else {
			break;
		}
	}
	return done ? (ssize_t)done : result;
}

HOOK int sendmmsg(int fd, struct mmsghdr *m, unsigned n, int flags)
{
	if (!hook_parks())
		return HOOK_BLOCKING(LIBC(sendmmsg)(fd, m, n, flags));
	int saved = io_begin();
	if (n == 0)
		return HOOK_BLOCKING(LIBC(sendmmsg)(fd, m, n, flags));
	return (int)io_end(sendmmsg_waiting(fd, m, n, flags), saved);
}
