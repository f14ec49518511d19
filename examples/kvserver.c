/* SPDX-License-Identifier: MIT */
/*
 * Key-value server: speaks Redis's protocol (RESP2), with sequential code for each connection.
 *
 *   $ kvserver --port 7379 &
 *   $ redis-cli -p 7379 set name value
 *   $ redis-benchmark -p 7379 -t get,set -r 100000 -P 16
 *
 * It implements some of the commands of Redis. server.c accepts connections, resp.c parses
 * requests, kvcommand.c answers them, kvtable.c stores the keys, and kvsession.c holds the state of
 * a connection. For each connection, a green thread repeats three steps of this file:
 *
 *   1. read once;
 *   2. answer every received request, to one buffer;
 *   3. write that buffer, once.
 *
 * Pipelined requests therefore cost two system calls for all of them. A client that does not read
 * its answers stops its own green thread in step 3, and no other.
 *
 * --arch chooses which green thread uses the table in step 2:
 *
 *   conn      that of the connection, under the table's locks
 *   owner     one for all connections, which send their requests to it (kvowner.c)
 *   reactor   none: an event loop of libuv in one OS thread (kvreactor.c), for comparison
 *
 * Limits for hostile clients, in all three:
 *
 *   - The table's hash has a random key (siphash.h), so a client cannot choose keys that collide.
 *   - A command runs in steps of up to KV_HOLD_KEYS keys, and commands of other clients run in
 *     between (kvcommand.h).
 *   - A request has up to RESP_MAX_REQUEST bytes and RESP_MAX_ARGS arguments.
 *   - Answers are written once there are KV_FULL bytes, and the commands of the client stop until
 *     it has read them (kvsession.h).
 *   - A connection is closed if the client sends nothing for --timeout seconds, or acknowledges
 *     nothing for --write-timeout seconds while answers wait. The latter also holds after the
 *     client has closed its sending half (server.h, struct server_writer).
 */
#include "kvowner.h"
#include "kvreactor.h"
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
#include <sys/un.h>
#include <unistd.h>

#define SWEEP_PERIOD 250000000 /* ns */
#define SECOND 1000000000LL    /* ns */

/* --------------------------------------------------------------- A connection */

struct service {
	struct kv_table *table;
	struct kv_owner *owner; /* NULL: each connection runs its own requests */
	int64_t read_timeout;   /* ns; 0: none */
	int64_t write_timeout;
};

struct connection {
	int fd;
	const struct service *service;
	struct kv_session *session;
	struct server_writer writer;
	gmp_chan *done;   /* receives when the owner has run the requests; NULL without an owner */
	int64_t read_due; /* when the read deadline must be moved */
};

/* Give the next read at least the timeout. The deadline is an eighth of the timeout later, so that
 * it is moved once per eighth instead of for each read. */
static void extend_read_deadline(struct connection *c)
{
	int64_t timeout = c->service->read_timeout;
	int64_t now;

	if (timeout == 0)
		return;
	now = gmp_now();
	if (now < c->read_due)
		return;
	gmp_fd_set_deadline(c->fd, GMP_READ, now + timeout + timeout / 8);
	c->read_due = now + timeout / 8;
}

/* Read once. Returns false at the end of the stream, and if the client was idle for too long. */
static bool receive(struct connection *c)
{
	size_t room;
	char *at = kv_session_room(c->session, &room);
	ssize_t n;

	if (!at)
		return false;
	extend_read_deadline(c);
	n = gmp_read(c->fd, at, room);
	if (n > 0)
		kv_session_received(c->session, (size_t)n);
	return n > 0;
}

static bool run(struct connection *c)
{
	bool done = true;

	if (c->service->owner)
		done = kv_owner_run(c->service->owner, c->session, c->done);
	else
		kv_session_run(c->session);
	if (done)
		kv_session_compute(c->session);
	return done;
}

/* Write all answers. Returns false if the connection has failed, or the client is without
 * progress. */
static bool flush(struct connection *c)
{
	const char *at;
	size_t n;

	while ((at = kv_session_output(c->session, &n))) {
		ssize_t sent = server_write(&c->writer, at, n);

		if (sent <= 0)
			return false;
		kv_session_sent(c->session, (size_t)sent);
	}
	return true;
}

/* Answer the received requests. Returns false if the connection must end. */
static bool answer(struct connection *c)
{
	while (kv_session_parse(c->session)) {
		if (!run(c) || (kv_session_is_full(c->session) && !flush(c)))
			return false;
		gmp_checkpoint();
	}
	return flush(c) && !c->session->client.closing;
}

/*
 * If a socket is closed while it holds unread bytes, the kernel resets the connection, and the
 * client may lose the last answer, which reports the error. Therefore shut down the sending half,
 * and discard input for a limited time.
 */
