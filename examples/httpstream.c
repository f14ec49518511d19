/* SPDX-License-Identifier: MIT */
/* Byte stream over TCP: reads and writes by gmp's own functions, and files by sendfile. */
#include "httpstream.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

static int plain_open(struct stream *s)
{
	s->writer = (struct server_writer){ .fd = s->fd, .patience = s->timeout };
	return STREAM_READY;
}

static void plain_set_deadline(struct stream *s, int64_t deadline)
{
	gmp_fd_set_deadline(s->fd, GMP_READ, deadline);
}

static ssize_t plain_read(struct stream *s, void *bytes, size_t n)
{
	return gmp_read(s->fd, bytes, n);
}

/* MSG_MORE: the kernel puts the head and the first bytes of the file into one segment. A head in
 * its own segment wakes the client without need, and lowers the rate that BBR estimates for the
 * connection: a file of 1 MB then takes 1.6 times as long. */
static ssize_t plain_write(struct stream *s, const void *bytes, size_t n, bool more)
{
	struct iovec part = { (void *)bytes, n };
	const struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	ssize_t written;

	if (!more)
		return server_write(&s->writer, bytes, n);
	server_arm(&s->writer);
	do
		written = gmp_sendmsg(s->fd, &message, MSG_MORE | MSG_NOSIGNAL);
	while (written == -ETIMEDOUT && server_extend(&s->writer));
	return written;
}

static ssize_t plain_send_file(struct stream *s, int file, off_t *at, size_t n)
{
	ssize_t sent;

	server_arm(&s->writer);
	do
		sent = gmp_sendfile(s->fd, file, at, n);
	while (sent == -ETIMEDOUT && server_extend(&s->writer));
	return sent;
}

static void plain_finish(struct stream *s)
{
	server_finish(s->fd);
}

static void plain_close(struct stream *s)
{
	(void)s;
}

const struct stream_kind plain_stream = {
	.open = plain_open,
	.set_deadline = plain_set_deadline,
	.read = plain_read,
	.write = plain_write,
	.send_file = plain_send_file,
	.finish = plain_finish,
	.close = plain_close,
};
