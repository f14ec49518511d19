/* SPDX-License-Identifier: MIT */
/* What gmp_cond promises. */
#include "util.h"

enum { N = 20 };

static gmp_mutex m;
static gmp_cond c;
static int turn, order[N], asleep, woken;

static void wait_once(void *arg)
{
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	order[asleep++] = (int)(intptr_t)arg;
	CHECK_EQ(gmp_cond_wait(&c, &m), 0);
	CHECK_EQ(gmp_mutex_try_lock(&m), -EAGAIN);
	CHECK_EQ(order[woken], (int)(intptr_t)arg);
	woken++;
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
}

static int locked(const int *p)
{
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	int v = *p;

	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	return v;
}

RT(signal_wakes_in_order_and_nobody_wakes_without)
{
	gmp_g *g[N];
	struct foreign f;

	asleep = woken = 0;
	for (int i = 0; i < N - 1; i++)
		g[i] = spawn(wait_once, (void *)(intptr_t)i);
	WAIT_FOR(locked(&asleep) == N - 1);
	foreign_start(&f, wait_once, (void *)(intptr_t)(N - 1));
	WAIT_FOR(locked(&asleep) == N);
	for (int i = 0; i < N; i++) {
		CHECK_EQ(locked(&woken), i);
		CHECK_EQ(gmp_cond_signal(&c), 0);
		WAIT_FOR(locked(&woken) == i + 1);
	}
	CHECK_EQ(gmp_cond_signal(&c), 0);
	for (int i = 0; i < N - 1; i++)
		join(g[i]);
	foreign_join(&f);
}

static void wait_any(UNUSED void *arg)
{
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	asleep++;
	CHECK_EQ(gmp_cond_wait(&c, &m), 0);
	woken++;
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
}

RT(broadcast_wakes_all_who_wait)
{
	gmp_g *g[N];
	struct foreign f;

	asleep = woken = 0;
	CHECK_EQ(gmp_cond_broadcast(&c), 0);
	for (int i = 0; i < N; i++)
		g[i] = spawn(wait_any, NULL);
	foreign_start(&f, wait_any, NULL);
	WAIT_FOR(locked(&asleep) == N + 1);
	CHECK_EQ(locked(&woken), 0);
	CHECK_EQ(gmp_cond_broadcast(&c), 0);
	for (int i = 0; i < N; i++)
		join(g[i]);
	foreign_join(&f);
	CHECK_EQ(woken, N + 1);
}

RT(a_wait_that_times_out_has_the_mutex_again)
{
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	CHECK_EQ(gmp_cond_wait_until(&c, &m, gmp_deadline(MS)), -ETIMEDOUT);
	CHECK_EQ(gmp_mutex_try_lock(&m), -EAGAIN);
	CHECK_EQ(gmp_cond_wait_until(&c, &m, 0), -ETIMEDOUT);
	CHECK_EQ(gmp_mutex_try_lock(&m), -EAGAIN);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	CHECK_EQ(gmp_cond_signal(&c), 0);
	CHECK_EQ(c.waiters, 0);
}

static void wait_cancelled(UNUSED void *arg)
{
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	asleep++;
	CHECK_EQ(gmp_cond_wait(&c, &m), -ECANCELED);
	CHECK_EQ(gmp_mutex_try_lock(&m), -EAGAIN);
	CHECK_EQ(gmp_cond_wait(&c, &m), -ECANCELED);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
}

RT(a_wait_that_is_cancelled_has_the_mutex_again)
{
	asleep = 0;
	gmp_g *g = spawn(wait_cancelled, NULL);

	WAIT_FOR(locked(&asleep) == 1);
	CHECK_EQ(gmp_cancel(g), 0);
	join(g);
}

/* A signal meets a waiter, or the time does: each signal that was sent to a waiter is taken. */
static int stock, taken, tries;

static void take_with_little_patience(UNUSED void *arg)
{
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	while (taken < 2000) {
		while (stock == 0 && taken < 2000) {
			tries++;
			gmp_cond_wait_until(&c, &m, gmp_deadline(20 * US));
		}
		if (stock) {
			stock--;
			taken++;
		}
	}
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	CHECK_EQ(gmp_cond_broadcast(&c), 0);
}

RT(timeouts_and_signals_at_once_lose_nothing)
{
	gmp_g *g[4];

	stock = taken = tries = 0;
	for (int i = 0; i < 4; i++)
		g[i] = spawn(take_with_little_patience, NULL);
	for (int i = 0; i < 2000; i++) {
		CHECK_EQ(gmp_mutex_lock(&m), 0);
		stock++;
		CHECK_EQ(gmp_mutex_unlock(&m), 0);
		CHECK_EQ(gmp_cond_signal(&c), 0);
		gmp_yield();
	}
	for (int i = 0; i < 4; i++)
		join(g[i]);
	CHECK_EQ(taken, 2000);
}

/* Each waits for its turn, and hands it on: one lost wake-up and nothing moves any more. */
static void take_turns(void *arg)
{
	int me = (int)(intptr_t)arg;

	for (int i = 0; i < 500; i++) {
		CHECK_EQ(gmp_mutex_lock(&m), 0);
		while (turn != me)
			CHECK_EQ(gmp_cond_wait(&c, &m), 0);
		turn = (turn + 1) % 4;
		CHECK_EQ(gmp_cond_broadcast(&c), 0);
		CHECK_EQ(gmp_mutex_unlock(&m), 0);
	}
}

RT(no_wake_up_is_lost)
{
	gmp_g *g[3];
	struct foreign f;

	turn = 0;
	for (int i = 0; i < 3; i++)
		g[i] = spawn(take_turns, (void *)(intptr_t)i);
	foreign_start(&f, take_turns, (void *)(intptr_t)3);
	for (int i = 0; i < 3; i++)
		join(g[i]);
	foreign_join(&f);
}

TEST(it_works_between_plain_threads)
{
	struct foreign f[4];

	turn = 0;
	for (int i = 0; i < 4; i++)
		foreign_start(&f[i], take_turns, (void *)(intptr_t)i);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_join(f[i].thread, NULL), 0);
}
