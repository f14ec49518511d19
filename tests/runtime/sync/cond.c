/* SPDX-License-Identifier: MIT */
/* Tests gmp_cond: signal, broadcast, timeouts, cancellation, lifetime and shutdown. */
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

RT(cond_signal_wakes_one_waiter_in_fifo_order)
{
	gmp_g *g[N];
	struct ext_thread f;

	asleep = woken = 0;
	for (int i = 0; i < N - 1; i++)
		g[i] = spawn(wait_once, (void *)(intptr_t)i);
	WAIT_FOR(locked(&asleep) == N - 1);
	ext_thread_start(&f, wait_once, (void *)(intptr_t)(N - 1));
	WAIT_FOR(locked(&asleep) == N);
	for (int i = 0; i < N; i++) {
		CHECK_EQ(locked(&woken), i);
		CHECK_EQ(gmp_cond_signal(&c), 0);
		WAIT_FOR(locked(&woken) == i + 1);
	}
	CHECK_EQ(gmp_cond_signal(&c), 0);
	for (int i = 0; i < N - 1; i++)
		join(g[i]);
	ext_thread_join(&f);
}

static void wait_any(UNUSED void *arg)
{
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	asleep++;
	CHECK_EQ(gmp_cond_wait(&c, &m), 0);
	woken++;
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
}

RT(cond_broadcast_wakes_all_waiters)
{
	gmp_g *g[N];
	struct ext_thread f;

	asleep = woken = 0;
	CHECK_EQ(gmp_cond_broadcast(&c), 0);
	for (int i = 0; i < N; i++)
		g[i] = spawn(wait_any, NULL);
	ext_thread_start(&f, wait_any, NULL);
	WAIT_FOR(locked(&asleep) == N + 1);
	CHECK_EQ(locked(&woken), 0);
	CHECK_EQ(gmp_cond_broadcast(&c), 0);
	for (int i = 0; i < N; i++)
		join(g[i]);
	ext_thread_join(&f);
	CHECK_EQ(woken, N + 1);
}

RT(cond_wait_timed_out_returns_with_mutex_locked)
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

RT(cond_wait_cancelled_returns_with_mutex_locked)
{
	asleep = 0;
	gmp_g *g = spawn(wait_cancelled, NULL);

	WAIT_FOR(locked(&asleep) == 1);
	CHECK_EQ(gmp_cancel(g), 0);
	join(g);
}

/* Race between signals and timeouts: every item that is put in stock is taken. */
static int stock, taken, tries;

static void take_with_short_timeout(UNUSED void *arg)
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

RT(cond_timeouts_racing_signals_do_not_stall_consumers)
{
	gmp_g *g[4];

	stock = taken = tries = 0;
	for (int i = 0; i < 4; i++)
		g[i] = spawn(take_with_short_timeout, NULL);
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

/* Four threads run in order, each woken by its predecessor: a lost wakeup stops them all. */
static void alternate(void *arg)
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

RT(cond_broadcast_alternating_loses_no_wakeup)
{
	gmp_g *g[3];
	struct ext_thread f;

	turn = 0;
	for (int i = 0; i < 3; i++)
		g[i] = spawn(alternate, (void *)(intptr_t)i);
	ext_thread_start(&f, alternate, (void *)(intptr_t)3);
	for (int i = 0; i < 3; i++)
		join(g[i]);
	ext_thread_join(&f);
}

TEST(cond_without_runtime_works_for_external_threads)
{
	struct ext_thread f[4];

	turn = 0;
	for (int i = 0; i < 4; i++)
		ext_thread_start(&f[i], alternate, (void *)(intptr_t)i);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_join(f[i].thread, NULL), 0);
}

/* --- the mutex after a failed wait --- */

static atomic_int returned;

static void time_out_or_be_cancelled(void *deadline)
{
	int want = deadline != NULL ? -ETIMEDOUT : -ECANCELED;

	CHECK_EQ(gmp_mutex_lock(&m), 0);
	asleep++;
	CHECK_EQ(gmp_cond_wait_until(&c, &m, deadline ? gmp_deadline(MS) : GMP_FOREVER), want);
	atomic_fetch_add(&returned, 1);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
}

