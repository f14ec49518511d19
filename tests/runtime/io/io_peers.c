/* SPDX-License-Identifier: MIT */
/*
 * Tests a server with good and bad peers at the same time.
 *
 * Bad peers reset, stall, send a byte now and then, do not read, or close early. Each costs what
 * its deadline says, the good peers are served, and no fd leaks.
 */
#include "io_util.h"

/*
 * REQUEST is so long that a client which sends it byte by byte hits the server's timeout first,
 * however slow the machine is.
 */
enum { REQUEST = 4096, ANSWER = 16 << 20, EACH = 8 };

enum fate { ANSWERED, ENDED, CUT_SHORT, RESET, LATE_READ, LATE_WRITE, FATES };

static atomic_int fates[FATES];

/* A server with timeouts for reading a request and for writing the answer. */
struct server {
	const char *net;
	int64_t reads, writes;
	int fd;
	char addr[128];
};

/* Only servers whose peers always time out are strict, so a slow machine changes no result. */
static struct server strict_reader, strict_writer, patient;

static void note(enum fate f)
{
	atomic_fetch_add(&fates[f], 1);
}

static enum fate serve_one(int fd, const struct server *s)
{
	static char answer[ANSWER];
	char request[REQUEST];
	ssize_t n;

	CHECK_EQ(gmp_fd_set_deadline(fd, GMP_READ, gmp_deadline(s->reads)), 0);
	n = gmp_read_full(fd, request, sizeof(request));
	if (n == -ETIMEDOUT)
		return LATE_READ;
	if (n == -ECONNRESET)
		return RESET;
	CHECK(n >= 0);
	if (n < REQUEST)
		return n == 0 ? ENDED : CUT_SHORT;
	CHECK_EQ(gmp_fd_set_deadline(fd, GMP_WRITE, gmp_deadline(s->writes)), 0);
	n = gmp_write_all(fd, answer, request[0] == 'l' ? ANSWER : REQUEST);
	if (n == -ETIMEDOUT)
		return LATE_WRITE;
	CHECK(n > 0);
	return ANSWERED;
}

struct connection {
	int fd;
	const struct server *server;
};

static void serve(void *arg)
{
	struct connection c = *(struct connection *)arg;
	enum fate f;

	free(arg);
	do
		note(f = serve_one(c.fd, c.server));
	while (f == ANSWERED);
	CHECK_EQ(gmp_close(c.fd), 0);
}

static void accept_all(void *arg)
{
	const struct server *s = arg;
	int fd;

	while ((fd = gmp_accept(s->fd)) >= 0) {
		struct connection *c = malloc(sizeof(*c));

		CHECK(c != NULL);
		*c = (struct connection){ fd, s };
		CHECK_EQ(gmp_go(serve, c), 0);
	}
	CHECK_EQ(fd, -ECANCELED);
}

static int dial(const struct server *s)
{
	int fd = gmp_dial(s->net, s->addr);

	CHECK(fd >= 0);
	return fd;
}

static void good_client(UNUSED void *arg)
{
	char buf[REQUEST] = "s";
	int fd = dial(&patient);

	for (int i = 0; i < 20; i++) {
		CHECK_EQ(gmp_write_all(fd, buf, sizeof(buf)), sizeof(buf));
		CHECK_EQ(gmp_read_full(fd, buf, sizeof(buf)), sizeof(buf));
		buf[0] = 's';
		gmp_sleep(MS);
	}
	CHECK_EQ(gmp_close(fd), 0);
}

static void resetting_client(UNUSED void *arg)
{
	int fd = dial(&patient);

	CHECK_EQ(gmp_write(fd, "half a request", 14), 14);
	reset_on_close(fd);
	CHECK_EQ(gmp_close(fd), 0);
}

static void leaving_client(UNUSED void *arg)
{
	int fd = dial(&patient);
	char c;

	CHECK_EQ(gmp_write(fd, "half a request", 14), 14);
	CHECK_EQ(gmp_shutdown(fd, SHUT_WR), 0);
	CHECK_EQ(gmp_read(fd, &c, 1), 0);
	CHECK_EQ(gmp_close(fd), 0);
}

/* Waits until the server closes the connection. */
static void read_until_closed(int fd)
{
	char buf[16 << 10];
	ssize_t n;

	while ((n = gmp_read(fd, buf, sizeof(buf))) > 0)
		;
	CHECK(n == 0 || n == -ECONNRESET);
	CHECK_EQ(gmp_close(fd), 0);
}

static void stalling_client(UNUSED void *arg)
{
	int fd = dial(&strict_reader);
	ssize_t n = gmp_write(fd, "half a request", 14);

	/* on a slow machine the server may have closed before this write */
	CHECK(n == 14 || n == -EPIPE || n == -ECONNRESET);
	read_until_closed(fd);
}

/* Sends one byte at a time, so that the request as a whole exceeds the timeout. */
static void dripping_client(UNUSED void *arg)
{
	int fd = dial(&strict_reader);
	ssize_t n = 1;

	for (int i = 0; i < REQUEST - 1 && n == 1; i++) {
		n = gmp_write(fd, "x", 1);
		CHECK(n == 1 || n == -EPIPE || n == -ECONNRESET);
		gmp_sleep(strict_reader.reads / 8);
	}
	CHECK(n < 0);
	CHECK_EQ(gmp_close(fd), 0);
}

