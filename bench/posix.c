/* SPDX-License-Identifier: MIT */
/*
 * Measures replaced read and write against gmp_read and gmp_write, on one P.
 *
 *	gmp-posix gmp|hooked KIND COUNT
 *
 * sends one byte back and forth COUNT times between two green threads with own thread-locals, after
 * a warm-up, and prints the nanoseconds of CPU time of a round trip. Each half of it is a write, a
 * read that finds nothing, a park and the poller. bench/posix runs both sides alternately.
 *
 *   KIND  unix: a socketpair; tcp: a connection to 127.0.0.1; pipe: two pipes
 *
 * gmp: the descriptors are adopted, so they are non-blocking; hooked: they stay blocking.
 */
#include <arpa/inet.h>
#include <gmp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int hooked;
static int64_t count;
static double result;

struct end {
	int in, out;
};

static struct end ends[2];

static void need(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "gmp-posix: %s\n", what);
	exit(1);
}

static int64_t cpu_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void get(const struct end *e)
{
	char buf[64];

	need((hooked ? read(e->in, buf, sizeof(buf)) : gmp_read(e->in, buf, sizeof(buf))) == 1,
	     "read");
}

static void put(const struct end *e)
{
	need((hooked ? write(e->out, "x", 1) : gmp_write(e->out, "x", 1)) == 1, "write");
}

static void answer(void *arg)
{
	(void)arg;
	for (int64_t i = -count / 8; i < count; i++) {
		get(&ends[1]);
		put(&ends[1]);
	}
}

static void ask(void)
{
	int64_t began = 0;

	for (int64_t i = -count / 8; i < count; i++) {
		if (i == 0)
			began = cpu_now();
		put(&ends[0]);
		get(&ends[0]);
	}
	result = (double)(cpu_now() - began) / (double)count;
}

/* --- descriptors --- */

static void make_pipes(void)
{
	int a[2], b[2];

	need(pipe(a) == 0 && pipe(b) == 0, "pipe");
	ends[0] = (struct end){ a[0], b[1] };
	ends[1] = (struct end){ b[0], a[1] };
}

static void make_pair(void)
{
	int s[2];

	need(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0, "socketpair");
	for (int i = 0; i < 2; i++)
		ends[i] = (struct end){ s[i], s[i] };
}

static void make_tcp(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof(a);
	int l = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0), s, one = 1;

	need(bind(l, (struct sockaddr *)&a, n) == 0 && listen(l, 1) == 0, "listen");
	need(getsockname(l, (struct sockaddr *)&a, &n) == 0, "getsockname");
	need(connect(c, (struct sockaddr *)&a, n) == 0, "connect");
	s = accept(l, NULL, NULL);
	need(s >= 0, "accept");
	setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	ends[0] = (struct end){ c, c };
	ends[1] = (struct end){ s, s };
}

static void adopt_all(void)
{
	for (int i = 0; i < 2 && !hooked; i++) {
		need(gmp_fd_adopt(ends[i].in) >= 0, "gmp_fd_adopt");
		need(ends[i].in == ends[i].out || gmp_fd_adopt(ends[i].out) >= 0, "gmp_fd_adopt");
	}
}

static void app(void *kind)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g;

	if (strcmp(kind, "pipe") == 0)
		make_pipes();
	else if (strcmp(kind, "unix") == 0)
		make_pair();
	else
		make_tcp();
	adopt_all();
	a.flags = GMP_OWN_TLS;
	need(gmp_spawn(&g, answer, NULL, &a) == 0, "gmp_spawn");
	ask();
	gmp_join(g);
}

int main(int argc, char **argv)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	if (argc != 4) {
		fprintf(stderr, "usage: gmp-posix gmp|hooked unix|tcp|pipe COUNT\n");
		return 2;
	}
	hooked = strcmp(argv[1], "hooked") == 0;
	count = atoll(argv[3]);
	cfg.procs = 1;
	cfg.flags = GMP_OWN_TLS;
	int err = gmp_run(app, argv[2], &cfg);

	if (err == -ENOTSUP)
		return 77;
	need(err == 0 && result > 0, "gmp_run");
	printf("%.1f\n", result);
	return 0;
}