/* A timeout or a cancellation ends the wait, but not the locking of the mutex after it. */
RT(cond_wait_timed_out_or_cancelled_waits_for_mutex)
{
	gmp_g *g[2];
	struct ext_thread f;
	static int timed;

	asleep = 0;
	atomic_store(&returned, 0);
	g[0] = spawn(time_out_or_be_cancelled, NULL);
	g[1] = spawn(time_out_or_be_cancelled, &timed);
	ext_thread_start(&f, time_out_or_be_cancelled, &timed);
	for (;;) {
		CHECK_EQ(gmp_mutex_lock(&m), 0);
		if (asleep == 3)
			break;
		CHECK_EQ(gmp_mutex_unlock(&m), 0);
		gmp_yield();
	}
	int before = atomic_load(&returned); /* a timeout may have expired before */

	CHECK_EQ(gmp_cancel(g[0]), 0);
	CHECK_EQ(gmp_sleep(3 * MS), 0);
	CHECK_EQ(atomic_load(&returned), before);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	for (int i = 0; i < 2; i++)
		join(g[i]);
	ext_thread_join(&f);
	CHECK_EQ(gmp_mutex_try_lock(&m), 0);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
}

static void wait_masked(UNUSED void *arg)
{
	CHECK_EQ(gmp_cancel_mask(1), 0);
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	asleep++;
	CHECK_EQ(gmp_cond_wait(&c, &m), 0);
	CHECK_EQ(gmp_cancel_mask(0), 0);
	CHECK_EQ(gmp_cond_wait(&c, &m), -ECANCELED);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
}

RT(cond_cancel_of_masked_wait_leaves_it_to_signal)
{
	asleep = 0;
	gmp_g *g = spawn(wait_masked, NULL);

	WAIT_FOR(locked(&asleep) == 1);
	CHECK_EQ(gmp_cancel(g), 0);
	CHECK_EQ(gmp_join_until(g, gmp_deadline(MS)), -ETIMEDOUT);
	CHECK_EQ(gmp_cond_signal(&c), 0);
	join(g);
}

/* --- races of a signal with a cancellation or a timeout --- */

static atomic_int successes, failures;

static void count_result(void *patience)
{
	int64_t d = patience ? gmp_deadline((int64_t)(intptr_t)patience * US) : GMP_FOREVER;

	CHECK_EQ(gmp_mutex_lock(&m), 0);
	asleep++;
	int r = gmp_cond_wait_until(&c, &m, d);

	CHECK(r == 0 || r == (patience ? -ETIMEDOUT : -ECANCELED));
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	atomic_fetch_add(r == 0 ? &successes : &failures, 1);
}

static void signal_it(UNUSED void *arg)
{
	CHECK_EQ(gmp_cond_signal(&c), 0);
}

static void cancel_it(void *g)
{
	CHECK_EQ(gmp_cancel(g), 0);
}

static void begin_round(void)
{
	asleep = 0;
	atomic_store(&successes, 0);
	atomic_store(&failures, 0);
}

/*
 * The first of two waiters is cancelled during the signal. If it is cancelled, the second gets the
 * signal.
 */
RT(cond_signal_racing_cancel_is_not_lost)
{
	for (long i = 0, n = check_scaled(1000); i < n; i++) {
		gmp_g *first, *second, *one, *two;

		begin_round();
		first = spawn(count_result, NULL);
		WAIT_FOR(locked(&asleep) == 1);
		second = spawn(count_result, NULL);
		WAIT_FOR(locked(&asleep) == 2);
		one = i % 2 ? spawn(signal_it, NULL) : spawn(cancel_it, first);
		two = i % 2 ? spawn(cancel_it, first) : spawn(signal_it, NULL);
		join(one);
		join(two);
		WAIT_FOR(atomic_load(&successes) == 1);
		CHECK_EQ(gmp_cancel(second), 0);
		join(first);
		join(second);
		CHECK_EQ(atomic_load(&successes), 1);
		CHECK_EQ(atomic_load(&failures), 1);
		CHECK_EQ(gmp_cond_signal(&c), 0);
		CHECK_EQ(c.waiters, 0);
	}
}

