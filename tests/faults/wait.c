/* SPDX-License-Identifier: MIT */
/* Channels, selects, timers, ticks, singleflights and done objects work or report an error. */
#include "faults.h"

#include <errno.h>
#include <stdatomic.h>

enum { MS = 1000000 };

static void send_ten(void *c)
{
	for (int i = 0; i < 10; i++)
		CHECK_EQ(gmp_chan_send(c, &i), 0);
	CHECK_EQ(gmp_chan_close(c), 0);
}

static void talk(void *arg)
{
	(void)arg;
	for (size_t capacity = 0; capacity < 2; capacity++) {
		gmp_chan *c = ASK_PTR(gmp_chan_new(sizeof(int), capacity));
		int v, n = 0;

		if (!c)
			return;
		if (ASK(gmp_go(send_ten, c)) == 0) {
			while (gmp_chan_recv(c, &v) == 0)
				CHECK_EQ(v, n++);
			CHECK_EQ(n, 10);
		}
		gmp_chan_free(c);
	}
}

SWEEP(chan_new_fails_or_channel_carries_all)
{
	in_run(procs, talk, NULL);
}

/* With this many cases, gmp_select allocates its polling order on the heap. */
static void select_among_many(void *arg)
{
	enum { N = 200 };
	static gmp_case cases[N];
	static int v[N];
	gmp_chan *c = ASK_PTR(gmp_chan_new(sizeof(int), 0));

	(void)arg;
	if (!c)
		return;
	if (ASK(gmp_go(send_ten, c)) < 0) {
		gmp_chan_free(c);
		return;
	}
	for (int i = 0; i < N; i++)
		cases[i] = GMP_RECV_CASE(c, &v[i]);
	for (int n = 0; n < 10;) {
		int which = (int)ASK(gmp_select(cases, N));

		if (which < 0) { /* one case needs no memory */
			CHECK_EQ(gmp_select(cases, 1), 0);
			which = 0;
		}
		CHECK_EQ(cases[which].status, 0);
		CHECK_EQ(v[which], n++);
	}
	CHECK_EQ(gmp_chan_recv(c, NULL), -EPIPE);
	gmp_chan_free(c);
}

SWEEP(select_of_many_cases_runs_one_or_reports_error)
{
	in_run(procs, select_among_many, NULL);
}

static void release(void *s)
{
	gmp_sem_release(s, 1);
}

static void use_timer(void *arg)
{
	gmp_sem s = GMP_SEM_INIT(0);
	gmp_timer *t = ASK_PTR(gmp_timer_new(release, &s));

	(void)arg;
	if (!t)
		return;
	CHECK_EQ(ASK(gmp_timer_set(t, gmp_deadline(MS), 0)), 0);
	/* without memory for the timer's G, this expiry is skipped */
	while (gmp_sem_acquire_until(&s, gmp_deadline(50 * MS)) && !plan_fired())
		;
	gmp_timer_set(t, gmp_deadline(MS), MS);
	while (gmp_sem_acquire_until(&s, gmp_deadline(50 * MS)) &&
	       !(plan_now() == PLAN_ALL && plan_fired()))
		;
	gmp_timer_stop(t);
	gmp_timer_free(t);
}

SWEEP(timer_new_fails_or_timer_fires)
{
	in_run(procs, use_timer, NULL);
}

static void use_tick(void *arg)
{
	int64_t at;
	gmp_chan *c = ASK_PTR(gmp_tick_new(gmp_deadline(MS), MS));

	(void)arg;
	if (!c)
		return;
	for (int i = 0; i < 2; i++)
		CHECK_EQ(gmp_chan_recv(c, &at), 0);
	gmp_tick_free(c);
}

SWEEP(tick_new_fails_or_ticks_arrive)
{
	in_run(procs, use_tick, NULL);
}

static int compute(void *arg, void *value)
{
	(void)arg;
	gmp_sleep(1000);
	*(int *)value = 7;
	return 0;
}

static void call_singleflight(void *f)
{
	int value = 0, err = 0;

	/* a call that joins a flight shares its error: one fault may fail several calls */
	for (int i = 0; i < 2; i++) {
		err = gmp_singleflight_do(f, "key", 3, compute, NULL, &value, NULL);
		if (err != -ENOMEM || !plan_fired())
			break;
	}
	if (err == -ENOMEM)
		CHECK(plan_fired() && plan_now() == PLAN_ALL);
	else
		CHECK(err == 0 && value == 7);
}

static void use_singleflight(void *arg)
{
	gmp_singleflight *f = ASK_PTR(gmp_singleflight_new(sizeof(int)));
	gmp_g *g[3] = { NULL };

	(void)arg;
	if (!f)
		return;
	for (int i = 0; i < 3; i++)
		ASK(gmp_spawn(&g[i], call_singleflight, f, NULL));
	for (int i = 0; i < 3; i++)
		if (g[i])
			CHECK_EQ(gmp_join(g[i]), 0);
	gmp_singleflight_free(f);
}

SWEEP(singleflight_computes_or_reports_error)
{
	in_run(procs, use_singleflight, NULL);
}

static void wait_for_done(void *d)
{
	CHECK_EQ(gmp_done_wait(d), 0);
}

static void set_done(void *arg)
{
	gmp_done *d = ASK_PTR(gmp_done_new());
	gmp_g *g = NULL;

	(void)arg;
	if (!d)
		return;
	ASK(gmp_spawn(&g, wait_for_done, d, NULL));
	gmp_chan *c = ASK_PTR(gmp_done_chan(d));

	CHECK_EQ(gmp_done_set(d), 0);
	if (c)
		CHECK_EQ(gmp_chan_recv(c, NULL), -EPIPE);
	if (g)
		CHECK_EQ(gmp_join(g), 0);
	gmp_done_free(d);
}

SWEEP(done_wakes_all_waiters)
{
	in_run(procs, set_done, NULL);
}
