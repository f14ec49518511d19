/* SPDX-License-Identifier: MIT */
/*
 * Measures the round trip between two green threads.
 *
 * "ping/wg": each waits for its own wait group and releases that of the other, so every hand-over
 * is a park and a ready.  "ping/unix": one byte back and forth over a unix socket, so every
 * hand-over is a write, a read that finds nothing, a park, and the poller.  "ping/pipe": over two
 * pipes.
 */
#include "shim.h"

#include <gmp.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

static gmp_wg ping, pong, done;
static int64_t rounds, served;

static void answer(void *arg)
{
	(void)arg;
	for (int64_t i = 0; i < rounds; i++) {
		gmp_wg_wait(&ping);
		gmp_wg_add(&ping, 1);
		served++;
		gmp_wg_done(&pong);
	}
	gmp_wg_done(&done);
}

static void by_wait_group(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t warm = c->count / 8, t0 = 0, t1;

	rounds = c->count + warm;
	served = 0;
	gmp_wg_add(&ping, 1);
	gmp_wg_add(&done, 1);
	bench_check(gmp_go(answer, NULL) == 0, "gmp_go");
	for (int64_t i = -warm; i < c->count; i++) {
		if (i == 0)
			t0 = bench_clock();
		gmp_wg_add(&pong, 1);
		gmp_wg_done(&ping);
		gmp_wg_wait(&pong);
		bench_check(served == i + warm + 1, "%lld served", (long long)served);
	}
	t1 = bench_clock();
	gmp_wg_wait(&done);
	gmp_wg_done(&ping); /* back to zero, as at the start */
	bench_time(st, t1 - t0, c->count);
}

BENCH(by_wait_group, "ping/wg", .procs = 1, .count = 1000000);
BENCH(by_wait_group, "ping/wg", .procs = 2, .count = 1000000);

static void serve(void *arg)
{
	int l = (int)(intptr_t)arg, fd = gmp_accept(l);
	unsigned char b;

	bench_check(fd >= 0, "gmp_accept: %d", fd);
	while (gmp_read(fd, &b, 1) == 1) {
		b++;
		bench_check(gmp_write(fd, &b, 1) == 1, "gmp_write");
		served++;
	}
	gmp_close(fd);
	gmp_wg_done(&done);
}

static void by_socket(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t warm = c->count / 8, t0 = 0, t1;
	char addr[64];
	int l, fd;

	served = 0;
	snprintf(addr, sizeof(addr), "@gmp-bench-%d", (int)getpid());
	l = gmp_listen("unix", addr);
	bench_check(l >= 0, "gmp_listen: %d", l);
	gmp_wg_add(&done, 1);
	bench_check(gmp_go(serve, (void *)(intptr_t)l) == 0, "gmp_go");
	fd = gmp_dial("unix", addr);
	bench_check(fd >= 0, "gmp_dial: %d", fd);
	for (int64_t i = -warm; i < c->count; i++) {
		unsigned char b = (unsigned char)i, want = b + 1;

		if (i == 0)
			t0 = bench_clock();
		bench_check(gmp_write(fd, &b, 1) == 1, "gmp_write");
		bench_check(gmp_read(fd, &b, 1) == 1, "gmp_read");
		bench_check(b == want, "got %d, not %d", b, want);
	}
	t1 = bench_clock();
	gmp_close(fd);
	gmp_wg_wait(&done);
	gmp_close(l);
	bench_check(served == c->count + warm, "%lld served", (long long)served);
	bench_time(st, t1 - t0, c->count);
}

BENCH(by_socket, "ping/unix", .procs = 1, .count = 100000);
BENCH(by_socket, "ping/unix", .procs = 2, .count = 100000);

static int there[2], back[2];

static void serve_pipe(void *arg)
{
	unsigned char b;

	(void)arg;
	while (gmp_read(there[0], &b, 1) == 1) {
		b++;
		bench_check(gmp_write(back[1], &b, 1) == 1, "gmp_write");
		served++;
	}
	gmp_wg_done(&done);
}

static void by_pipe(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t warm = c->count / 8, t0 = 0, t1;

	served = 0;
	bench_check(pipe(there) == 0 && pipe(back) == 0, "pipe");
	for (int i = 0; i < 2; i++)
		bench_check(gmp_fd_adopt(there[i]) >= 0 && gmp_fd_adopt(back[i]) >= 0,
			    "gmp_fd_adopt");
	gmp_wg_add(&done, 1);
	bench_check(gmp_go(serve_pipe, NULL) == 0, "gmp_go");
	for (int64_t i = -warm; i < c->count; i++) {
		unsigned char b = (unsigned char)i, want = b + 1;

		if (i == 0)
			t0 = bench_clock();
		bench_check(gmp_write(there[1], &b, 1) == 1, "gmp_write");
		bench_check(gmp_read(back[0], &b, 1) == 1, "gmp_read");
		bench_check(b == want, "got %d, not %d", b, want);
	}
	t1 = bench_clock();
	gmp_close(there[1]);
	gmp_wg_wait(&done);
	gmp_close(there[0]);
	gmp_close(back[0]);
	gmp_close(back[1]);
	bench_check(served == c->count + warm, "%lld served", (long long)served);
	bench_time(st, t1 - t0, c->count);
}

BENCH(by_pipe, "ping/pipe", .procs = 1, .count = 100000);
BENCH(by_pipe, "ping/pipe", .procs = 2, .count = 100000);
