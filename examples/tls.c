/* SPDX-License-Identifier: MIT */
/*
 * TLS with OpenSSL on non-blocking sockets: runs an echo server, or a client that sends its
 * standard input.
 *
 *   $ tls serve --port 7443 --cert cert.pem --key key.pem &
 *   $ echo hello | tls send 127.0.0.1:7443 --ca cert.pem --name localhost
 *   hello
 *
 * OpenSSL reads and writes the fd itself. If a call reports that it must read or write first,
 * step() waits for that with gmp_fd_wait. A read may have to write and a write to read
 * (renegotiation, key updates).
 *
 * TLS-1  The error queue of OpenSSL and errno belong to the OS thread, and other green threads use
 *        it too. The queue is cleared before each call, and read after it, before the next wait:
 *        step() has no wait between ERR_clear_error and the last read of either.
 * TLS-2  One green thread at a time uses an SSL object.
 * TLS-3  SSL_free does not close the fd; gmp_close does.
 */
#define GMP_SAFE_ERRNO /* step() waits, and reads errno */
#include <gmp.h>

#include <getopt.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server.h"

#define CHUNK 16384 /* a TLS record */
#define TIMEOUT (30 * GMP_S)

enum call { HANDSHAKE, READ, WRITE, SHUTDOWN };

struct options {
	const char *cert, *key, *ca, *name, *addr;
	long port;
	int signals, status;
	SSL_CTX *ctx;
	struct server *server;
};

static int call_openssl(SSL *ssl, enum call call, void *buf, int n)
{
	switch (call) {
	case HANDSHAKE: return SSL_do_handshake(ssl);
	case READ: return SSL_read(ssl, buf, n);
	case WRITE: return SSL_write(ssl, buf, n);
	default:
		n = SSL_shutdown(ssl);
		return n == 0 ? 1 : n; /* ours is sent; do not wait for the peer's */
	}
}

/* Make one call of OpenSSL, with the waits that it needs. Returns the result of the call if it is
 * positive; 0 at the end of the stream; or a negative errno value, -EPROTO for an error of TLS,
 * with a text in `why`. */
static int step(SSL *ssl, enum call call, void *buf, int n, char why[256])
{
	int64_t deadline = gmp_deadline(TIMEOUT);

	for (;;) {
		int events = 0, ready, result, what, err;

		ERR_clear_error(); /* TLS-1 */
		errno = 0;
		result = call_openssl(ssl, call, buf, n);
		err = errno;
		what = SSL_get_error(ssl, result);
		if (result > 0)
			return result;
		switch (what) {
		case SSL_ERROR_ZERO_RETURN: return 0;
		case SSL_ERROR_WANT_READ: events = GMP_READ; break;
		case SSL_ERROR_WANT_WRITE: events = GMP_WRITE; break;
		case SSL_ERROR_SYSCALL:
			snprintf(why, 256, "%s",
				 err ? strerror(err) : "connection closed without a TLS alert");
			return err ? -err : -ECONNRESET;
		default: ERR_error_string_n(ERR_peek_last_error(), why, 256); return -EPROTO;
		}
		ready = gmp_fd_wait(SSL_get_fd(ssl), events, deadline);
		if (ready < 0) {
			snprintf(why, 256, "%s", strerror(-ready));
			return ready;
		}
	}
}

static int write_all(SSL *ssl, const char *buf, int n, char why[256])
{
	for (int done = 0; done < n;) {
		int part = step(ssl, WRITE, (char *)buf + done, n - done, why);

		if (part <= 0)
			return part ? part : -EPIPE;
		done += part;
	}
	return 0;
}

/* --- server --- */

static void serve(int fd, void *arg)
{
	struct options *o = arg;
	SSL *ssl = SSL_new(o->ctx);
	char chunk[CHUNK], why[256] = "";
	int n = -ENOMEM;

	if (ssl && SSL_set_fd(ssl, fd)) {
		SSL_set_accept_state(ssl);
		n = step(ssl, HANDSHAKE, NULL, 0, why);
	}
	while (n > 0 && (n = step(ssl, READ, chunk, sizeof(chunk), why)) > 0) {
		int err = write_all(ssl, chunk, n, why);

		n = err ? err : n;
	}
	if (n == 0)
		step(ssl, SHUTDOWN, NULL, 0, why);
	else if (n != -ECONNRESET && n != -EPIPE)
		server_complain(o->server, why, n); /* at most one line a second */
	SSL_free(ssl);
}

static void run_server(void *arg)
{
	struct options *o = arg;
	struct server server = { .serve = serve, .arg = o, .name = "tls" };
	char addr[64];
	int fd;

	o->server = &server;
	snprintf(addr, sizeof(addr), "127.0.0.1:%ld", o->port);
	fd = server_listen(&server, "tcp", addr);
	if (fd < 0) {
		fprintf(stderr, "tls: cannot listen on %s: %s\n", addr, strerror(-fd));
		o->status = 1;
		return;
	}
	gmp_local_addr(fd, addr, sizeof(addr));
	printf("tls: listening on %s\n", addr);
	fflush(stdout);
	server_wait_for_signal(o->signals);
	if (server_end(&server) < 0)
		_exit(1);
}

