/* SPDX-License-Identifier: MIT */
/*
 * What does a server look like that keeps up with one written around an event loop, and yet serves
 * each connection with plain sequential code?
 *
 *   $ kvserver --port 7379 &
 *   $ redis-cli -p 7379 set name value
 *   $ redis-benchmark -p 7379 -t get,set -r 100000 -P 16
 *
 * It speaks the protocol of Redis (RESP2) and knows some of its commands.  The parts: server.c
 * takes the connections, resp.c finds the requests in what they send, kvcommand.c answers them,
 * kvtable.c keeps the keys, and this file moves the bytes:
 *
 *   1. read what is there, once;
 *   2. answer every request in it, to one buffer;
 *   3. write that buffer, once.
 *
 * So a client that sends many requests at a time costs two system calls for all of them.  A client
 * that does not read its answers stops its own green thread in step 3, and nobody else's.
 */
#include "kvcommand.h"
#include "kvtable.h"
#include "server.h"

#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_LEAST 1024
#define READ_MOST (64u << 10)
#define FLUSH_AT (64u << 10)    /* answers are sent once they are so many bytes */
#define FAREWELL_MOST (1 << 20) /* bytes that are read and thrown away before closing */
#define SWEEP_PERIOD 250000000  /* ns */

/* --------------------------------------------------------------- A connection */

struct session {
	int fd;
	size_t read_size; /* room to have for the next read */
	struct buf in;
	struct kv_client client;
};

/* False at the end of the stream. */
static bool receive(struct session *s)
{
	char *at = buf_room(&s->in, s->read_size);
	size_t room = s->in.size - s->in.end;
	ssize_t n;

	if (!at)
		return false;
	n = gmp_read(s->fd, at, room);
	if (n <= 0)
		return false;
	s->in.end += (size_t)n;
	if ((size_t)n == room && s->read_size < READ_MOST)
		s->read_size *= 2;
	return true;
}

static bool flush(struct session *s)
{
	struct buf *out = &s->client.out;
	ssize_t n = 0;

	if (buf_len(out) > 0)
		n = gmp_write_all(s->fd, out->data, buf_len(out));
	buf_clear(out);
	return n >= 0;
}

static void refuse(struct kv_client *c, const char *error)
{
	resp_add_text(&c->out, "-ERR Protocol error: ");
	buf_add(&c->out, error, strlen(error));
	resp_add_text(&c->out, "\r\n");
	c->closing = true;
}

/* Answer what has been received.  False when the connection is to end. */
static bool answer(struct session *s)
{
	struct kv_client *c = &s->client;

	while (!c->closing) {
		char *bytes = s->in.data + s->in.start;
		enum resp_result r = resp_parse(&c->request, bytes, buf_len(&s->in));

		if (r == RESP_INCOMPLETE)
			break;
		if (r == RESP_NO_MEMORY)
			return false;
		if (r == RESP_BROKEN) {
			refuse(c, c->request.error);
			break;
		}
		if (c->request.argc > 0)
			kv_command_run(c);
		s->in.start += c->request.used;
		if (buf_len(&c->out) >= FLUSH_AT && !flush(s))
			return false;
	}
	if (buf_len(&s->in) == 0)
		buf_clear(&s->in);
	return flush(s) && !c->closing;
}

/*
 * Closing a socket with bytes in it that nobody has read makes the kernel reset the connection, and
 * the peer may then lose the answer that told it why.  So say that this was all, and read on.
 */
static void say_farewell(struct session *s)
{
	ssize_t left = FAREWELL_MOST;
	ssize_t n = 1;

	gmp_shutdown(s->fd, SHUT_WR);
	while (left > 0 && n > 0) {
		buf_clear(&s->in);
		if (!buf_room(&s->in, READ_LEAST))
			return;
		n = gmp_read(s->fd, s->in.data, s->in.size);
		left -= n;
	}
}

