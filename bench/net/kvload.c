/* SPDX-License-Identifier: MIT */
/*
 * Mixed load for a server with Redis's protocol: latency of GET beside commands that compute.
 *
 *	kvload --port PORT [--connections N] [--computing N] [--ms MS] [--seconds S]
 *		[--warm S] [--lua]
 *
 * A closed loop: each connection has one command under way, and sends the next one when it has the
 * answer.  --computing of the connections send a command that computes for --ms milliseconds, and
 * the others send GET of one of KEYS keys.  The command that computes is "COMPUTE rounds", or with
 * --lua an EVAL of a loop with as many rounds.  The number of rounds is calibrated while nothing
 * else is sent, by the fastest of CALIBRATIONS commands of 1 to 2 ms: these are shorter than a time
 * slice of the kernel, so the work of a command does not depend on the load of the machine.
 *
 * Each answer is compared with the expected one.  The program prints, for the time after the
 * warm-up,
 *
 *	rate      GETs a second
 *	p50 p99 p999
 *	          ns from the send of a GET until its answer is read
 *	computes  commands that compute, a second
 *	compute   ns of such a command, median
 *
 * If an answer is wrong, or none arrives for ten seconds, it prints the reason and ends with
 * status 1.
 */
#include "histogram.h"
#include "tcp.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <time.h>

enum {
	KEYS = 1000,
	VALUE = 64,
	TEXT = 512,
	CALIBRATIONS = 50,
	CALIBRATION_NS = 1000000,
	FIRST_ROUNDS = 1 << 14,
	PATIENCE_MS = 10000,
};

struct connection {
	int fd;
	bool computes;
	unsigned have; /* bytes of the answer */
	int64_t sent_at;
	const char *expected;
	char answer[TEXT];
};

static struct {
	struct sockaddr_in server;
	bool lua;
	int ep;
	int n;
	struct connection *c;
	uint64_t rand;
	char value[VALUE + 16]; /* the answer to GET */
	char compute[TEXT];     /* the command that computes */
	char computed[TEXT];    /* the answer to it */
	bool counting;
	struct histogram gets, computes;
} load = { .rand = 88172645463325252u };

static int64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void send_text(int fd, const char *text)
{
	size_t n = strlen(text);

	if (send(fd, text, n, MSG_NOSIGNAL) != (ssize_t)n)
		die("send", errno);
}

static int connect_to_server(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&load.server, sizeof(load.server)) != 0)
		die("connect", errno);
	no_delay(fd);
	return fd;
}

/* -------------------------------------------------------- Before the measurement */

/* Read an answer of one line into `to`, which has room for TEXT bytes. */
static void receive_line(int fd, char *to)
{
	size_t have = 0;

	while (have < 2 || to[have - 1] != '\n') {
		ssize_t n = recv(fd, to + have, TEXT - 1 - have, 0);

		if (n <= 0)
			die("recv", n < 0 ? errno : EPROTO);
		have += (size_t)n;
	}
	to[have] = '\0';
}

static void set_keys(int fd)
{
	char text[TEXT], answer[TEXT], value[VALUE + 1];

	memset(value, 'v', VALUE);
	value[VALUE] = '\0';
	snprintf(load.value, sizeof(load.value), "$%d\r\n%s\r\n", VALUE, value);
	for (int i = 0; i < KEYS; i++) {
		snprintf(text, sizeof(text), "*3\r\n$3\r\nSET\r\n$8\r\nkey:%04d\r\n$%d\r\n%s\r\n",
			 i, VALUE, value);
		send_text(fd, text);
		receive_line(fd, answer);
		if (strcmp(answer, "+OK\r\n") != 0)
			die("SET", EPROTO);
	}
}

static void set_rounds(int64_t rounds)
{
	static const char script[] = "local x = 0 for i = 1, tonumber(ARGV[1]) do"
				     " x = (x * 5 + i) % 65521 end return x";
	char digits[24];
	int n = snprintf(digits, sizeof(digits), "%lld", (long long)rounds);

	if (load.lua)
		snprintf(load.compute, TEXT,
			 "*4\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$1\r\n0\r\n$%d\r\n%s\r\n",
			 sizeof(script) - 1, script, n, digits);
	else
		snprintf(load.compute, TEXT, "*2\r\n$7\r\nCOMPUTE\r\n$%d\r\n%s\r\n", n, digits);
}

/* Returns the ns of the fastest of `times` commands. */
static int64_t time_compute(int fd, int times)
{
	int64_t best = INT64_MAX;

	while (times-- > 0) {
		int64_t began = now();

		send_text(fd, load.compute);
		receive_line(fd, load.computed);
		if (load.computed[0] != ':')
			die(load.computed, EPROTO);
		int64_t took = now() - began;

		best = took < best ? took : best;
	}
	return best;
}

static void calibrate(int fd, double ms)
{
	int64_t rounds = FIRST_ROUNDS;

	for (;; rounds *= 2) {
		set_rounds(rounds);
		if (time_compute(fd, 5) >= CALIBRATION_NS)
			break;
	}
	set_rounds((int64_t)((double)rounds * ms * 1e6 / (double)time_compute(fd, CALIBRATIONS)));
	time_compute(fd, 1); /* the expected answer */
}

