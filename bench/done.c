/* SPDX-License-Identifier: MIT */
/*
 * Measures the cost of a done object in a select.
 *
 * n green threads wait in a select of two cases: an element on an own channel, and the done object.
 * One sender for each P sends to its share of them, one at a time in random order, and lets the
 * receiver run.  The figure is the time per wakeup.  "of without": that time in per cent of the
 * time with a second own channel for each waiter in place of the done object.  "shared": the time
 * with one channel for all in its place, which is closed at the end.
 */
#include "shim.h"

#include <gmp.h>
#include <stdlib.h>

enum second { OWN, DONE, SHARED };

static struct watcher {
	gmp_chan *jobs, *other;
	int64_t last;
} * watchers;

static enum second second;
static gmp_done *over;
static gmp_chan *shared;
static gmp_wg gone, sent;
static int64_t each; /* wakeups per sender */

static gmp_chan *channel(void)
{
	gmp_chan *c = gmp_chan_new(sizeof(int64_t), 0);

	bench_check(c, "no memory");
	return c;
}

static gmp_chan *second_of(const struct watcher *w)
{
	return second == DONE ? gmp_done_chan(over) : second == SHARED ? shared : w->other;
}

static void watch(void *arg)
{
	struct watcher *w = arg;
	int64_t v;

	for (;;) {
		gmp_case cs[] = { GMP_RECV_CASE(w->jobs, &v), GMP_RECV_CASE(second_of(w), NULL) };

		if (gmp_select(cs, 2) == 1)
			break;
		bench_store(&w->last, v);
	}
	gmp_wg_done(&gone);
}

struct sender {
	int64_t first, n;
	uint64_t x;
};

static void send_to_half(void *arg)
{
	struct sender *s = arg;

	for (int64_t i = 1; i <= each; i++) {
		s->x ^= s->x << 13;
		s->x ^= s->x >> 7;
		s->x ^= s->x << 17;
		struct watcher *w = &watchers[s->first + (int64_t)((s->x >> 32) % (uint64_t)s->n)];

		gmp_chan_send(w->jobs, &i);
		do
			gmp_yield();
		while (bench_load(&w->last) != i);
	}
	gmp_wg_done(&sent);
}

/* Returns the ns per wakeup. */
static double crowd(const struct bench_case *c, enum second what)
{
	struct sender senders[2];
	int64_t t0, t1;

	second = what;
	over = gmp_done_new();
	shared = channel();
	watchers = calloc((size_t)c->n, sizeof(*watchers));
	bench_check(over && watchers, "no memory");
	gmp_wg_add(&gone, (int)c->n);
	for (int64_t i = 0; i < c->n; i++) {
		watchers[i] = (struct watcher){ channel(), channel(), 0 };
		bench_check(gmp_go(watch, &watchers[i]) == 0, "gmp_go");
	}
	for (int warm = 1; warm >= 0; warm--) {
		each = c->count / c->procs / (warm ? 8 : 1);
		gmp_wg_add(&sent, c->procs);
		t0 = bench_clock();
		for (int i = 0; i < c->procs; i++) {
			senders[i] = (struct sender){ i * (c->n / c->procs), c->n / c->procs,
						      88172645463325252u + (unsigned)i };
			bench_check(gmp_go(send_to_half, &senders[i]) == 0, "gmp_go");
		}
		gmp_wg_wait(&sent);
		t1 = bench_clock();
	}
	gmp_done_set(over);
	gmp_chan_close(shared);
	for (int64_t i = 0; i < c->n; i++)
		gmp_chan_close(watchers[i].other);
	gmp_wg_wait(&gone);
	for (int64_t i = 0; i < c->n; i++) {
		gmp_chan_free(watchers[i].jobs);
		gmp_chan_free(watchers[i].other);
	}
	free(watchers);
	gmp_done_free(over);
	gmp_chan_free(shared);
	return (double)(t1 - t0) / (double)(each * c->procs);
}

/* The cases alternate, and medians are reported, because the machine may be slow for a moment. */
static void done(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	enum { TURNS = 15 };
	double with[TURNS], ratio[TURNS], one[TURNS];

	for (int i = 0; i < TURNS; i++) {
		double own = crowd(c, OWN);

		with[i] = crowd(c, DONE);
		one[i] = crowd(c, SHARED);
		ratio[i] = with[i] / own;
	}
	bench_value(st, "", "ns", bench_median(with, TURNS));
	bench_value(st, "of without", "percent", 100 * bench_median(ratio, TURNS));
	bench_value(st, "shared", "ns", bench_median(one, TURNS));
}

BENCH(done, "done/1000", .procs = 1, .n = 1000, .count = 30000);
BENCH(done, "done/1000", .procs = 2, .n = 1000, .count = 30000);
