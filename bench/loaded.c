/* SPDX-License-Identifier: MIT */
/*
 * Measures the lateness of wakeups on busy Ps, and what the wakeups take from the Gs that compute.
 *
 * 200 green threads are runnable; each repeatedly computes 0.5 ms and yields.  After each of them
 * has run twice, c->n waiters take c->count samples together:
 *   sleep     gmp_sleep of 1 ms
 *   ticker    a tick of 1 ms; a lost tick is no sample
 *   timer     a gmp_timer that its function sets to 1 ms ahead; up to the function
 *   deadline  a receive with a deadline 1 ms ahead, from a channel without a sender
 *   fd        a read of a timerfd that expires 1 ms ahead
 *   chan      a receive; the sender sleeps 1 ms before it sends.  Lateness is counted from the
 *             send.
 *   thread    the same; the sender is an external thread
 *   mutex     a lock; the owner sleeps 1 ms before it unlocks.  Lateness is counted from the
 *             unlock.
 *
 * "loaded/fair": a waiter reads a timerfd as in `fd` until each of the 200 has run c->count times,
 * 5 s at most.
 *   lost      share of the time of the Ps in which the 200 have not computed; a run counts as 0.5
 *             ms, also if the kernel preempts its OS thread meanwhile
 *   spread    the difference between the most and the fewest runs of a green thread, relative to
 *             the mean
 */
#include "parallel.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <gmp.h>

#define MS INT64_C(1000000)

enum { RUNNABLE = 200, COMPUTE = 500000 /* ns */, WARM_RUNS = 2, FAIR_MS = 5000 };
enum { SLEEP, TICKER, TIMER, DEADLINE, FD, CHAN, THREAD, MUTEX };

static int64_t *late, taken, most, stop;
static int64_t runs[RUNNABLE]; /* of each green thread that computes */
static gmp_wg warm, waiters, others;

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
	int64_t *mine = arg;

	while (!bench_load(&stop)) {
		bench_spin(COMPUTE);
		bench_store(mine, *mine + 1);
		if (*mine == WARM_RUNS)
			gmp_wg_done(&warm);
		gmp_yield();
	}
	gmp_wg_done(&others);
}

/* Start the 200.  Returns after each has run twice: their first run is no part of a figure. */
static void start_load(const struct bench_case *c)
{
	taken = stop = 0;
	bench_all_ps(c->procs);
	gmp_wg_add(&others, RUNNABLE);
	gmp_wg_add(&warm, RUNNABLE);
	for (int i = 0; i < RUNNABLE; i++) {
		runs[i] = 0;
		bench_check(gmp_go(compute, &runs[i]) == 0, "gmp_go");
	}
	gmp_wg_wait(&warm);
}

static void end_load(void)
{
	bench_store(&stop, 1);
	gmp_wg_wait(&others);
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

static int make_timerfd(void)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);

	bench_check(fd >= 0 && gmp_fd_adopt(fd) == fd, "timerfd_create");
	return fd;
}

/* Let a timerfd expire 1 ms ahead and read it.  Returns the lateness. */
static int64_t read_timerfd(int fd)
{
	int64_t due = bench_clock() + MS;
	struct itimerspec at = { .it_value = { due / (1000 * MS), due % (1000 * MS) } };
	uint64_t times;

	bench_check(timerfd_settime(fd, TFD_TIMER_ABSTIME, &at, NULL) == 0, "timerfd_settime");
	bench_check(gmp_read(fd, &times, sizeof(times)) == sizeof(times), "gmp_read");
	return bench_clock() - due;
}