static void non_reading_client(UNUSED void *arg)
{
	char request[REQUEST] = "long";
	int fd = dial(&strict_writer);

	CHECK_EQ(gmp_write_all(fd, request, sizeof(request)), sizeof(request));
	/* until the server closes */
	CHECK_EQ(gmp_fd_wait(fd, GMP_READ, GMP_FOREVER), GMP_READ);
	while (atomic_load(&fates[LATE_WRITE]) < EACH)
		gmp_sleep(MS);
	read_until_closed(fd);
}

RT(bad_peers_time_out_and_good_peers_are_served)
{
	static const gmp_fn kinds[] = { good_client,     resetting_client, leaving_client,
					stalling_client, dripping_client,  non_reading_client };
	struct server *servers[] = { &strict_reader, &strict_writer, &patient };
	enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

	FOR_NETS(net)
	{
		gmp_g *a[3], *g[KINDS * EACH];
		int fds = count_fds(), tcp = strcmp(net, "tcp") == 0;

		strict_reader =
			(struct server){ .net = net, .reads = 100 * MS, .writes = PATIENCE };
		strict_writer =
			(struct server){ .net = net, .reads = PATIENCE, .writes = 100 * MS };
		patient = (struct server){ .net = net, .reads = PATIENCE, .writes = PATIENCE };
		for (int i = 0; i < FATES; i++)
			atomic_store(&fates[i], 0);
		for (int i = 0; i < 3; i++) {
			servers[i]->fd = listen_any(net, servers[i]->addr);
			a[i] = spawn(accept_all, servers[i]);
		}
		for (int i = 0; i < KINDS * EACH; i++)
			g[i] = spawn(kinds[i % KINDS], NULL);
		for (int i = 0; i < KINDS * EACH; i++)
			join(g[i]);
		WAIT_FOR(stats().greens == 4);
		CHECK_EQ(atomic_load(&fates[ANSWERED]), 20 * EACH);
		CHECK_EQ(atomic_load(&fates[ENDED]), EACH);
		CHECK_EQ(atomic_load(&fates[LATE_READ]), 2 * EACH);
		CHECK_EQ(atomic_load(&fates[LATE_WRITE]), EACH);
		/* a unix socket knows no reset of this kind */
		CHECK_EQ(atomic_load(&fates[RESET]), tcp ? EACH : 0);
		CHECK_EQ(atomic_load(&fates[CUT_SHORT]), tcp ? EACH : 2 * EACH);
		for (int i = 0; i < 3; i++) {
			CHECK_EQ(gmp_close(servers[i]->fd), 0);
			join(a[i]);
		}
		CHECK_EQ(count_fds(), fds);
		CHECK_EQ(stats().descriptors, 0);
	}
}

/* --- fd exhaustion under load --- */

enum { CLIENTS = 24, ROUNDS = 20 };

static atomic_int refused, done;

static void serve_until_eof(void *arg)
{
	int fd = (int)(intptr_t)arg;

	while (serve_one(fd, &patient) == ANSWERED)
		;
	CHECK_EQ(gmp_close(fd), 0);
}

static void accept_with_retries(void *arg)
{
	int l = (int)(intptr_t)arg, c;

	while ((c = gmp_accept(l)) != -ECANCELED && c != -EBADF) {
		if (c >= 0) {
			CHECK_EQ(gmp_go(serve_until_eof, (void *)(intptr_t)c), 0);
			continue;
		}
		CHECK_EQ(c, -EMFILE);
		atomic_fetch_add(&refused, 1);
		gmp_sleep(MS);
	}
}

static void dial_with_retries(UNUSED void *arg)
{
	char buf[REQUEST] = "s";

	for (int i = 0, fd; i < ROUNDS; i++) {
		while ((fd = gmp_dial("unix", patient.addr)) < 0) {
			CHECK_EQ(fd, -EMFILE);
			atomic_fetch_add(&refused, 1);
			gmp_sleep(MS);
		}
		CHECK_EQ(gmp_write_all(fd, buf, sizeof(buf)), sizeof(buf));
		CHECK_EQ(gmp_read_full(fd, buf, sizeof(buf)), sizeof(buf));
		buf[0] = 's';
		gmp_sleep(MS);
		CHECK_EQ(gmp_close(fd), 0);
	}
	atomic_fetch_add(&done, 1);
}

/* The RLIMIT_NOFILE that leaves n fds free. */
static rlim_t limit_with_free(int n)
{
	int limit = 0;

	for (; n > 0; limit++)
		n -= fcntl(limit, F_GETFD) < 0;
	return (rlim_t)limit;
}

RT(clients_at_fd_limit_are_all_served_eventually)
{
	check_skip_on_valgrind("Valgrind accepts, sees that the limit is passed, and closes");
	int l = listen_any("unix", patient.addr), fds = count_fds();
	gmp_g *a = spawn(accept_with_retries, (void *)(intptr_t)l), *g[CLIENTS];
	struct rlimit old, low;

	patient.reads = patient.writes = PATIENCE;
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = old;
	low.rlim_cur = limit_with_free(CLIENTS + 2); /* all clients at once need 2 * CLIENTS */
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
	for (int i = 0; i < CLIENTS; i++)
		g[i] = spawn(dial_with_retries, NULL);
	for (int i = 0; i < CLIENTS; i++)
		join(g[i]);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
	CHECK_EQ(atomic_load(&done), CLIENTS);
	CHECK(atomic_load(&refused) > 0);
	CHECK_EQ(gmp_close(l), 0);
	join(a);
	WAIT_FOR(stats().greens == 1);
	CHECK_EQ(stats().descriptors, 0);
	CHECK_EQ(count_fds(), fds - 1);
}