/* --- client --- */

static int copy_in(SSL *ssl, char why[256])
{
	char chunk[CHUNK], back[CHUNK];
	ssize_t n;

	while ((n = gmp_blocking_sys(read(0, chunk, sizeof(chunk)))) > 0) {
		int err = write_all(ssl, chunk, (int)n, why);

		for (int got = 0; !err && got < n;) {
			int part = step(ssl, READ, back, sizeof(back), why);

			if (part <= 0)
				return part ? part : -EPIPE;
			fwrite(back, 1, (size_t)part, stdout);
			got += part;
		}
		if (err)
			return err;
	}
	return (int)n;
}

static void run_client(void *arg)
{
	struct options *o = arg;
	char why[256] = "out of memory";
	int fd = gmp_dial_until("tcp", o->addr, gmp_deadline(TIMEOUT)), err = fd < 0 ? fd : -ENOMEM;
	SSL *ssl = fd < 0 ? NULL : SSL_new(o->ctx);

	if (fd < 0)
		snprintf(why, sizeof(why), "%s", strerror(-fd));
	if (ssl && SSL_set_fd(ssl, fd) && SSL_set1_host(ssl, o->name) &&
	    SSL_set_tlsext_host_name(ssl, o->name)) {
		SSL_set_connect_state(ssl);
		err = step(ssl, HANDSHAKE, NULL, 0, why);
		if (err > 0)
			err = copy_in(ssl, why);
		if (err == 0)
			step(ssl, SHUTDOWN, NULL, 0, why);
	}
	if (err < 0) {
		long verified = ssl ? SSL_get_verify_result(ssl) : X509_V_OK;

		fprintf(stderr, "tls: %s: %s\n", o->addr,
			verified == X509_V_OK ? why : X509_verify_cert_error_string(verified));
		o->status = 1;
	}
	SSL_free(ssl);
	if (fd >= 0)
		gmp_close(fd);
}

/* --- options --- */

static SSL_CTX *server_context(const struct options *o)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

	if (ctx && SSL_CTX_use_certificate_chain_file(ctx, o->cert) == 1 &&
	    SSL_CTX_use_PrivateKey_file(ctx, o->key, SSL_FILETYPE_PEM) == 1)
		return ctx;
	SSL_CTX_free(ctx);
	return NULL;
}

static SSL_CTX *client_context(const struct options *o)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());

	if (!ctx)
		return NULL;
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	if ((o->ca ? SSL_CTX_load_verify_locations(ctx, o->ca, NULL)
		   : SSL_CTX_set_default_verify_paths(ctx)) == 1)
		return ctx;
	SSL_CTX_free(ctx);
	return NULL;
}

static int usage(void)
{
	fputs("usage: tls serve --cert FILE --key FILE [--port PORT]\n"
	      "       tls send ADDRESS:PORT [--ca FILE] [--name HOST]\n",
	      stderr);
	return 2;
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		{ "port", required_argument, NULL, 'p' }, { "cert", required_argument, NULL, 'c' },
		{ "key", required_argument, NULL, 'k' },  { "ca", required_argument, NULL, 'a' },
		{ "name", required_argument, NULL, 'n' }, { 0 },
	};
	struct options o = { .port = 7443, .name = "localhost" };
	int c, err;

	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (c == 'p')
			o.port = server_parse_number(optarg, 0, 65535);
		else if (c == '?')
			return usage();
		else
			*(c == 'c'   ? &o.cert
			  : c == 'k' ? &o.key
			  : c == 'a' ? &o.ca
				     : &o.name) = optarg;
	}
	bool serving = optind + 1 == argc && strcmp(argv[optind], "serve") == 0;
	bool sending = optind + 2 == argc && strcmp(argv[optind], "send") == 0;

	if (!(serving && o.cert && o.key && o.port >= 0) && !sending)
		return usage();
	o.addr = argv[argc - 1];
	o.ctx = serving ? server_context(&o) : client_context(&o);
	if (!o.ctx) {
		fprintf(stderr, "tls: %s\n", ERR_error_string(ERR_peek_last_error(), NULL));
		return 1;
	}
	SSL_CTX_set_mode(o.ctx,
			 SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	o.signals = serving ? server_block_signals() : 0;
	err = o.signals < 0 ? o.signals : gmp_run(serving ? run_server : run_client, &o, NULL);
	SSL_CTX_free(o.ctx);
	if (err)
		fprintf(stderr, "tls: cannot start: %s\n", strerror(-err));
	return err ? 1 : o.status;
}
