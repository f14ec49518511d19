/* SPDX-License-Identifier: MIT */
/*
 * Tests condition variables with programs of the same intent as Go's src/sync/cond_test.go; each
 * section names its counterpart.
 */
#include <stdbool.h>

#include "go_util.h"

static gmp_mutex m;

/* --- TestCondSignal --- */

static gmp_cond cond;

struct sleepers {
	gmp_chan *asleep, *awake;
	int n, number;
	bool over;
};

static void sleep_once(void *arg)
{
	struct sleepers *s = arg;

	CHECK_EQ(gmp_mutex_lock(&m), 0);
	put_int(s->asleep, 1);
	CHECK_EQ(gmp_cond_wait(&cond, &m), 0);
	put_int(s->awake, 1);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
}

static struct sleepers *make_sleepers(int n)
{
	struct sleepers *s = make_memory(sizeof(*s));

	*s = (struct sleepers){ make_ints((size_t)n), make_ints((size_t)n), n, 0, false };
	return s;
}

GO_MAIN(cond_signal_wakes_exactly_one_of_20_waiters)
{
	enum { SLEEPERS = 20 };
	struct sleepers *s = make_sleepers(SLEEPERS);

	for (int i = 0; i < SLEEPERS; i++)
		go(sleep_once, s);
	for (int i = 0; i < SLEEPERS; i++)
		get_int(s->asleep);
	for (int left = SLEEPERS; left > 0; left--) {
		CHECK_EQ(gmp_chan_try_recv(s->awake, NULL), -EAGAIN);
		CHECK_EQ(gmp_mutex_lock(&m), 0);
		CHECK_EQ(gmp_cond_signal(&cond), 0);
		CHECK_EQ(gmp_mutex_unlock(&m), 0);
		get_int(s->awake);
		for (int i = 0; i < 5; i++)
			gmp_yield();
		CHECK_EQ(gmp_chan_try_recv(s->awake, NULL), -EAGAIN);
	}
	CHECK_EQ(gmp_cond_signal(&cond), 0);
}

/* --- TestCondSignalGenerations --- */

static void sleep_in_order(void *arg)
{
	struct sleepers *s = arg;

	CHECK_EQ(gmp_mutex_lock(&m), 0);
	int own = s->number++;

	put_int(s->asleep, own);
	CHECK_EQ(gmp_cond_wait(&cond, &m), 0);
	put_int(s->awake, own);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
}

/* In each round one more thread waits, and the signal wakes the previous one. */
GO_MAIN(cond_signal_wakes_oldest_waiter_each_time)
{
	enum { SLEEPERS = 100 };
	struct sleepers *s = make_sleepers(SLEEPERS);

	for (int i = 0; i < SLEEPERS; i++) {
		go(sleep_in_order, s);
		if (i > 0)
			CHECK_EQ(get_int(s->awake), i - 1);
		CHECK_EQ(get_int(s->asleep), i);
		CHECK_EQ(gmp_mutex_lock(&m), 0);
		CHECK_EQ(gmp_cond_signal(&cond), 0);
		CHECK_EQ(gmp_mutex_unlock(&m), 0);
	}
	CHECK_EQ(get_int(s->awake), SLEEPERS - 1);
}

/* --- TestCondBroadcast --- */

static void sleep_until_over(void *arg)
{
	struct sleepers *s = arg;

	CHECK_EQ(gmp_mutex_lock(&m), 0);
	while (!s->over) {
		put_int(s->asleep, 1);
		CHECK_EQ(gmp_cond_wait(&cond, &m), 0);
		put_int(s->awake, 1);
	}
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	put_int(s->asleep, 1);
}

GO_MAIN(cond_broadcast_wakes_all_waiters_each_round)
{
	int n = SLOW ? 50 : 200;
	struct sleepers *s = make_sleepers(n);

	for (int i = 0; i < n; i++)
		go(sleep_until_over, s);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < n; i++)
			get_int(s->asleep);
		CHECK_EQ(gmp_mutex_lock(&m), 0);
		if (round == 2)
			s->over = true;
		else
			CHECK_EQ(gmp_chan_len(s->asleep), 0); /* no sleeper has been woken */
		CHECK_EQ(gmp_cond_broadcast(&cond), 0);
		CHECK_EQ(gmp_mutex_unlock(&m), 0);
		for (int i = 0; i < n; i++)
			get_int(s->awake);
	}
	for (int i = 0; i < n; i++)
		get_int(s->asleep);
	CHECK_EQ(gmp_chan_len(s->awake), 0);
	CHECK_EQ(gmp_cond_broadcast(&cond), 0);
}