/* The first waiter has a short deadline, the second has none. */
RT(cond_signal_racing_timeout_is_not_lost)
{
	for (long i = 0, n = check_scaled(1000); i < n; i++) {
		gmp_g *first, *second;

		begin_round();
		first = spawn(count_result, (void *)(1 + i % 40));
		WAIT_FOR(locked(&asleep) == 1);
		second = spawn(count_result, NULL);
		WAIT_FOR(locked(&asleep) == 2);
		CHECK_EQ(gmp_cond_signal(&c), 0);
		WAIT_FOR(atomic_load(&successes) == 1);
		CHECK_EQ(gmp_cancel(second), 0);
		join(first);
		join(second);
		CHECK_EQ(atomic_load(&successes), 1);
		CHECK_EQ(atomic_load(&failures), 1);
	}
}

RT(cond_broadcast_without_waiter_has_no_effect)
{
	CHECK_EQ(gmp_cond_broadcast(&c), 0);
	CHECK_EQ(gmp_cond_signal(&c), 0);
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	CHECK_EQ(gmp_cond_wait_until(&c, &m, gmp_deadline(MS)), -ETIMEDOUT);
	CHECK_EQ(gmp_cond_broadcast(&c), 0);
	CHECK_EQ(gmp_cond_wait_until(&c, &m, gmp_deadline(MS)), -ETIMEDOUT);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
}

/* --- lifetime --- */

struct monitor {
	gmp_mutex m;
	gmp_cond c;
	int ready;
	char pad[40];
};

static void wait_and_free(void *arg)
{
	struct monitor *o = arg;

	CHECK_EQ(gmp_mutex_lock(&o->m), 0);
	o->ready++;
	CHECK_EQ(gmp_cond_wait(&o->c, &o->m), 0);
	CHECK_EQ(gmp_mutex_unlock(&o->m), 0);
	memset(o, 0xee, sizeof(*o));
	free(o);
}

RT(cond_freed_by_signalled_waiter_is_not_used_again)
{
	for (long i = 0, n = check_scaled(2000); i < n; i++) {
		struct monitor *o = calloc(1, sizeof(*o));
		struct ext_thread f;
		gmp_g *g = NULL;

		CHECK(o != NULL);
		if (i % 20)
			g = spawn(wait_and_free, o);
		else
			ext_thread_start(&f, wait_and_free, o);
		for (;;) {
			CHECK_EQ(gmp_mutex_lock(&o->m), 0);
			if (o->ready)
				break;
			CHECK_EQ(gmp_mutex_unlock(&o->m), 0);
			gmp_yield();
		}
		if (i % 2) {
			CHECK_EQ(gmp_cond_broadcast(&o->c), 0);
			CHECK_EQ(gmp_mutex_unlock(&o->m), 0);
		} else {
			CHECK_EQ(gmp_mutex_unlock(&o->m), 0);
			CHECK_EQ(gmp_cond_signal(&o->c), 0);
		}
		if (g)
			join(g);
		else
			ext_thread_join(&f);
	}
}

/* --- shutdown --- */

static void killed_in_wait(UNUSED void *arg)
{
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	gmp_cond_wait(&c, &m);
	CHECK(!"a green thread that was killed at shutdown ran on");
}

static struct ext_thread external;

static void leave_waiters(UNUSED void *arg)
{
	CHECK_EQ(gmp_go(killed_in_wait, NULL), 0);
	wait_parked(1);
	asleep = woken = 0;
	ext_thread_start(&external, wait_any, NULL);
	WAIT_FOR(locked(&asleep) == 1);
	CHECK_EQ(gmp_go(killed_in_wait, NULL), 0);
	wait_parked(2);
}

TEST_PROCS(cond_killed_waiter_takes_no_signal)
{
	for (int i = 0; i < 5; i++) {
		run_procs(procs, leave_waiters, NULL);
		CHECK_EQ(locked(&woken), 0);
		CHECK_EQ(gmp_cond_signal(&c), 0);
		CHECK_EQ(pthread_join(external.thread, NULL), 0);
		CHECK_EQ(woken, 1);
		CHECK_EQ(gmp_cond_signal(&c), 0);
		CHECK_EQ(c.waiters, 0);
	}
}
