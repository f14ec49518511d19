/* SPDX-License-Identifier: MIT */
/*
 * Measures the lateness of wakeups on busy Ps.
 *
 * 200 green threads are runnable; each repeatedly computes 0.5 ms and yields.  c->n waiters take
 * c->count samples together:
 *   sleep     gmp_sleep of 1 ms
 *   ticker    a tick of 1 ms; a lost tick is no sample
 *   timer     a gmp_timer that its function sets to 1 ms ahead; up to the function
 *   deadline  a receive with a deadline 1 ms ahead, from a channel without a sender
 *   fd        a read of a timerfd that expires 1 ms ahead
 *   chan      a receive; the sender sleeps 1 ms before it sends.  Lateness is counted from the
 *             send.
 */
#include "parallel.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <gmp.h>

#define MS INT64_C(1000000)

enum { RUNNABLE = 200, COMPUTE = 500000 /* ns */ };
enum { SLEEP, TICKER, TIMER, DEADLINE, FD, CHAN };

static int64_t *late, taken, most, stop;
static gmp_wg waiters, others;

static void note(int64_t ns)
{
	int64_t i = bench_add(&taken, 1) - 1;

	if (i < most)
		late[i] = ns;
}

/* Returns whether more samples are needed. */
static int more(void)
{
	return bench_load(&taken) < most;
}

static void compute(void *arg)
{
	(void)arg;
	while (!bench_load(&stop)) {
		bench_spin(COMPUTE);
		gmp_yield();
	}
	gmp_wg_done(&others);
}

static void wait_asleep(void)
{
	while (more()) {
		int64_t due = gmp_deadline(MS);

		bench_check(gmp_sleep_until(due) == 0, "gmp_sleep_until");
		note(gmp_now() - due);
	}
}

static void wait_for_ticks(void)
{
	gmp_chan *c = gmp_tick_new(gmp_deadline(MS), MS);
	int64_t due;

	bench_check(c, "gmp_tick_new");
	while (more()) {
		bench_check(gmp_chan_recv(c, &due) == 0, "it did not tick");
		note(gmp_now() - due);
	}
	gmp_tick_free(c);
}

static void wait_to_deadline(void)
{
	gmp_chan *c = gmp_chan_new(1, 0);

	bench_check(c, "gmp_chan_new");
	while (more()) {
		int64_t due = gmp_deadline(MS);
		char none;

		bench_check(gmp_chan_recv_until(c, &none, due) == -ETIMEDOUT, "received");
		note(gmp_now() - due);
	}
	gmp_chan_free(c);
}

static void wait_for_fd(void)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	uint64_t times;

	bench_check(fd >= 0 && gmp_fd_adopt(fd) == fd, "timerfd_create");
	while (more()) {
		int64_t due = bench_clock() + MS;
		struct itimerspec at = { .it_value = { due / (1000 * MS), due % (1000 * MS) } };

		bench_check(timerfd_settime(fd, TFD_TIMER_ABSTIME, &at, NULL) == 0,
			    "timerfd_settime");
		bench_check(gmp_read(fd, &times, sizeof(times)) == sizeof(times), "gmp_read");
		note(bench_clock() - due);
	}
	gmp_close(fd);
}

static void send_times(void *c)
{
	int64_t now;

	do {
		gmp_sleep(MS);
		now = gmp_now();
	} while (gmp_chan_send(c, &now) == 0);
	gmp_wg_done(&others);
}

static void wait_for_sender(void)
{
	gmp_chan *c = gmp_chan_new(sizeof(int64_t), 0);
	int64_t sent;

	bench_check(c, "gmp_chan_new");
	gmp_wg_add(&others, 1);
	bench_check(gmp_go(send_times, c) == 0, "gmp_go");
	while (more()) {
		bench_check(gmp_chan_recv(c, &sent) == 0, "gmp_chan_recv");
		note(gmp_now() - sent);
	}
	gmp_chan_close(c);
}

struct alarm {
	gmp_timer *t;
	int64_t due;
};

