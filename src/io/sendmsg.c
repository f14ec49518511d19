/* SPDX-License-Identifier: MIT */
/*
 * Socket calls with several buffers, messages with addresses and control data, and sendfile.
 *
 * Each is an fd_call whose arguments follow the struct io_args that fd.c knows.  io_args.n is
 * the length that a short read is compared with (the socket is drained); 0 if the comparison is
 * meaningless, as with MSG_PEEK.
 *
 * sendfile reads from a disk what is not in memory, and blocks for that whatever the socket is, so
 * each attempt is a blocking section.  That costs nanoseconds if it does not block.
 * Rejected: asking the kernel first (mincore, a read with RWF_NOWAIT): a system call per attempt,
 * and the answer may be stale.
 *
 * A message to a unix socket whose queue is full is retried with backoff (FD_NO_EVENT), outside the
 * queue of waiters for room in their own socket: no event ends that wait, and a writer to another
 * peer need not wait at all.  So a close, a changed deadline, or room may be noticed 16 ms late.
 *
 * MSG_DONTWAIT: the caller does not want to wait.  One attempt, and -EAGAIN.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/os.h"
#include "io/fd.h"

/* --- many buffers --- */

struct vec_args {
	struct io_args io;
	int count;
};

static ssize_t call_readv(int fd, const struct io_args *a)
{
	int count = container_of(a, const struct vec_args, io)->count;

	return os_retry(readv(fd, a->buf, count));
}

static ssize_t writev_plain(int fd, const struct io_args *a, int count)
{
	struct os_sigpipe sigpipe;

	os_sigpipe_hold(&sigpipe);
	ssize_t n = os_retry(writev(fd, a->buf, count));

	os_sigpipe_drop(&sigpipe, os_sigpipe_due(n, a->n));
	return n;
}

static ssize_t call_writev(int fd, const struct io_args *a)
{
	int count = container_of(a, const struct vec_args, io)->count;
	struct msghdr m = { .msg_iov = a->buf, .msg_iovlen = (size_t)count };

	if (fd_plain(fd) || a->n == 0) /* 0 bytes as a message would be an empty datagram */
		return writev_plain(fd, a, count);
	ssize_t n = os_retry(sendmsg(fd, &m, MSG_NOSIGNAL));

	if (n != -ENOTSOCK)
		return n;
	fd_set_plain(fd);
	return writev_plain(fd, a, count);
}

/* True if the list or one of its buffers reaches into the guard (off_stack). */
static bool iov_off_stack(const struct iovec *v, size_t count)
{
	if (off_stack(v, count * sizeof(*v)))
		return true;
	for (size_t i = 0; i < count; i++)
		if (off_stack(v[i].iov_base, v[i].iov_len))
			return true;
	return false;
}

static ssize_t vec_call(int fd, int side, io_call call, const struct iovec *v, int count)
{
	if (count < 0 || count > IOV_MAX || (count && !v))
		return -EINVAL;
	if (iov_off_stack(v, (size_t)count))
		return -EFAULT;
	struct vec_args a = { { (void *)(uintptr_t)v, iov_bytes(v, (size_t)count) }, count };

	if (a.io.n == 0) /* nothing to wait for, also if waiters are queued */
		return fd_try(fd, side, call, &a.io);
	return fd_call(fd, side, call, &a.io, NEVER);
}

ssize_t gmp_readv(int fd, const struct iovec *iov, int count)
{
	return vec_call(fd, SIDE_READ, call_readv, iov, count);
}

ssize_t gmp_writev(int fd, const struct iovec *iov, int count)
{
	return vec_call(fd, SIDE_WRITE, call_writev, iov, count);
}

/* --- messages --- */

struct msg_args {
	struct io_args io;
	struct msghdr *m;
	int flags;
};

/* A later read may end before the place of the urgent byte although there is data behind it, and no
 * event reports that data: from now on a short read does not mean "drained". */
static void note_urgent(int fd, int flags)
{
	if (unlikely(flags & MSG_OOB))
		st_rlx(&netpoll_find(fd)->hup, true);
}

static ssize_t call_recvmsg(int fd, const struct io_args *a)
{
	const struct msg_args *x = container_of(a, const struct msg_args, io);
	struct msghdr m = *x->m; /* each attempt begins with the caller's lengths */
	ssize_t n = os_retry(recvmsg(fd, &m, x->flags));

	if (n < 0)
		return n;
	*x->m = m;
	note_urgent(fd, x->flags);
	return n;
}

/*
 * True if the message did not fit although the socket is writable.  An unconnected unix socket is
 * writable whatever the state of its peers' queues, and no event reports room in one of them.
 */
