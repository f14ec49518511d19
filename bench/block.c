/* SPDX-License-Identifier: MIT */
/*
 * Measures the cost of blocking sections, and of fifty blocked calls for a computing green thread.
 *
 * "block/short": one gmp_block_enter and gmp_block_leave around nothing.
 * "block/50:wall": time until fifty green threads have slept 200 ms in the kernel, all at once.
 * "block/50:lost": share of its speed that a computing green thread loses meanwhile.
 * "block/echo": fifty green threads call a blocking library, which asks a server and waits for the
 * answer; "block/echo pthread": the same with fifty OS threads.
 */
#define _GNU_SOURCE 1
#include "shim.h"

#include <gmp.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void short_section(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t t0 = 0, t1;

	for (int64_t i = -c->count / 8; i < c->count; i++) {
		if (i == 0)
			t0 = bench_clock();
		gmp_block_enter();
		gmp_block_leave();
	}
	t1 = bench_clock();
	bench_time(st, t1 - t0, c->count);
}

/* --- fifty at once --- */

enum { SLEEP_NS = 200000000 };

static gmp_wg done, ended;
static int64_t turns, stop;

static void sleep_in_kernel(void *arg)
{
	struct timespec t = { 0, SLEEP_NS };

	(void)arg;
	gmp_block_enter();
	while (nanosleep(&t, &t) < 0)
		;
	gmp_block_leave();
	gmp_wg_done(&done);
}

/* An iteration is some microseconds of arithmetic. */
static void compute(void *arg)
{
	volatile uint64_t x = 1;

	(void)arg;
	while (!bench_load(&stop)) {
		for (int i = 0; i < 4000; i++)
			x = x * 3 + 1;
		bench_add(&turns, 1);
		gmp_checkpoint();
	}
	gmp_wg_done(&ended);
}

/* Returns the iterations per ns of `compute` while n green threads sleep, and sets *wall to the ns
 * until all of these have ended. */
static double pace(int64_t n, int64_t *wall)
{
	int64_t t0, had;

	turns = stop = 0;
	gmp_wg_add(&ended, 1);
	bench_check(gmp_go(compute, NULL) == 0, "gmp_go");
	gmp_sleep(20000000); /* until it has begun and the CPU has its full speed */
	gmp_wg_add(&done, (int)n);
	had = bench_load(&turns);
	t0 = bench_clock();
	for (int64_t i = 0; i < n; i++)
		bench_check(gmp_go(sleep_in_kernel, NULL) == 0, "gmp_go");
	if (n == 0)
		gmp_sleep(SLEEP_NS);
	gmp_wg_wait(&done);
	*wall = bench_clock() - t0;
	had = bench_load(&turns) - had;
	bench_store(&stop, 1);
	gmp_wg_wait(&ended);
	return (double)had / (double)*wall;
}

static void fifty(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t alone_wall, wall;
	double alone = pace(0, &alone_wall), beside = pace(c->n, &wall);

	bench_check(wall >= SLEEP_NS, "woke too early");
	bench_value(st, "wall", "ms", (double)wall / 1e6);
	bench_value(st, "lost", "percent", beside < alone ? 100 - 100 * beside / alone : 0);
}

/* --- calls of some 50 us --- */

enum { CLIENTS = 50, SERVICE_NS = 10000, REQUEST = 32 };

static int pairs[CLIENTS][2];
static int64_t calls, answered;
static pthread_barrier_t all_there;

/* OS thread: answers each request after SERVICE_NS of computing, until all clients have closed. */
static void *server(void *arg)
{
	struct epoll_event ev[CLIENTS];
	int ep = epoll_create1(EPOLL_CLOEXEC), left = CLIENTS;
	char buf[REQUEST];

	(void)arg;
	bench_check(ep >= 0, "epoll_create1");
	for (int i = 0; i < CLIENTS; i++) {
		ev[0] = (struct epoll_event){ .events = EPOLLIN, .data.fd = pairs[i][1] };
		bench_check(epoll_ctl(ep, EPOLL_CTL_ADD, pairs[i][1], &ev[0]) == 0, "epoll_ctl");
	}
	while (left > 0) {
		int n = epoll_wait(ep, ev, CLIENTS, -1);

		for (int i = 0; i < n; i++) {
			int fd = ev[i].data.fd;
			ssize_t got = read(fd, buf, sizeof(buf));

			if (got <= 0) {
				close(fd);
				left--;
				continue;
			}
			for (int64_t end = bench_clock() + SERVICE_NS; bench_clock() < end;)
				;
			bench_check(write(fd, buf, (size_t)got) == got, "write");
		}
	}
	close(ep);
	return NULL;
}

static void call(int fd)
{
	char buf[REQUEST] = { 'q' };

	bench_check(write(fd, buf, sizeof(buf)) == REQUEST, "write");
	bench_check(read(fd, buf, sizeof(buf)) == REQUEST && buf[0] == 'q', "read");
	bench_add(&answered, 1);
}

static void call_green(void *fd)
{
	for (int64_t i = 0; i < calls; i++)
		gmp_blocking(call((int)(intptr_t)fd));
	gmp_wg_done(&done);
}

static void *call_thread(void *fd)
{
	pthread_barrier_wait(&all_there);
	for (int64_t i = 0; i < calls; i++)
		call((int)(intptr_t)fd);
	return NULL;
}

static int64_t by_greens(void)
{
	int64_t t0 = bench_clock();

	gmp_wg_add(&done, CLIENTS);
	for (int i = 0; i < CLIENTS; i++)
		bench_check(gmp_go(call_green, (void *)(intptr_t)pairs[i][0]) == 0, "gmp_go");
	gmp_wg_wait(&done);
	return bench_clock() - t0;
}

static int64_t by_threads(void)
{
	pthread_t t[CLIENTS];
	int64_t t0;

	pthread_barrier_init(&all_there, NULL, CLIENTS + 1);
	for (int i = 0; i < CLIENTS; i++)
		bench_check(pthread_create(&t[i], NULL, call_thread,
					   (void *)(intptr_t)pairs[i][0]) == 0,
			    "pthread_create");
	pthread_barrier_wait(&all_there);
	t0 = bench_clock();
	for (int i = 0; i < CLIENTS; i++)
		pthread_join(t[i], NULL);
	pthread_barrier_destroy(&all_there);
	return bench_clock() - t0;
}

static void echo(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	pthread_t partner;
	int64_t ns;

	calls = c->count / CLIENTS;
	answered = 0;
	for (int i = 0; i < CLIENTS; i++)
		bench_check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pairs[i]) == 0,
			    "socketpair");
	bench_check(pthread_create(&partner, NULL, server, NULL) == 0, "pthread_create");
	ns = c->procs ? by_greens() : by_threads();
	for (int i = 0; i < CLIENTS; i++)
		close(pairs[i][0]);
	if (c->procs)
		gmp_blocking(pthread_join(partner, NULL));
	else
		pthread_join(partner, NULL);
	bench_check(answered == calls * CLIENTS, "%lld answers", (long long)answered);
	bench_time(st, ns, answered);
}

BENCH(short_section, "block/short", .procs = 1, .count = 2000000);
BENCH(fifty, "block/50", .procs = 2, .n = 50, .count = 1);
BENCH(echo, "block/echo", .procs = 2, .n = CLIENTS, .count = 20000);
BENCH(echo, "block/echo pthread", .procs = 0, .n = CLIENTS, .count = 20000);
