/* SPDX-License-Identifier: MIT */
/*
 * A TLS echo server, and a client for it, with OpenSSL's blocking interface.
 *
 *   $ tls serve 127.0.0.1 8443 cert.pem key.pem
 *   $ tls ask 127.0.0.1 8443 cert.pem 100 'a line'
 *
 * The server has one green thread per connection. `ask` makes 100 connections at a time, sends the
 * line on each, and prints how many answers were right. SSL_accept, SSL_read and SSL_write block in
 * read() and write(), accept() and connect(), which libgmprt_posix replaces.
 *
 * TLS-1  OpenSSL keeps an error queue in a thread-local, which SSL_get_error reads after the wait.
 *        With own thread-locals the queue is that of the green thread.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <gmp.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LINE = 4096 };

static struct sockaddr_in address;
static SSL_CTX *context;
static const char *line;
static int clients, status;
static atomic_int right;

static int complain(const char *what)
{
	fprintf(stderr, "tls: %s: %s\n", what, strerror(errno));
	ERR_print_errors_fp(stderr);
	status = 1;
	return -1;
}

/* --- server --- */

static void echo(void *arg)
{
	int fd = (int)(intptr_t)arg, n;
	SSL *ssl = SSL_new(context);
	char buf[LINE];

	if (ssl && SSL_set_fd(ssl, fd) && SSL_accept(ssl) == 1)
		while ((n = SSL_read(ssl, buf, sizeof(buf))) > 0)
			if (SSL_write(ssl, buf, n) != n)
				break;
	if (ssl && SSL_is_init_finished(ssl))
		SSL_shutdown(ssl);
	SSL_free(ssl);
	close(fd);
}

static void serve(void *arg)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1, client;

	(void)arg;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, 1024) != 0) {
		complain("listen");
		return;
	}
	printf("listening on %s:%d\n", inet_ntoa(address.sin_addr), ntohs(address.sin_port));
	fflush(stdout);
	while ((client = accept(fd, NULL, NULL)) >= 0 || errno == EINTR || errno == ECONNABORTED)
		if (client >= 0 && gmp_go(echo, (void *)(intptr_t)client) != 0)
			close(client);
	complain("accept");
	close(fd);
}

/* --- client --- */

static void exchange(SSL *ssl)
{
	int n = (int)strlen(line), got = 0, k;
	char buf[LINE];

	if (SSL_connect(ssl) != 1 || SSL_write(ssl, line, n) != n) {
		complain("connect");
		return;
	}
	while (got < n && (k = SSL_read(ssl, buf + got, (int)sizeof(buf) - got)) > 0)
		got += k;
	if (got == n && memcmp(buf, line, (size_t)n) == 0)
		atomic_fetch_add(&right, 1);
	SSL_shutdown(ssl);
}

static void ask_one(void *arg)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	SSL *ssl = SSL_new(context);

	(void)arg;
	if (fd < 0 || !ssl || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
	    !SSL_set_fd(ssl, fd))
		complain("connect");
	else
		exchange(ssl);
	SSL_free(ssl);
	if (fd >= 0)
		close(fd);
}

static void ask(void *arg)
{
	gmp_g **g = calloc((size_t)clients, sizeof(gmp_g *));
	int n = 0;

	(void)arg;
	while (g && n < clients && gmp_spawn(&g[n], ask_one, NULL, NULL) == 0)
		n++;
	for (int i = 0; i < n; i++)
		gmp_join(g[i]);
	free(g);
	printf("%d of %d answers are right\n", atomic_load(&right), clients);
	status |= atomic_load(&right) != clients;
}

/* --- start --- */

static int usage(void)
{
	fputs("usage: tls serve IP PORT CERT KEY\n       tls ask IP PORT CERT CLIENTS LINE\n",
	      stderr);
	return 2;
}

static int prepare_server(char **argv)
{
	context = SSL_CTX_new(TLS_server_method());
	if (!context || SSL_CTX_use_certificate_chain_file(context, argv[4]) != 1 ||
	    SSL_CTX_use_PrivateKey_file(context, argv[5], SSL_FILETYPE_PEM) != 1)
		return complain(argv[4]);
	return 0;
}

static int prepare_client(char **argv)
{
	clients = atoi(argv[5]);
	line = argv[6];
	context = SSL_CTX_new(TLS_client_method());
	if (!context || SSL_CTX_load_verify_locations(context, argv[4], NULL) != 1)
		return complain(argv[4]);
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	return strlen(line) < LINE ? 0 : complain("the line is too long");
}

int main(int argc, char **argv)
{
	bool serves = argc == 6 && strcmp(argv[1], "serve") == 0;
	gmp_config cfg = GMP_CONFIG_INIT;

	if (!serves && !(argc == 7 && strcmp(argv[1], "ask") == 0))
		return usage();
	address.sin_family = AF_INET;
	address.sin_port = htons((uint16_t)atoi(argv[3]));
	if (inet_pton(AF_INET, argv[2], &address.sin_addr) != 1)
		return usage();
	signal(SIGPIPE, SIG_IGN);
	if ((serves ? prepare_server(argv) : prepare_client(argv)) != 0)
		return 1;
	cfg.flags = GMP_OWN_TLS; /* TLS-1 */

	int err = gmp_run(serves ? serve : ask, NULL, &cfg);

	if (err)
		fprintf(stderr, "tls: %s\n", strerror(-err));
	SSL_CTX_free(context);
	return err ? 1 : status;
}