static void set_socket_options(int fd)
{
	const int on = 1;
	const int idle_seconds = 300;

	/* They fail on a unix socket, which needs none of them. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_seconds, sizeof(idle_seconds));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

static void serve(int fd, void *table)
{
	struct session *s = calloc(1, sizeof(*s));

	if (!s)
		return;
	set_socket_options(fd);
	s->fd = fd;
	s->read_size = READ_LEAST;
	s->client.table = table;
	while (receive(s) && answer(s))
		gmp_checkpoint();
	if (s->client.closing)
		say_farewell(s);
	resp_parser_free(&s->client.request);
	buf_free(&s->client.out);
	buf_free(&s->in);
	free(s);
}

/* ------------------------------------------------------------------ The server */

struct options {
	const char *bind;
	const char *unix_path;
	long port; /* -1: not given */
	long procs;
	bool stats;
	int signals;
	int status; /* the exit status */
};

static void print_stats(void)
{
	gmp_stats s = GMP_STATS_INIT;

	if (gmp_stats_get(&s) < 0)
		return;
#define PRINT(field) printf("%-18s %llu\n", #field, (unsigned long long)s.field)
	PRINT(procs);
	PRINT(threads);
	PRINT(greens);
	PRINT(descriptors);
	PRINT(stack_bytes);
	PRINT(spawns);
	PRINT(exits);
	PRINT(switches);
	PRINT(steals);
	PRINT(stolen);
	PRINT(overflows);
	PRINT(polls);
	PRINT(poll_events);
	PRINT(wakeups);
	PRINT(parks);
	PRINT(spins);
	PRINT(handoffs);
	PRINT(timers_fired);
	PRINT(latency_p50);
	PRINT(latency_p99);
	PRINT(latency_max);
#undef PRINT
}

/* A server that was killed leaves its path behind, and nobody can listen there until it is gone. */
static void remove_stale_socket(const char *path)
{
	struct stat st;
	int fd;

	if (lstat(path, &st) != 0 || !S_ISSOCK(st.st_mode))
		return;
	fd = gmp_dial("unix", path);
	if (fd >= 0)
		gmp_close(fd);
	else if (fd == -ECONNREFUSED)
		unlink(path);
}

static int listen_on(struct server *server, const char *net, const char *addr)
{
	char local[128];
	int fd = server_listen(server, net, addr);

	if (fd < 0) {
		fprintf(stderr, "kvserver: cannot listen on %s: %s\n", addr, strerror(-fd));
		return fd;
	}
	if (gmp_local_addr(fd, local, sizeof(local)) >= 0)
		addr = local;
	printf("kvserver: listening on %s\n", addr);
	fflush(stdout);
	return 0;
}

static int listen_everywhere(struct server *server, const struct options *o)
{
	char addr[128];

	if (o->unix_path) {
		remove_stale_socket(o->unix_path);
		if (listen_on(server, "unix", o->unix_path) < 0)
			return -1;
	}
	if (o->unix_path && o->port < 0)
		return 0;
	snprintf(addr, sizeof(addr), "%s:%ld", o->bind, o->port < 0 ? 7379 : o->port);
	return listen_on(server, "tcp", addr);
}

static void sweep(void *table)
{
	kv_sweep(table);
}

static void app(void *arg)
{
	struct options *o = arg;
	struct server server = { .serve = serve, .name = "kvserver" };
	struct kv_table *table = kv_table_new();
	gmp_timer *sweeper = gmp_timer_new(sweep, table);

	o->status = 1;
	if (!table || !sweeper) {
		fprintf(stderr, "kvserver: cannot start: %s\n", strerror(ENOMEM));
		goto out;
	}
	server.arg = table;
	gmp_timer_set(sweeper, gmp_deadline(SWEEP_PERIOD), SWEEP_PERIOD);
	if (listen_everywhere(&server, o) == 0) {
		server_wait_for_signal(o->signals);
		o->status = 0;
	}
	if (server_end(&server) < 0) {
		fprintf(stderr, "kvserver: some connections did not end in time\n");
		_exit(1); /* their green threads still use the table */
	}
	if (o->unix_path && o->status == 0)
		unlink(o->unix_path);
	if (o->stats)
		print_stats();
out:
	gmp_timer_free(sweeper);
	if (table)
		kv_table_free(table);
}

static const char usage[] =
	"usage: kvserver [options]\n"
	"  --port PORT   listen on this TCP port (default 7379; 0 takes any free one)\n"
	"  --bind HOST   at this address (default 127.0.0.1)\n"
	"  --unix PATH   listen on a unix socket; on TCP too if --port is given\n"
	"  --procs N     run on N processors at a time (default: all there are)\n"
	"  --stats       print the scheduler's counters at the end\n"
	"  --help        print this\n"
	"\n"
	"Ends on SIGINT and SIGTERM.  Commands: PING ECHO SET (EX PX NX XX) GET DEL EXISTS INCR\n"
	"MGET MSET EXPIRE TTL DBSIZE FLUSHALL QUIT, and what clients ask for on connecting.\n"
	"A key or value has up to 512 MB, a command 1048576 arguments, an inline command 64 KB.\n";

static long read_number(const char *option, const char *text, long low, long high)
{
	long number = server_parse_number(text, low, high);

	if (number >= 0)
		return number;
	fprintf(stderr, "kvserver: --%s wants a number from %ld to %ld, not \"%s\"\n", option, low,
		high, text);
	exit(2);
}

static void read_options(struct options *o, int argc, char **argv)
{
	static const struct option known[] = {
		{ "port", required_argument, NULL, 'p' },
		{ "bind", required_argument, NULL, 'b' },
		{ "unix", required_argument, NULL, 'u' },
		{ "procs", required_argument, NULL, 'n' },
		{ "stats", no_argument, NULL, 's' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (c) {
		case 'p': o->port = read_number("port", optarg, 0, 65535); break;
		case 'b': o->bind = optarg; break;
		case 'u': o->unix_path = optarg; break;
		case 'n': o->procs = read_number("procs", optarg, 1, 1024); break;
		case 's': o->stats = true; break;
		case 'h': fputs(usage, stdout); exit(0);
		default: fputs("kvserver: see kvserver --help\n", stderr); exit(2);
		}
	}
	if (optind < argc) {
		fprintf(stderr, "kvserver: what is \"%s\"? see kvserver --help\n", argv[optind]);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	struct options o = { .bind = "127.0.0.1", .port = -1 };
	gmp_config config = GMP_CONFIG_INIT;
	int err;

	read_options(&o, argc, argv);
	config.procs = (int)o.procs;
	signal(SIGPIPE, SIG_IGN); /* stdout may be a pipe */
	o.signals = server_block_signals();
	err = o.signals < 0 ? o.signals : gmp_run(app, &o, &config);
	if (err) {
		fprintf(stderr, "kvserver: cannot start: %s\n", strerror(-err));
		return 1;
	}
	return o.status;
}
