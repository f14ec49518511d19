/* SPDX-License-Identifier: MIT */
/* Sends and receives a buffer by a socket. */
#ifndef GMP_POSIX_MESSAGE_H
#define GMP_POSIX_MESSAGE_H

#include <sys/syscall.h>

#include "posix/io/wait.h"

/*
 * recv and send without a change of errno; -errno.  libc's functions read and write words of the
 * green thread's own block for pthread_cancel, and errno; with 10,000 connections these miss the
 * caches, 0.3 us for a request.
 */
static inline ssize_t message_recv(int fd, void *buf, size_t n, int flags)
{
#if defined(ARCH_HAS_SYSCALL)
	return arch_msg_call(SYS_recvfrom, fd, buf, n, flags);
#else
	int saved = errno;
	ssize_t got = IO_SYS(LIBC(recv)(fd, buf, n, flags));

	errno = saved;
	return got;
#endif
}

static inline ssize_t message_send(int fd, const void *buf, size_t n, int flags)
{
#if defined(ARCH_HAS_SYSCALL)
	return arch_msg_call(SYS_sendto, fd, buf, n, flags);
#else
	int saved = errno;
	ssize_t sent = IO_SYS(LIBC(send)(fd, buf, n, flags));

	errno = saved;
	return sent;
#endif
}

static inline size_t iov_bytes(const struct iovec *v, size_t count)
{
	size_t n = 0;

	for (size_t i = 0; i < count; i++)
		n += v[i].iov_len;
	return n;
}

/*
 * Send what is left of a message, and wait where that is necessary.  sent: the result of an
 * attempt: -EAGAIN, or a count; 0: none was made.  w->partial: a part of the message was sent
 * before.  Returns the bytes sent of buf, or -errno if there are none.
 */
ssize_t message_send_rest(struct io_wait *w, const void *buf, size_t n, ssize_t sent);

/* Send n bytes of a message of which a part is sent. */
ssize_t message_send_later(struct io_wait *w, const void *buf, size_t n);

/* The same by a function like it, for the buffers of v, of which `done` bytes are sent.  Returns
 * how many are sent then. */
typedef ssize_t (*rest_fn)(struct io_wait *w, const void *buf, size_t n);
ssize_t iov_rest(rest_fn rest, struct io_wait *w, const struct iovec *v, size_t count, size_t done);

#endif