static void ring(void *arg)
{
	struct alarm *a = arg;

	note(gmp_now() - a->due);
	if (!more()) {
		gmp_wg_done(&waiters);
		return;
	}
	a->due = gmp_deadline(MS);
	gmp_timer_set(a->t, a->due, 0);
}

static void wait_with(void *how)
{
	static void (*const waits[])(void) = {
		[SLEEP] = wait_asleep, [TICKER] = wait_for_ticks, [DEADLINE] = wait_to_deadline,
		[FD] = wait_for_fd,    [CHAN] = wait_for_sender,
	};

	waits[*(const int *)how]();
	gmp_wg_done(&waiters);
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void loaded(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	struct alarm *alarms = calloc((size_t)c->n, sizeof(*alarms));

	late = calloc((size_t)c->count, sizeof(*late));
	bench_check(alarms && late, "no memory");
	most = c->count;
	bench_all_ps(c->procs);
	gmp_wg_add(&others, RUNNABLE);
	gmp_wg_add(&waiters, (int)c->n);
	for (int i = 0; i < RUNNABLE; i++)
		bench_check(gmp_go(compute, NULL) == 0, "gmp_go");
	for (int i = 0; i < c->n; i++) {
		if (c->mode == TIMER) {
			alarms[i] =
				(struct alarm){ gmp_timer_new(ring, &alarms[i]), gmp_deadline(MS) };
			bench_check(alarms[i].t, "gmp_timer_new");
			gmp_timer_set(alarms[i].t, alarms[i].due, 0);
		} else {
			bench_check(gmp_go(wait_with, (void *)&c->mode) == 0, "gmp_go");
		}
	}
	gmp_wg_wait(&waiters);
	bench_store(&stop, 1);
	gmp_wg_wait(&others);
	for (int i = 0; i < c->n; i++)
		gmp_timer_free(alarms[i].t);
	free(alarms);
	qsort(late, (size_t)most, sizeof(*late), by_value);
	bench_check(late[0] >= 0, "one woke %lld ns too early", (long long)-late[0]);
	bench_value(st, "p50", "ns", (double)late[most / 2]);
	bench_value(st, "p99", "ns", (double)late[most * 99 / 100]);
	free(late);
}

BENCH(loaded, "loaded/sleep", .procs = 1, .n = 1, .count = 500, .mode = SLEEP);
BENCH(loaded, "loaded/sleep", .procs = 2, .n = 1, .count = 500, .mode = SLEEP);
BENCH(loaded, "loaded/sleep 10", .procs = 1, .n = 10, .count = 1000, .mode = SLEEP);
BENCH(loaded, "loaded/sleep 10", .procs = 2, .n = 10, .count = 1000, .mode = SLEEP);
BENCH(loaded, "loaded/ticker", .procs = 1, .n = 1, .count = 500, .mode = TICKER);
BENCH(loaded, "loaded/ticker", .procs = 2, .n = 1, .count = 500, .mode = TICKER);
BENCH(loaded, "loaded/ticker 100", .procs = 1, .n = 100, .count = 4000, .mode = TICKER);
BENCH(loaded, "loaded/ticker 100", .procs = 2, .n = 100, .count = 4000, .mode = TICKER);
BENCH(loaded, "loaded/timer", .procs = 1, .n = 1, .count = 500, .mode = TIMER);
BENCH(loaded, "loaded/timer", .procs = 2, .n = 1, .count = 500, .mode = TIMER);
BENCH(loaded, "loaded/deadline", .procs = 1, .n = 1, .count = 500, .mode = DEADLINE);
BENCH(loaded, "loaded/deadline", .procs = 2, .n = 1, .count = 500, .mode = DEADLINE);
BENCH(loaded, "loaded/fd", .procs = 1, .n = 1, .count = 50, .mode = FD);
BENCH(loaded, "loaded/fd", .procs = 2, .n = 1, .count = 50, .mode = FD);
BENCH(loaded, "loaded/chan", .procs = 1, .n = 1, .count = 500, .mode = CHAN);
BENCH(loaded, "loaded/chan", .procs = 2, .n = 1, .count = 500, .mode = CHAN);
