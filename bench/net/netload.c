/* SPDX-License-Identifier: MIT */
/*
 * Load for an echo server: measures its rate, its latency and its CPU time per request.
 *
 *	netload --port PORT --pid PID [--connections N] [--seconds S] [--warm S]
 *	netload --port PORT --pid PID --idle N [--seconds S]
 *
 * The first form is a closed loop: each connection has one request of 32 bytes under way, which
 * holds the numbers of the connection and of the request.  The connection sends the next request
 * once the answer has arrived and equals the request.  The program prints, for the time after the
 * warm-up,
 *
 *	rate    requests a second
 *	cpu     ns of the server's CPU time a request, by the clock of its process
 *	p50 p99 p999
 *	        ns from the send of a request until its answer is read
 *
 * The second form makes one request on each of N connections and leaves them open.  It prints
 *
 *	memory  bytes a connection by which VmRSS + VmPTE of the server have grown
 *	cpu     per cent of a CPU that it uses over S seconds, from three seconds later on
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

enum { SIZE = 32, PATIENCE_MS = 10000 };

struct connection {
	int fd;
	unsigned have; /* bytes of the answer */
	int64_t sent_at;
	uint64_t request[SIZE / sizeof(uint64_t)];
	uint64_t answer[SIZE / sizeof(uint64_t) + 1]; /* room to notice a byte too many */
};

static struct {
	struct sockaddr_in server;
	clockid_t server_clock;
	int pid;
	int ep;
	int n;
	struct connection *c;
	bool counting;
	struct histogram latencies;
} load;

static int64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	if (clock_gettime(clock, &ts) != 0)
		die("the server's clock", errno);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int64_t now(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* ---------------------------------------------------------------- Connections */

static void send_next(struct connection *c, int64_t at)
{
	c->request[0]++;
	c->request[2] = c->request[0] * 0x9e3779b97f4a7c15u ^ c->request[1];
	c->request[3] = ~c->request[2];
	c->have = 0;
	c->sent_at = at;
	if (send(c->fd, c->request, SIZE, MSG_NOSIGNAL) != SIZE)
		die("send", errno);
}

static void connect_one(struct connection *c, int number)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLET, .data.ptr = c };

	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&load.server, sizeof(load.server)) != 0)
		die("connect", errno);
	no_delay(c->fd);
	c->request[1] = (uint64_t)number << 32 | 0x5eed;
	if (epoll_ctl(load.ep, EPOLL_CTL_ADD, c->fd, &e) != 0)
		die("epoll_ctl", errno);
}

static void connect_all(int n)
{
	load.c = calloc((size_t)n, sizeof(*load.c));
	load.ep = epoll_create1(EPOLL_CLOEXEC);
	if (!load.c || load.ep < 0)
		die("epoll_create1", errno);
	for (int i = 0; i < n; i++)
		connect_one(&load.c[i], i);
	load.n = n;
}

/* Returns true once the answer is complete. */
static bool receive(struct connection *c)
{
	ssize_t n =
		recv(c->fd, (char *)c->answer + c->have, sizeof(c->answer) - c->have, MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0)
		die("recv", n < 0 ? errno : ECONNRESET);
	c->have += (unsigned)n;
	if (c->have < SIZE)
		return receive(c);
	if (c->have > SIZE || memcmp(c->answer, c->request, SIZE) != 0)
		die("an answer is not what was sent", EPROTO);
	return true;
}

/* Receive answers until the given time, or until `most` have arrived. If `again`, send the next
 * request after each. Returns the time of the last answer. */
static int64_t exchange(int64_t until, uint64_t most, bool again)
{
	static struct epoll_event events[256];
	int64_t at = now();
	uint64_t answers = 0;

	while (at < until && answers < most) {
		int n = epoll_wait(load.ep, events, 256, PATIENCE_MS);

		if (n <= 0)
			die("no answer comes", n < 0 ? errno : ETIMEDOUT);
		for (int i = 0; i < n; i++) {
			struct connection *c = events[i].data.ptr;

			if (!receive(c))
				continue;
			at = now();
			answers++;
			if (load.counting)
				histogram_add(&load.latencies, (uint64_t)(at - c->sent_at));
			if (again)
				send_next(c, at);
		}
	}
	return at;
}