/* --- TestRace: three green threads, each of which checks the stage that it finds --- */

static int stage;

static void begin_and_wait(void *done)
{
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	stage = 1;
	CHECK_EQ(gmp_cond_wait(&cond, &m), 0);
	CHECK_EQ(stage, 2);
	stage = 3;
	CHECK_EQ(gmp_cond_signal(&cond), 0);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	put_int(done, 1);
}

static void answer(void *done)
{
	for (bool seen = false; !seen;) {
		CHECK_EQ(gmp_mutex_lock(&m), 0);
		seen = stage == 1;
		if (seen) {
			stage = 2;
			CHECK_EQ(gmp_cond_signal(&cond), 0);
		}
		CHECK_EQ(gmp_mutex_unlock(&m), 0);
		gmp_yield();
	}
	put_int(done, 1);
}

static void wait_for_answer(void *done)
{
	for (bool seen = false; !seen;) {
		CHECK_EQ(gmp_mutex_lock(&m), 0);
		if (stage == 2) {
			CHECK_EQ(gmp_cond_wait(&cond, &m), 0);
			CHECK_EQ(stage, 3);
			seen = true;
		}
		seen |= stage == 3;
		CHECK_EQ(gmp_mutex_unlock(&m), 0);
		gmp_yield();
	}
	put_int(done, 1);
}

GO_MAIN(cond_signal_makes_change_of_state_visible)
{
	gmp_chan *done = make_ints(0);

	for (long i = 0, n = check_scaled(300); i < n; i++) {
		stage = 0;
		go(begin_and_wait, done);
		go(answer, done);
		go(wait_for_answer, done);
		for (int k = 0; k < 3; k++)
			get_int(done);
	}
}

/* --- TestCondSignalStealing --- */

struct steal_test {
	gmp_mutex m;
	gmp_cond c;
	gmp_chan *first;
	gmp_wg all;
	bool over;
};

static void wait_first(void *arg)
{
	struct steal_test *t = arg;

	CHECK_EQ(gmp_mutex_lock(&t->m), 0);
	put_int(t->first, 1);
	CHECK_EQ(gmp_cond_wait(&t->c, &t->m), 0);
	CHECK_EQ(gmp_mutex_unlock(&t->m), 0);
	put_int(t->first, 2);
	CHECK_EQ(gmp_wg_done(&t->all), 0);
}

static void wake_all(void *arg)
{
	struct steal_test *t = arg;

	CHECK_EQ(gmp_cond_broadcast(&t->c), 0);
	CHECK_EQ(gmp_wg_done(&t->all), 0);
}

static void wake_first(void *arg)
{
	struct steal_test *t = arg;

	CHECK_EQ(gmp_cond_signal(&t->c), 0);
	CHECK_EQ(gmp_wg_done(&t->all), 0);
}

static void wait_second(void *arg)
{
	struct steal_test *t = arg;

	CHECK_EQ(gmp_mutex_lock(&t->m), 0);
	while (!t->over)
		CHECK_EQ(gmp_cond_wait(&t->c, &t->m), 0);
	CHECK_EQ(gmp_mutex_unlock(&t->m), 0);
	CHECK_EQ(gmp_wg_done(&t->all), 0);
}

/* The thread that waits before the signal is woken, even if another begins to wait meanwhile. */
GO_MAIN(cond_signal_is_not_taken_by_later_waiter)
{
	for (long i = 0, n = check_scaled(1000); i < n; i++) {
		struct steal_test t = { .first = gmp_chan_new(sizeof(int), 0) };

		CHECK_EQ(gmp_wg_add(&t.all, 3), 0);
		go(wait_first, &t);
		CHECK_EQ(get_int(t.first), 1);
		CHECK_EQ(gmp_mutex_lock(&t.m), 0);
		CHECK_EQ(gmp_mutex_unlock(&t.m), 0); /* wait_first waits now */
		go(i % 2 ? wake_all : wake_first, &t);
		go(wait_second, &t);
		CHECK_EQ(get_int(t.first), 2);
		CHECK_EQ(gmp_mutex_lock(&t.m), 0);
		t.over = true;
		CHECK_EQ(gmp_mutex_unlock(&t.m), 0);
		CHECK_EQ(gmp_cond_broadcast(&t.c), 0);
		CHECK_EQ(gmp_wg_wait(&t.all), 0);
		gmp_chan_free(t.first);
	}
}
