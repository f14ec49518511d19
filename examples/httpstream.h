/* SPDX-License-Identifier: MIT */
/* Byte stream of a connection of httpd: TCP (httpstream.c), or TLS on TCP (httptls.c). */
#ifndef EXAMPLES_HTTPSTREAM_H
#define EXAMPLES_HTTPSTREAM_H

#include "server.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct stream_kind;

/* All zero except `kind`, `fd` and `timeout`. */
struct stream {
	const struct stream_kind *kind;
	int fd;
	int64_t timeout; /* ns: of a handshake, and of a write without an acknowledged byte */
	struct server_writer writer;
	struct tls *tls;
};

/* Results of `open` beside a negative errno value. */
enum { STREAM_READY, STREAM_PLAIN };

/* Sizes are at least 1. Errors are negative errno values; -ETIMEDOUT: the time limit. */
struct stream_kind {
	/* Prepare the stream. STREAM_PLAIN: the peer does not speak TLS but, by its first byte,
	 * HTTP. The stream is then plain_stream. Call `close` after an error too. */
	int (*open)(struct stream *s);
	/* Set the deadline of all reads until the next call. */
	void (*set_deadline)(struct stream *s, int64_t deadline);
	/* Read once. Returns the number of bytes; 0 at the end of the stream. */
	ssize_t (*read)(struct stream *s, void *bytes, size_t n);
	/* Write at least one byte and at most n. `more`: further bytes follow at once. */
	ssize_t (*write)(struct stream *s, const void *bytes, size_t n, bool more);
	/* Send bytes of a file without a copy, and move *at. NULL: use `write`. */
	ssize_t (*send_file)(struct stream *s, int file, off_t *at, size_t n);
	/* After the last write: let the peer read all of it (server_finish). */
	void (*finish)(struct stream *s);
	/* Free what `open` has allocated. The fd stays open. */
	void (*close)(struct stream *s);
};

extern const struct stream_kind plain_stream;

/* In a program without OpenSSL, httpnotls.c has these. The fd must be a blocking one (server.h),
 * and green threads must have own thread-locals. */
extern const struct stream_kind tls_stream;

/* Read the certificate chain and the private key from PEM files. If that fails, print the reason
 * and return false. */
bool tls_stream_init(const char *cert, const char *key);

#endif
