/* SPDX-License-Identifier: MIT */
/*
 * TCP proxy: forwards two streams in opposite directions, and how each of them ends.
 *
 *   $ proxy --port 7000 --to 127.0.0.1:80 &
 *   $ curl http://127.0.0.1:7000/
 *
 * With --http it is a reverse proxy for HTTP/1.1 (httpproxy.c), which parses and re-frames every
 * message. Without it no byte is interpreted: the target alone defends itself against request
 * smuggling.
 *
 * Each connection is forwarded to the target by two green threads, one for each direction.  A TCP
 * stream has two directions that end independently:
 *
 *   1. One side has sent all (an end of stream is read): the proxy shuts down the sending half to
 *      the other side. The other direction continues without a limit of time.
 *   2. One side has failed (a read or a write returns an error), or the proxy ends: both
 *      connections are reset. A side that took the failure for an end of stream would take half a
 *      file for a whole one.
 *
 * At the end (SIGINT, SIGTERM) each side is shut down for reading first, which wakes the readers.
 * The writers get END_GRACE to return and see `ending`, so that no client gets a FIN instead of a
 * reset.
 */
#include "httpproxy.h"
#include "server.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHUNK (32 << 10)
#define DIAL_TIME 3000000000 /* ns; less than server_end waits */
#define END_GRACE 500000000  /* ns; not tuned */

struct proxy {
	struct server server;
	const char *to;
	bool http;
	long timeout; /* seconds; of --http */
	long port;
	int signals;
	int status; /* the exit status */
};

/* One direction of a connection. */
struct stream {
	const struct server *server;
	struct stream *other;
	int from;
	int to;
	atomic_bool ended;  /* with an end of stream */
	atomic_bool failed; /* with an error, or because the proxy ends */
};

/* Returns whether the peer has reset the connection: while the other direction is open, the socket
 * can lose its peer only by a reset. */
static bool was_reset(struct stream *s)
{
	return !s->other->ended && server_was_reset(s->from);
}

static void pass_on(void *arg)
{
	struct stream *s = arg;
	char chunk[CHUNK];
	ssize_t n;

	while ((n = gmp_read(s->from, chunk, sizeof(chunk))) > 0 && !s->server->ending) {
		n = gmp_write_all(s->to, chunk, (size_t)n);
		if (n < 0)
			break;
	}
	if (n == 0 && !s->server->ending && !s->other->failed && !was_reset(s)) {
		s->ended = true;
		gmp_shutdown(s->to, SHUT_WR);
		return;
	}
	/* Wake the other direction: it reads an end of stream, and does not forward it. */
	s->failed = true;
	gmp_shutdown(s->to, SHUT_RD);
	gmp_shutdown(s->from, SHUT_RD);
}

static void connect_streams(const struct server *s, int client, int target)
{
	struct stream there = { .server = s, .from = client, .to = target };
	struct stream back = { .server = s, .from = target, .to = client, .other = &there };
	gmp_g *g;

	there.other = &back;
	if (gmp_spawn(&g, pass_on, &back, NULL) == 0) {
		pass_on(&there);
		gmp_join(g);
	} else {
		there.failed = true;
	}
	if (there.failed || back.failed) {
		server_reset_on_close(client);
		server_reset_on_close(target);
	}
}

static void serve_http(int client, void *arg)
{
	struct proxy *p = arg;

	httpproxy_serve(&p->server, p->to, p->timeout * 1000000000LL, client);
}

static void serve(int client, void *arg)
{
	struct proxy *p = arg;
	struct server_fd entry;
	int target = gmp_dial_until("tcp", p->to, gmp_deadline(DIAL_TIME));

	if (target < 0) {
		server_complain(&p->server, p->to, target);
		server_reset_on_close(client);
		return;
	}
	if (server_add_fd(&p->server, &entry, target)) {
		connect_streams(&p->server, client, target);
		server_remove_fd(&p->server, &entry);
	}
	gmp_close(target);
}

static void app(void *arg)
{
	struct proxy *p = arg;
	char addr[64];
	int fd;

	p->server = (struct server){
		.serve = p->http ? serve_http : serve,
		.arg = p,
		.name = "proxy",
		.grace = END_GRACE,
	};
	snprintf(addr, sizeof(addr), "127.0.0.1:%ld", p->port);
	fd = server_listen(&p->server, "tcp", addr);
	if (fd < 0) {
		fprintf(stderr, "proxy: cannot listen on %s: %s\n", addr, strerror(-fd));
		p->status = 1;
		return;
	}
	gmp_local_addr(fd, addr, sizeof(addr));
	printf("proxy: listening on %s\n", addr);
	fflush(stdout);

	server_wait_for_signal(p->signals);
	if (server_end(&p->server) < 0)
		_exit(1); /* a green thread still uses `p` */
}

static int usage(FILE *to, int status)
{
	fputs("usage: proxy [--port PORT] [--http] --to HOST:PORT\n"
	      "  --port PORT     listen on this port (default 7000; 0 takes any free one)\n"
	      "  --to HOST:PORT  pass every connection on to there; HOST is a number or "
	      "localhost\n"
	      "  --http          parse HTTP/1.1, and re-frame each request and response\n"
	      "  --timeout SECONDS  with --http: end a connection without progress (default 30)\n",
	      to);
	return status;
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		{ "port", required_argument, NULL, 'p' },
		{ "to", required_argument, NULL, 't' },
		{ "http", no_argument, NULL, 'H' },
		{ "timeout", required_argument, NULL, 'T' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct proxy p = { .port = 7000, .timeout = 30 };
	int c, err;

	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (c) {
		case 'p': p.port = server_parse_number(optarg, 0, 65535); break;
		case 't': p.to = optarg; break;
		case 'H': p.http = true; break;
		case 'T': p.timeout = server_parse_number(optarg, 1, 86400); break;
		case 'h': return usage(stdout, 0);
		default: return usage(stderr, 2);
		}
	}
	if (optind < argc || !p.to || p.port < 0 || p.timeout < 0)
		return usage(stderr, 2);

	p.signals = server_block_signals();
	err = p.signals < 0 ? p.signals : gmp_run(app, &p, NULL);
	if (err) {
		fprintf(stderr, "proxy: cannot start: %s\n", strerror(-err));
		return 1;
	}
	return p.status;
}
