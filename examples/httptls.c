/* SPDX-License-Identifier: MIT */
/*
 * Byte stream over TLS: OpenSSL's blocking interface on a blocking socket, in a green thread.
 *
 * SSL_accept, SSL_read and SSL_write call read() and write(), which libgmprt_posix replaces: the
 * green thread parks, and its P runs others. The time limits are those of a blocking socket,
 * SO_RCVTIMEO and SO_SNDTIMEO.
 *
 * Invariants:
 *
 *   HTTPTLS-1  OpenSSL's error queue is a thread-local, which SSL_get_error reads after the wait.
 *              With own thread-locals the queue is that of the green thread. It is cleared before
 *              each call.
 *   HTTPTLS-2  Time limit of reads: SSL_read and SSL_accept read until a record or the handshake is
 *              complete, and SO_RCVTIMEO limits one read() only. So before each read() on_bio sets
 *              SO_RCVTIMEO to the time that is left. To save system calls it does so only if the
 *              present value differs by more than an eighth of `timeout`. A read ends that much
 *              after its deadline at most.
 *   HTTPTLS-3  Time limit of writes: SO_SNDTIMEO is a quarter of `timeout`. When it has expired,
 *              server_progress decides, as for TCP (server.h, struct server_writer).
 *   HTTPTLS-4  After a fatal error (`broken`) no close_notify is sent: OpenSSL forbids SSL_shutdown
 *              then.
 *
 * A write after the peer has closed is EPIPE, and raises no SIGPIPE in a green thread.
 * A client cannot renegotiate (TLS 1.2), since that is expensive for the server. The buffers of an
 * idle connection are released.
 */
#include "httpstream.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>

#define SECOND 1000000000LL
#define FINISH_MOST (1 << 20)    /* bytes that tls_finish discards */
#define FINISH_TIME (2 * SECOND) /* and how long it waits */
#define WRITE_PARTS 4            /* HTTPTLS-3: as the checks of server.c */
#define READ_SLACK 8             /* HTTPTLS-2 */

struct tls {
	SSL *ssl;
	int64_t deadline; /* of reads */
	int64_t limit;    /* ns, the present SO_RCVTIMEO */
	bool broken;
};

static SSL_CTX *context;

/* ------------------------------------------------------------------- Time limits */

static bool limit_calls(int fd, int option, int64_t ns)
{
	struct timeval limit = { .tv_sec = ns / SECOND, .tv_usec = ns % SECOND / 1000 };

	if (limit.tv_sec == 0 && limit.tv_usec == 0)
		limit.tv_usec = 1; /* 0 is no limit */
	return setsockopt(fd, SOL_SOCKET, option, &limit, sizeof(limit)) == 0;
}

/* HTTPTLS-2. Returns false if the deadline has passed. */
static bool limit_read(struct stream *s)
{
	struct tls *t = s->tls;
	int64_t left = t->deadline - gmp_now();
	int64_t slack = s->timeout / READ_SLACK;

	if (left <= 0)
		return false;
	if (t->limit < left || t->limit > left + slack) {
		if (!limit_calls(s->fd, SO_RCVTIMEO, left))
			return false;
		t->limit = left;
	}
	return true;
}

/* OpenSSL calls this before and after each call on the socket; a result <= 0 before a read
 * prevents it. */
static long on_bio(BIO *bio, int call, const char *bytes, size_t n, int argi, long argl, int result,
		   size_t *done)
{
	(void)bytes, (void)n, (void)argi, (void)argl, (void)done;
	if (call != BIO_CB_READ || limit_read((struct stream *)(void *)BIO_get_callback_arg(bio)))
		return result;
	BIO_set_retry_read(bio); /* as if SO_RCVTIMEO had expired */
	return -1;
}

/* -------------------------------------------------------------------------- Calls */

/* The error of a call of OpenSSL that returned `result`. 0: the peer has sent close_notify. */
static int error_of(struct tls *t, int result)
{
	switch (SSL_get_error(t->ssl, result)) {
	case SSL_ERROR_ZERO_RETURN: return 0;
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE: return -ETIMEDOUT;
	case SSL_ERROR_SYSCALL: t->broken = true; return -ECONNRESET;
	default: t->broken = true; return -EPROTO;
	}
}

static bool make_ssl(struct stream *s)
{
	SSL *ssl = SSL_new(context);

	s->tls->ssl = ssl;
	if (!ssl || !SSL_set_fd(ssl, s->fd))
		return false;
	BIO_set_callback_ex(SSL_get_rbio(ssl), on_bio);
	BIO_set_callback_arg(SSL_get_rbio(ssl), (char *)s);
	return true;
}