static noinline bool peer_is_full(int fd, const struct msghdr *m)
{
	const struct sockaddr *peer = m->msg_name;
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	return peer && m->msg_namelen && peer->sa_family == AF_UNIX && poll(&p, 1, 0) == 1 &&
	       p.revents & POLLOUT;
}

static ssize_t call_sendmsg(int fd, const struct io_args *a)
{
	const struct msg_args *x = container_of(a, const struct msg_args, io);
	ssize_t n = os_retry(sendmsg(fd, x->m, x->flags | MSG_NOSIGNAL));

	if (likely(n != -EAGAIN))
		return n;
	return !(x->flags & MSG_DONTWAIT) && peer_is_full(fd, x->m) ? FD_NO_EVENT : -EAGAIN;
}

static bool msg_off_stack(const struct msghdr *m)
{
	return off_stack(m, sizeof(*m)) || off_stack(m->msg_name, m->msg_namelen) ||
	       off_stack(m->msg_control, m->msg_controllen) ||
	       /* with more buffers the kernel returns EMSGSIZE */
	       (m->msg_iov && m->msg_iovlen <= IOV_MAX && iov_off_stack(m->msg_iov, m->msg_iovlen));
}

static ssize_t call_by_flags(int fd, int side, io_call call, const struct io_args *a, int flags)
{
	/* the kernel never waits for these two, so queued readers must not delay them */
	int once = MSG_DONTWAIT | (side == SIDE_READ ? MSG_OOB | MSG_ERRQUEUE : 0);

	return flags & once ? fd_try(fd, side, call, a) : fd_call(fd, side, call, a, NEVER);
}

static ssize_t msg_call(int fd, int side, io_call call, struct msghdr *m, int flags)
{
	struct msg_args a = { .m = m, .flags = flags };

	if (!m)
		return -EINVAL;
	if (msg_off_stack(m))
		return -EFAULT;
	return call_by_flags(fd, side, call, &a.io, flags);
}

ssize_t gmp_recvmsg(int fd, struct msghdr *m, int flags)
{
	return msg_call(fd, SIDE_READ, call_recvmsg, m, flags);
}

ssize_t gmp_sendmsg(int fd, const struct msghdr *m, int flags)
{
	return msg_call(fd, SIDE_WRITE, call_sendmsg, (struct msghdr *)(uintptr_t)m, flags);
}

struct recv_args {
	struct io_args io;
	void *buf;
	size_t n;
	int flags;
	struct sockaddr *addr;
	socklen_t *addrlen;
};

static ssize_t call_recvfrom(int fd, const struct io_args *a)
{
	const struct recv_args *x = container_of(a, const struct recv_args, io);
	ssize_t n = os_retry(recvfrom(fd, x->buf, x->n, x->flags, x->addr, x->addrlen));

	if (n >= 0)
		note_urgent(fd, x->flags);
	return n;
}

ssize_t gmp_recvfrom(int fd, void *buf, size_t n, int flags, struct sockaddr *addr,
		     socklen_t *addrlen)
{
	struct recv_args a = { { 0 }, buf, n, flags, addr, addrlen };

	if (addr && !addrlen)
		return -EINVAL;
	if (off_stack(buf, n) || (addr && address_off_stack(addr, addrlen)))
		return -EFAULT;
	return call_by_flags(fd, SIDE_READ, call_recvfrom, &a.io, flags);
}

ssize_t gmp_sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *addr,
		   socklen_t addrlen)
{
	struct iovec v = { (void *)(uintptr_t)buf, n };
	struct msghdr m = { .msg_iov = &v,
			    .msg_iovlen = 1,
			    .msg_name = (void *)(uintptr_t)addr,
			    .msg_namelen = addr ? addrlen : 0 };

	if (addr && addrlen > sizeof(struct sockaddr_storage)) /* sendmsg would truncate it */
		return -EINVAL;
	return msg_call(fd, SIDE_WRITE, call_sendmsg, &m, flags);
}

/* --- files --- */

struct file_args {
	struct io_args io;
	int in;
};

static ssize_t call_sendfile(int fd, const struct io_args *a)
{
	int in = container_of(a, const struct file_args, io)->in;
	struct os_sigpipe sigpipe;

	os_sigpipe_hold(&sigpipe);
	ssize_t n = os_retry(sendfile(fd, in, a->buf, a->n));

	os_sigpipe_drop(&sigpipe, os_sigpipe_due(n, a->n));
	return n;
}

ssize_t gmp_sendfile(int out, int in, off_t *offset, size_t n)
{
	if (off_stack(offset, sizeof(*offset)))
		return -EFAULT;
	struct file_args a = { { offset, min_of(n, (size_t)IO_MOST) }, in };

	return fd_call(out, SIDE_WRITE | FD_SLEEPS, call_sendfile, &a.io, NEVER);
}
