/* SPDX-License-Identifier: MIT */
/*
 * TCP echo server: serves each connection in its own green thread.
 *
 *   $ echo --port 7000 &
 *   $ nc 127.0.0.1 7000
 *
 * Only serve() is specific to this server. It is sequential code: while gmp_read or gmp_write_all
 * waits, other green threads run.
 */
#include "server.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK 4096

struct options {
	long port;
	int signals;
	int status; /* the exit status */
};

static void serve(int fd, void *arg)
{
	char chunk[CHUNK];
	ssize_t n;

	(void)arg;
	while ((n = gmp_read(fd, chunk, sizeof(chunk))) > 0)
		if (gmp_write_all(fd, chunk, (size_t)n) < 0)
			break;
}

static void app(void *arg)
{
	struct server server = { .serve = serve, .name = "echo" };
	struct options *o = arg;
	char addr[64];
	int fd;

	snprintf(addr, sizeof(addr), "127.0.0.1:%ld", o->port);
	fd = server_listen(&server, "tcp", addr);
	if (fd < 0) {
		fprintf(stderr, "echo: cannot listen on %s: %s\n", addr, strerror(-fd));
		o->status = 1;
		return;
	}
	gmp_local_addr(fd, addr, sizeof(addr));
	printf("echo: listening on %s\n", addr);
	fflush(stdout);

	server_wait_for_signal(o->signals);
	if (server_end(&server) < 0)
		_exit(1); /* a green thread still uses `server` */
}

static int usage(FILE *to, int status)
{
	fputs("usage: echo [--port PORT]    (default 7000; 0 takes any free port)\n", to);
	return status;
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		{ "port", required_argument, NULL, 'p' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct options o = { .port = 7000 };
	int c, err;

	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (c == 'h')
			return usage(stdout, 0);
		if (c != 'p')
			return usage(stderr, 2);
		o.port = server_parse_number(optarg, 0, 65535);
		if (o.port < 0) {
			fprintf(stderr, "echo: not a port: %s\n", optarg);
			return usage(stderr, 2);
		}
	}
	if (optind < argc)
		return usage(stderr, 2);

	o.signals = server_block_signals();
	err = o.signals < 0 ? o.signals : gmp_run(app, &o, NULL);
	if (err) {
		fprintf(stderr, "echo: cannot start: %s\n", strerror(-err));
		return 1;
	}
	return o.status;
}
