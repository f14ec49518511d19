/* SPDX-License-Identifier: MIT */
/*
 * Measures the latency of a wakeup that must wake an OS thread.
 *
 * "wake/idle": all Ps are idle; an external thread sends to a channel on which a green thread
 * waits, and that G reads the clock.  The pause between two sends is longer than any spinning.  The
 * sends alternate with wakeups by a bare futex between two OS threads (":futex").  ":more" is the
 * difference of the two medians: the latency that the runtime adds.
 *
 * "wake/ping": OS threads that are woken per round trip of two green threads on two channels, in
 * per cent.
 */
#include "shim.h"

#include <gmp.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST = 10000, PAUSE_US = 300 };

static double through_channel[MOST], through_futex[MOST];
static int64_t sent_at, heard;
static gmp_chan *bell;

static void wait_until_heard(int64_t i)
{
	while (bench_load(&heard) <= i)
		usleep(20);
	usleep(PAUSE_US);
}

/* --- by a futex --- */

static uint32_t word;

static void *sleeper(void *arg)
{
	int64_t n = *(int64_t *)arg;

	for (int64_t i = 0; i < n; i++) {
		while (__atomic_load_n(&word, __ATOMIC_ACQUIRE) == 0)
			syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
		through_futex[i] = (double)(bench_clock() - sent_at);
		__atomic_store_n(&word, 0, __ATOMIC_RELAXED);
		bench_store(&heard, i + 1);
	}
	return NULL;
}

static void wake_sleeper(void)
{
	sent_at = bench_clock();
	__atomic_store_n(&word, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* --- by a channel --- */

static void *ring(void *arg)
{
	int64_t n = *(int64_t *)arg, v;
	pthread_t t;

	/* the kernel's default; otherwise that of the M which has made this thread */
	prctl(PR_SET_TIMERSLACK, 50000UL, 0UL, 0UL, 0UL);
	bench_check(pthread_create(&t, NULL, sleeper, &n) == 0, "no thread");
	for (int64_t i = 0; i < n; i++) {
		bench_store(&heard, i);
		usleep(PAUSE_US);
		wake_sleeper();
		wait_until_heard(i);
		bench_store(&heard, i);
		sent_at = v = bench_clock();
		bench_check(gmp_chan_send(bell, &v) == 0, "gmp_chan_send");
		wait_until_heard(i);
	}
	pthread_join(t, NULL);
	return NULL;
}

static void idle_wakes(struct bench_state *st)
{
	int64_t n = bench_this(st)->count < MOST ? bench_this(st)->count : MOST, v;
	pthread_t t;

	bell = gmp_chan_new(sizeof(v), 0);
	bench_check(bell, "no memory");
	bench_check(pthread_create(&t, NULL, ring, &n) == 0, "no thread");
	for (int64_t i = 0; i < n; i++) {
		bench_check(gmp_chan_recv(bell, &v) == 0, "gmp_chan_recv");
		through_channel[i] = (double)(bench_clock() - v);
		bench_store(&heard, i + 1);
	}
	gmp_blocking(pthread_join(t, NULL));
	gmp_chan_free(bell);
	double channel = bench_median(through_channel, (size_t)n),
	       futex = bench_median(through_futex, (size_t)n);

	bench_value(st, "", "ns", channel);
	bench_value(st, "futex", "ns", futex);
	bench_value(st, "more", "ns", channel > futex ? channel - futex : 0);
}

BENCH(idle_wakes, "wake/idle", .procs = 1, .count = 1000);
BENCH(idle_wakes, "wake/idle", .procs = 2, .count = 1000);

/* --- a pair --- */

static gmp_chan *to, *fro;

static void answer(void *arg)
{
	int64_t v;

	(void)arg;
	while (gmp_chan_recv(to, &v) == 0)
		gmp_chan_send(fro, &v);
}

static uint64_t wakeups(void)
{
	gmp_stats s = GMP_STATS_INIT;

	bench_check(gmp_stats_get(&s) == 0, "gmp_stats_get");
	return s.wakeups;
}

static void round_trips(int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		int64_t v = i;

		gmp_chan_send(to, &v);
		gmp_chan_recv(fro, &v);
		bench_check(v == i, "got %lld, not %lld", (long long)v, (long long)i);
	}
}

static void pair_wakes(struct bench_state *st)
{
	int64_t n = bench_this(st)->count;
	uint64_t before;
	gmp_g *g;

	to = gmp_chan_new(sizeof(int64_t), 0);
	fro = gmp_chan_new(sizeof(int64_t), 0);
	bench_check(to && fro && gmp_spawn(&g, answer, NULL, NULL) == 0, "no memory");
	round_trips(n / 8);
	before = wakeups();
	round_trips(n);
	bench_value(st, "", "percent", 100.0 * (double)(wakeups() - before) / (double)n);
	gmp_chan_close(to);
	gmp_join(g);
	gmp_chan_free(to);
	gmp_chan_free(fro);
}

BENCH(pair_wakes, "wake/ping", .procs = 2, .count = 1000000);