/* Wait for the first byte of the peer, and leave it in the socket. Returns it, or -1. */
static int first_byte(struct stream *s)
{
	unsigned char byte;

	return limit_read(s) && recv(s->fd, &byte, 1, MSG_PEEK) == 1 ? byte : -1;
}

static int handshake(struct stream *s)
{
	int result;

	ERR_clear_error();
	result = SSL_accept(s->tls->ssl);
	if (result == 1)
		return STREAM_READY;
	result = error_of(s->tls, result);
	s->tls->broken = true;
	return result ? result : -ECONNRESET;
}

/* A TLS client begins with byte 22, and an HTTP client with a letter. OpenSSL recognizes a few
 * methods itself, but not all, and consumes them. */
static int tls_open(struct stream *s)
{
	int first;

	s->writer = (struct server_writer){ .fd = s->fd, .patience = s->timeout };
	s->tls = calloc(1, sizeof(*s->tls));
	if (!s->tls)
		return -ENOMEM;
	s->tls->broken = true;
	s->tls->deadline = gmp_deadline(s->timeout);
	first = first_byte(s);
	if (first < 0)
		return -ECONNRESET;
	if ((first >= 'A' && first <= 'Z') || (first >= 'a' && first <= 'z')) {
		free(s->tls);
		s->tls = NULL;
		s->kind = &plain_stream;
		first = gmp_fd_adopt(s->fd);
		return first < 0 ? first : STREAM_PLAIN;
	}
	if (!make_ssl(s) || !limit_calls(s->fd, SO_SNDTIMEO, s->timeout / WRITE_PARTS))
		return -ENOMEM;
	s->tls->broken = false;
	return handshake(s);
}

static void tls_set_deadline(struct stream *s, int64_t deadline)
{
	s->tls->deadline = deadline;
}

static ssize_t tls_read(struct stream *s, void *bytes, size_t n)
{
	size_t got;
	int result;

	ERR_clear_error();
	result = SSL_read_ex(s->tls->ssl, bytes, n, &got);
	return result > 0 ? (ssize_t)got : error_of(s->tls, result);
}

/* SSL_MODE_ENABLE_PARTIAL_WRITE: a call writes one record. */
static ssize_t tls_write(struct stream *s, const void *bytes, size_t n, bool more)
{
	size_t written;
	int result;

	(void)more;
	s->writer.checks = 0;
	do {
		ERR_clear_error();
		if (SSL_write_ex(s->tls->ssl, bytes, n, &written) > 0)
			return (ssize_t)written;
		result = error_of(s->tls, 0);
	} while (result == -ETIMEDOUT && server_progress(&s->writer));
	s->tls->broken = true;
	return result ? result : -EPIPE;
}

/* As server_finish, after close_notify. What the peer still sends is not decrypted. */
static void tls_finish(struct stream *s)
{
	char bytes[4096];
	ssize_t left = FINISH_MOST, n = 1;

	if (s->tls->broken)
		return;
	s->tls->deadline = gmp_deadline(FINISH_TIME);
	ERR_clear_error();
	SSL_shutdown(s->tls->ssl);
	s->tls->broken = true;
	shutdown(s->fd, SHUT_WR);
	while (left > 0 && n > 0 && limit_read(s)) {
		n = recv(s->fd, bytes, sizeof(bytes), 0);
		left -= n;
	}
}

static void tls_close(struct stream *s)
{
	if (!s->tls)
		return;
	ERR_clear_error();
	if (!s->tls->broken)
		SSL_shutdown(s->tls->ssl);
	SSL_free(s->tls->ssl);
	free(s->tls);
}

const struct stream_kind tls_stream = {
	.open = tls_open,
	.set_deadline = tls_set_deadline,
	.read = tls_read,
	.write = tls_write,
	.finish = tls_finish,
	.close = tls_close,
};

/* -------------------------------------------------------------------------- Start */

static bool complain(const char *what)
{
	fprintf(stderr, "httpd: %s: %s\n", what, ERR_reason_error_string(ERR_peek_last_error()));
	return false;
}

bool tls_stream_init(const char *cert, const char *key)
{
	context = SSL_CTX_new(TLS_server_method());
	if (!context)
		return complain("OpenSSL");
	if (SSL_CTX_use_certificate_chain_file(context, cert) != 1)
		return complain(cert);
	if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_check_private_key(context) != 1)
		return complain(key); /* also if it is not the key of the certificate */
	SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
	SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_read_ahead(context, 1); /* one read() for a record, not two */
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF); /* clients have tickets */
	return true;
}