static void say_farewell(int fd)
{
	ssize_t left = KV_FAREWELL;
	char bytes[4096];
	ssize_t n = 1;

	gmp_shutdown(fd, SHUT_WR);
	gmp_fd_set_deadline(fd, GMP_READ, gmp_deadline(KV_FAREWELL_SECONDS * SECOND));
	while (left > 0 && n > 0) {
		n = gmp_read(fd, bytes, sizeof(bytes));
		left -= n;
	}
}

static void set_socket_options(int fd)
{
	const int on = 1;
	const int idle_seconds = 300;

	/* These fail on a unix socket, where none of them is needed. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_seconds, sizeof(idle_seconds));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

static void serve(int fd, void *arg)
{
	const struct service *service = arg;
	struct connection c = {
		.fd = fd,
		.service = service,
		.writer = { .fd = fd, .patience = service->write_timeout },
	};

	c.session = kv_session_new(service->table, service->owner ? KV_BATCH : 1);
	c.done = service->owner ? gmp_chan_new(0, 1) : NULL;
	if (c.session && (c.done || !service->owner)) {
		set_socket_options(fd);
		while (receive(&c) && answer(&c))
			gmp_checkpoint();
		if (c.session->client.closing)
			say_farewell(fd);
	}
	gmp_chan_free(c.done);
	kv_session_free(c.session);
}

/* ------------------------------------------------------------------ The server */

enum arch { CONN, OWNER, REACTOR };

struct options {
	enum arch arch;
	const char *bind;
	const char *unix_path;
	const char *debug; /* address of the debug server; NULL: none */
	long port;         /* -1: do not listen on TCP */
	long procs;
	long timeout; /* seconds; 0: none */
	long write_timeout;
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
	PRINT(preemptions);
	PRINT(preempted_ns);
	PRINT(timers_fired);
	PRINT(latency_p50);
	PRINT(latency_p99);
	PRINT(latency_max);
#undef PRINT
}

/* Remove the socket of a server that was killed. Otherwise a bind to its path would fail. */
static void remove_stale_socket(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct stat st;
	int fd;

	if (strlen(path) >= sizeof(addr.sun_path) || lstat(path, &st) != 0 || !S_ISSOCK(st.st_mode))
		return;
	memcpy(addr.sun_path, path, strlen(path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return;
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0 && errno == ECONNREFUSED)
		unlink(path);
	close(fd);
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

	if (o->unix_path && listen_on(server, "unix", o->unix_path) < 0)
		return -1;
	if (o->port < 0)
		return 0;
	snprintf(addr, sizeof(addr), "%s:%ld", o->bind, o->port);
	return listen_on(server, "tcp", addr);
}

static void sweep(void *arg)
{
	struct service *service = arg;

	if (service->owner)
		kv_owner_sweep(service->owner);
	else
		kv_sweep(service->table);
}

/* Returns 0 or -1. */
static int listen_debug(const struct options *o)
{
	int port = o->debug ? gmp_debug_listen(o->debug) : 0;

	if (port < 0)
		fprintf(stderr, "kvserver: cannot listen on %s: %s\n", o->debug, strerror(-port));
	else if (port > 0)
		printf("kvserver: debug server on http://127.0.0.1:%d/debug/\n", port);
	fflush(stdout);
	return port < 0 ? -1 : 0;
}

/* Listen, and serve until a signal arrives. */
static void run_service(struct options *o, struct service *service)
{
	struct server server = { .serve = serve, .arg = service, .name = "kvserver" };

	if (listen_debug(o) == 0 && listen_everywhere(&server, o) == 0) {
		server_wait_for_signal(o->signals);
		o->status = 0;
	}
	if (server_end(&server) < 0) {
		fprintf(stderr, "kvserver: some connections did not end in time\n");
		_exit(1); /* their green threads still use the table */
	}
	if (o->stats)
		print_stats();
}

static void app(void *arg)
{
	struct options *o = arg;
	struct kv_owner owner;
	struct service service = {
		.table = kv_table_new(),
		.read_timeout = o->timeout * SECOND,
		.write_timeout = o->write_timeout * SECOND,
	};
	gmp_timer *sweeper = gmp_timer_new(sweep, &service);
	int err = service.table && sweeper ? 0 : -ENOMEM;

	o->status = 1;
	if (!err && o->arch == OWNER) {
		err = kv_owner_start(&owner, service.table);
		service.owner = &owner;
	}
	if (err) {
		fprintf(stderr, "kvserver: cannot start: %s\n", strerror(-err));
	} else {
		gmp_timer_set(sweeper, gmp_deadline(SWEEP_PERIOD), SWEEP_PERIOD);
		run_service(o, &service);
	}
	gmp_timer_free(sweeper);
	if (!err && service.owner)
		kv_owner_stop(service.owner);
	kv_table_free(service.table);
}

static int run_gmp(struct options *o)
{
	gmp_config config = GMP_CONFIG_INIT;
	int err;

	config.procs = (int)o->procs;
	o->signals = server_block_signals();
	err = o->signals < 0 ? o->signals : gmp_run(app, o, &config);
	if (err) {
		fprintf(stderr, "kvserver: cannot start: %s\n", strerror(-err));
		return 1;
	}
	return o->status;
}

static const char usage[] =
	"usage: kvserver [options]\n"
	"  --arch ARCH   what uses the table: conn, every connection, under locks (the default);\n"
	"                owner, one green thread, asked over channels; reactor, an event loop of\n"
	"                libuv without green threads, for comparison\n"
	"  --port PORT   listen on this TCP port (default 7379; 0 takes any free one)\n"
	"  --bind HOST   at this address (default 127.0.0.1)\n"
	"  --unix PATH   listen on a unix socket; on TCP too if --port is given\n"
	"  --procs N     run on N processors at a time (default: all there are; reactor: on one)\n"
	"  --timeout SECONDS        close clients that send nothing for so long (default 300;\n"
	"                           0: never)\n"
	"  --write-timeout SECONDS  close clients that read nothing for so long while answers\n"
	"                           wait (default 60; 0: never)\n"
	"  --debug ADDR  serve metrics, dumps, traces and profiles over HTTP at this address, such "
	"as\n"
	"                6060, which is 127.0.0.1:6060 (see docs/api/debug-server.md; not "
	"reactor)\n"
	"  --stats       print the scheduler's counters at the end (reactor: it has none)\n"
	"  --help        print this\n"
	"\n"
	"Ends on SIGINT and SIGTERM.  Commands: PING ECHO SET (EX PX NX XX) GET DEL EXISTS INCR\n"
	"MGET MSET EXPIRE TTL DBSIZE FLUSHALL QUIT, and what clients ask for on connecting.\n"
	"COMPUTE ROUNDS uses CPU time and no key, for measurements: 1 to 2 ns per round.\n"
	"A command has up to 64 MB and 1048576 arguments, an inline command 64 KB.  A command of\n"
	"more than 64 keys or 64 KB is not atomic: commands of other clients run in between.\n";

#define SECONDS_MOST (1L << 30) /* of a timeout */

static long read_number(const char *option, const char *text, long low, long high)
{
	long number = server_parse_number(text, low, high);

	if (number >= 0)
		return number;
	fprintf(stderr, "kvserver: --%s wants a number from %ld to %ld, not \"%s\"\n", option, low,
		high, text);
	exit(2);
}

static enum arch read_arch(const char *name)
{
	static const char *const names[] = {
		[CONN] = "conn", [OWNER] = "owner", [REACTOR] = "reactor"
	};

	for (int i = CONN; i <= REACTOR; i++)
		if (strcmp(name, names[i]) == 0)
			return (enum arch)i;
	fprintf(stderr, "kvserver: --arch is conn, owner or reactor, not \"%s\"\n", name);
	exit(2);
}

static void read_options(struct options *o, int argc, char **argv)
{
	static const struct option known[] = {
		{ "arch", required_argument, NULL, 'a' },
		{ "port", required_argument, NULL, 'p' },
		{ "bind", required_argument, NULL, 'b' },
		{ "unix", required_argument, NULL, 'u' },
		{ "procs", required_argument, NULL, 'n' },
		{ "debug", required_argument, NULL, 'd' },
		{ "stats", no_argument, NULL, 's' },
		{ "timeout", required_argument, NULL, 't' },
		{ "write-timeout", required_argument, NULL, 'w' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (c) {
		case 'a': o->arch = read_arch(optarg); break;
		case 'p': o->port = read_number("port", optarg, 0, 65535); break;
		case 'b': o->bind = optarg; break;
		case 'u': o->unix_path = optarg; break;
		case 'n': o->procs = read_number("procs", optarg, 1, 1024); break;
		case 't': o->timeout = read_number("timeout", optarg, 0, SECONDS_MOST); break;
		case 'w':
			o->write_timeout = read_number("write-timeout", optarg, 0, SECONDS_MOST);
			break;
		case 'd': o->debug = optarg; break;
		case 's': o->stats = true; break;
		case 'h': fputs(usage, stdout); exit(0);
		default: fputs("kvserver: see kvserver --help\n", stderr); exit(2);
		}
	}
	if (optind < argc) {
		fprintf(stderr, "kvserver: what is \"%s\"? see kvserver --help\n", argv[optind]);
		exit(2);
	}
	if (o->port < 0 && !o->unix_path)
		o->port = 7379;
}

int main(int argc, char **argv)
{
	struct options o = { .bind = "127.0.0.1", .port = -1, .timeout = 300, .write_timeout = 60 };
	int status;

	read_options(&o, argc, argv);
	signal(SIGPIPE, SIG_IGN); /* stdout may be a pipe */
	if (o.unix_path)
		remove_stale_socket(o.unix_path);
	status = o.arch == REACTOR
			 ? kv_reactor_run(o.unix_path, o.bind, o.port, o.timeout, o.write_timeout)
			 : run_gmp(&o);
	if (o.unix_path && status == 0)
		unlink(o.unix_path);
	return status;
}