/* ------------------------------------------------------------------ The clients */

static void send_next(struct connection *c, int64_t at)
{
	char get[64];

	c->have = 0;
	c->sent_at = at;
	if (c->computes) {
		c->expected = load.computed;
		send_text(c->fd, load.compute);
		return;
	}
	load.rand ^= load.rand << 13;
	load.rand ^= load.rand >> 7;
	load.rand ^= load.rand << 17;
	c->expected = load.value;
	snprintf(get, sizeof(get), "*2\r\n$3\r\nGET\r\n$8\r\nkey:%04u\r\n",
		 (unsigned)(load.rand % KEYS));
	send_text(c->fd, get);
}

static void connect_all(int n, int computing)
{
	load.n = n;
	load.c = calloc((size_t)n, sizeof(*load.c));
	load.ep = epoll_create1(EPOLL_CLOEXEC);
	if (!load.c || load.ep < 0)
		die("epoll_create1", errno);
	for (int i = 0; i < n; i++) {
		struct connection *c = &load.c[i];
		struct epoll_event e = { .events = EPOLLIN, .data.ptr = c };

		c->fd = connect_to_server();
		c->computes = i < computing;
		if (epoll_ctl(load.ep, EPOLL_CTL_ADD, c->fd, &e) != 0)
			die("epoll_ctl", errno);
	}
}

/* Returns true once the answer is complete. */
static bool receive(struct connection *c)
{
	size_t want = strlen(c->expected);
	ssize_t n = recv(c->fd, c->answer + c->have, TEXT - c->have, MSG_DONTWAIT);

	if (n <= 0)
		die("recv", n < 0 ? errno : ECONNRESET);
	c->have += (unsigned)n;
	if (c->have < want)
		return false;
	if (c->have > want || memcmp(c->answer, c->expected, want) != 0)
		die("an answer is not the expected one", EPROTO);
	return true;
}

/* Returns the time of the last answer. */
static int64_t exchange(int64_t until)
{
	static struct epoll_event events[256];
	int64_t at = now();

	while (at < until) {
		int n = epoll_wait(load.ep, events, 256, PATIENCE_MS);

		if (n <= 0)
			die("no answer comes", n < 0 ? errno : ETIMEDOUT);
		for (int i = 0; i < n; i++) {
			struct connection *c = events[i].data.ptr;

			if (!receive(c))
				continue;
			at = now();
			if (load.counting)
				histogram_add(c->computes ? &load.computes : &load.gets,
					      (uint64_t)(at - c->sent_at));
			send_next(c, at);
		}
	}
	return at;
}

static void print_ns(const char *figure, const struct histogram *h, double share)
{
	printf("%s ns %llu\n", figure, (unsigned long long)percentile(h, share));
}

static void run(double seconds, double warm)
{
	for (int i = 0; i < load.n; i++)
		send_next(&load.c[i], now());
	int64_t began = exchange(now() + (int64_t)(warm * 1e9));

	load.counting = true;
	double took = (double)(exchange(began + (int64_t)(seconds * 1e9)) - began) / 1e9;

	printf("rate per_second %.1f\n", (double)load.gets.count / took);
	print_ns("p50", &load.gets, 0.5);
	print_ns("p99", &load.gets, 0.99);
	print_ns("p999", &load.gets, 0.999);
	printf("computes per_second %.1f\n", (double)load.computes.count / took);
	print_ns("compute", &load.computes, 0.5);
}

/* --------------------------------------------------------------------- Options */

static int usage(void)
{
	fputs("usage: kvload --port PORT [--connections N] [--computing N] [--ms MS] [--seconds S]"
	      " [--warm S] [--lua]\n",
	      stderr);
	return 2;
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		{ "port", required_argument, NULL, 'p' },
		{ "connections", required_argument, NULL, 'c' },
		{ "computing", required_argument, NULL, 'b' },
		{ "ms", required_argument, NULL, 'm' },
		{ "seconds", required_argument, NULL, 't' },
		{ "warm", required_argument, NULL, 'w' },
		{ "lua", no_argument, NULL, 'l' },
		{ 0 },
	};
	double seconds = 2, warm = 0.5, ms = 20;
	int c, port = 0, n = 50, computing = 2;

	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (c) {
		case 'p': port = atoi(optarg); break;
		case 'c': n = atoi(optarg); break;
		case 'b': computing = atoi(optarg); break;
		case 'm': ms = atof(optarg); break;
		case 't': seconds = atof(optarg); break;
		case 'w': warm = atof(optarg); break;
		case 'l': load.lua = true; break;
		default: return usage();
		}
	}
	if (port <= 0 || computing < 0 || n <= computing || ms <= 0 || seconds <= 0 || warm <= 0 ||
	    optind < argc)
		return usage();
	raise_limit();
	load.server = loopback(port);
	int fd = connect_to_server();

	set_keys(fd);
	if (computing)
		calibrate(fd, ms);
	connect_all(n, computing);
	run(seconds, warm);
	return 0;
}