static void run_loop(int n, double seconds, double warm)
{
	connect_all(n);
	for (int i = 0; i < n; i++)
		send_next(&load.c[i], now());
	int64_t began = exchange(now() + (int64_t)(warm * 1e9), UINT64_MAX, true);
	int64_t cpu = clock_ns(load.server_clock);

	load.counting = true;
	int64_t ended = exchange(began + (int64_t)(seconds * 1e9), UINT64_MAX, true);

	cpu = clock_ns(load.server_clock) - cpu;
	printf("rate per_second %.1f\n",
	       (double)load.latencies.count * 1e9 / (double)(ended - began));
	printf("cpu ns %.1f\n", (double)cpu / (double)load.latencies.count);
	printf("p50 ns %llu\n", (unsigned long long)percentile(&load.latencies, 0.5));
	printf("p99 ns %llu\n", (unsigned long long)percentile(&load.latencies, 0.99));
	printf("p999 ns %llu\n", (unsigned long long)percentile(&load.latencies, 0.999));
}

/* -------------------------------------------------------------------- Idleness */

static long server_kib(void)
{
	char path[64], line[256];
	long sum = 0, kib;

	snprintf(path, sizeof(path), "/proc/%d/status", load.pid);
	FILE *f = fopen(path, "r");

	if (!f)
		die(path, errno);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "VmRSS: %ld", &kib) == 1 || sscanf(line, "VmPTE: %ld", &kib) == 1)
			sum += kib;
	fclose(f);
	return sum;
}

static void pause_ns(int64_t ns)
{
	struct timespec ts = { ns / 1000000000, ns % 1000000000 };

	nanosleep(&ts, NULL);
}

static void run_idle(int n, double seconds)
{
	long before = server_kib();

	connect_all(n);
	for (int i = 0; i < n; i++)
		send_next(&load.c[i], now());
	exchange(INT64_MAX, (uint64_t)n, false);
	pause_ns(3000000000);
	int64_t cpu = clock_ns(load.server_clock), began = now();

	pause_ns((int64_t)(seconds * 1e9));
	cpu = clock_ns(load.server_clock) - cpu;
	printf("memory bytes %.1f\n", (double)(server_kib() - before) * 1024 / n);
	printf("cpu percent %.4f\n", (double)cpu * 100 / (double)(now() - began));
}

/* --------------------------------------------------------------------- Options */

static int usage(void)
{
	fputs("usage: netload --port PORT --pid PID [--connections N | --idle N] [--seconds S]"
	      " [--warm S]\n",
	      stderr);
	return 2;
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		{ "port", required_argument, NULL, 'p' },
		{ "pid", required_argument, NULL, 's' },
		{ "connections", required_argument, NULL, 'c' },
		{ "idle", required_argument, NULL, 'i' },
		{ "seconds", required_argument, NULL, 't' },
		{ "warm", required_argument, NULL, 'w' },
		{ 0 },
	};
	double seconds = 2, warm = 0.5;
	int c, port = 0, n = 64, idle = 0;

	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (c) {
		case 'p': port = atoi(optarg); break;
		case 's': load.pid = atoi(optarg); break;
		case 'c': n = atoi(optarg); break;
		case 'i': idle = atoi(optarg); break;
		case 't': seconds = atof(optarg); break;
		case 'w': warm = atof(optarg); break;
		default: return usage();
		}
	}
	if (port <= 0 || load.pid <= 0 || n <= 0 || idle < 0 || seconds <= 0 || warm <= 0 ||
	    optind < argc)
		return usage();
	raise_limit();
	load.server = loopback(port);
	if (clock_getcpuclockid(load.pid, &load.server_clock) != 0)
		die("the server's clock", ESRCH);
	if (idle)
		run_idle(idle, seconds);
	else
		run_loop(n, seconds, warm);
	return 0;
}