static void wait_for_fd(void)
{
	int fd = make_timerfd();

	while (more())
		note(read_timerfd(fd));
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

static void *send_from_thread(void *c)
{
	const struct timespec ms = { .tv_nsec = MS };
	int64_t now;

	do {
		nanosleep(&ms, NULL);
		now = gmp_now();
	} while (gmp_chan_send(c, &now) == 0);
	return NULL;
}

static void wait_for_thread(void)
{
	gmp_chan *c = gmp_chan_new(sizeof(int64_t), 1);
	int64_t sent;
	pthread_t t;

	bench_check(c, "gmp_chan_new");
	bench_check(pthread_create(&t, NULL, send_from_thread, c) == 0, "pthread_create");
	while (more()) {
		bench_check(gmp_chan_recv(c, &sent) == 0, "gmp_chan_recv");
		note(gmp_now() - sent);
	}
	gmp_chan_close(c);
	gmp_block_enter();
	pthread_join(t, NULL);
	gmp_block_leave();
	gmp_chan_free(c);
}

/* The owner has locked m, and wants to lock it again. */
static gmp_chan *locked, *again;
static gmp_mutex m;
static int64_t unlocked;

static void own_mutex(void *arg)
{
	char byte = 0;

	(void)arg;
	do {
		gmp_mutex_lock(&m);
		bench_check(gmp_chan_send(locked, &byte) == 0, "gmp_chan_send");
		gmp_sleep(MS);
		unlocked = gmp_now();
		gmp_mutex_unlock(&m);
	} while (gmp_chan_recv(again, &byte) == 0);
	gmp_wg_done(&others);
}

static void wait_for_mutex(void)
{
	char byte = 0;

	locked = bench_make(1, 1);
	again = bench_make(1, 1);
	gmp_wg_add(&others, 1);
	bench_start(own_mutex, NULL);
	for (;;) {
		bench_check(gmp_chan_recv(locked, &byte) == 0, "gmp_chan_recv");
		int64_t from = gmp_now();

		gmp_mutex_lock(&m);
		if (from < unlocked) /* otherwise it has not waited */
			note(gmp_now() - unlocked);
		gmp_mutex_unlock(&m);
		if (!more())
			break;
		bench_check(gmp_chan_send(again, &byte) == 0, "gmp_chan_send");
	}
	gmp_chan_close(again);
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
		[SLEEP] = wait_asleep,    [TICKER] = wait_for_ticks, [DEADLINE] = wait_to_deadline,
		[FD] = wait_for_fd,       [CHAN] = wait_for_sender,  [THREAD] = wait_for_thread,
		[MUTEX] = wait_for_mutex,
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
	start_load(c);
	gmp_wg_add(&waiters, (int)c->n);
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
	end_load();
	for (int i = 0; i < c->n; i++)
		gmp_timer_free(alarms[i].t);
	free(alarms);
	qsort(late, (size_t)most, sizeof(*late), by_value);
	bench_check(late[0] >= 0, "one woke %lld ns too early", (long long)-late[0]);
	bench_value(st, "p50", "ns", (double)late[most / 2]);
	bench_value(st, "p99", "ns", (double)late[most * 99 / 100]);
	free(late);
}

/* --- fairness --- */

struct fair {
	const struct bench_case *c;
	int64_t before[RUNNABLE], ran[RUNNABLE];
	int64_t lasted;
};

/* Returns whether each green thread has run c->count times. */
static int have_run(struct fair *f)
{
	int64_t least = INT64_MAX;

	for (int i = 0; i < RUNNABLE; i++) {
		f->ran[i] = bench_load(&runs[i]) - f->before[i];
		least = f->ran[i] < least ? f->ran[i] : least;
	}
	return least >= f->c->count;
}

static void read_beside(void *arg)
{
	struct fair *f = arg;
	int64_t began = bench_clock();
	int fd = make_timerfd();

	for (int i = 0; i < RUNNABLE; i++)
		f->before[i] = bench_load(&runs[i]);
	do {
		bench_check(read_timerfd(fd) >= 0, "it woke too early");
		f->lasted = bench_clock() - began;
	} while (!have_run(f) && f->lasted < FAIR_MS * MS);
	gmp_close(fd);
	gmp_wg_done(&waiters);
}

static void fair(struct bench_state *st)
{
	static struct fair f;
	int64_t least = INT64_MAX, largest = 0, sum = 0;

	f.c = bench_this(st);
	start_load(f.c);
	gmp_wg_add(&waiters, 1);
	bench_start(read_beside, &f);
	gmp_wg_wait(&waiters);
	end_load();
	for (int i = 0; i < RUNNABLE; i++) {
		sum += f.ran[i];
		least = f.ran[i] < least ? f.ran[i] : least;
		largest = f.ran[i] > largest ? f.ran[i] : largest;
	}
	bench_check(least > 0, "a green thread did not run");
	bench_value(st, "lost", "percent",
		    100 - 100.0 * (double)(sum * COMPUTE) / (double)(f.c->procs * f.lasted));
	bench_value(st, "spread", "percent",
		    100.0 * RUNNABLE * (double)(largest - least) / (double)sum);
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
BENCH(loaded, "loaded/fd", .procs = 1, .n = 1, .count = 100, .mode = FD);
BENCH(loaded, "loaded/fd", .procs = 2, .n = 1, .count = 100, .mode = FD);
BENCH(loaded, "loaded/chan", .procs = 1, .n = 1, .count = 500, .mode = CHAN);
BENCH(loaded, "loaded/chan", .procs = 2, .n = 1, .count = 500, .mode = CHAN);
BENCH(loaded, "loaded/thread", .procs = 1, .n = 1, .count = 100, .mode = THREAD);
BENCH(loaded, "loaded/thread", .procs = 2, .n = 1, .count = 100, .mode = THREAD);
BENCH(loaded, "loaded/mutex", .procs = 1, .n = 1, .count = 500, .mode = MUTEX);
BENCH(loaded, "loaded/mutex", .procs = 2, .n = 1, .count = 500, .mode = MUTEX);
BENCH(fair, "loaded/fair", .procs = 1, .n = 1, .count = 60);
BENCH(fair, "loaded/fair", .procs = 2, .n = 1, .count = 60);
