/* SPDX-License-Identifier: MIT */
/* Sending a buffer to a socket, for io.c and socket.c. */
#ifndef GMP_POSIX_MESSAGE_H
#define GMP_POSIX_MESSAGE_H

#include "posix/hook.h"

struct message {
	int fd;
	const void *buf;
	size_t n;
	int flags;
	bool later; /* it is the rest of a message: no SIGPIPE, no error that is pending (IO-4) */
};

/* recv and send without a change of errno; -errno. */
ssize_t message_recv(int fd, void *buf, size_t n, int flags);
ssize_t message_send(int fd, const void *buf, size_t n, int flags);

/*
 * Send what is left of the message, and wait where that is necessary.  sent: the result of the
 * first attempt: -EAGAIN, or a count.  Returns the bytes sent, or -errno if there are none.
 */
ssize_t message_send_rest(const struct message *m, ssize_t sent);

/* The same for the buffers of v, of which `done` bytes are sent. */
ssize_t message_send_rest_of(int fd, const struct iovec *v, size_t count, int flags, size_t done);

#endif
