/* SPDX-License-Identifier: MIT */
/* Tests cancellation: it ends every present and later wait, and leaves the objects unchanged. */
#include <sys/socket.h>

#include "util.h"

enum { KINDS = 22 };

static gmp_chan *full, *empty, *other;
static gmp_mutex mutex;
static gmp_rwmutex rwmutex;
static gmp_wg wg, gate;
static gmp_sem sem;
static gmp_cond cond;
static gmp_mutex monitor;
static gmp_barrier barrier = GMP_BARRIER_INIT(100);
static gmp_g *sleeper;
static int pair[2];

static void sleep_long(UNUSED void *arg)
{
	CHECK_EQ(gmp_sleep(3600 * SEC), -ECANCELED);
}

static int wait_on_cond(int64_t deadline)
{
	CHECK_EQ(gmp_mutex_lock(&monitor), 0);
	int r = gmp_cond_wait_until(&cond, &monitor, deadline);

	CHECK_EQ(gmp_mutex_unlock(&monitor), 0);
	return r;
}

/* Wait by the call with this number. Timed calls get a far deadline. */
static int wait_in(int kind)
{
	int v = 5, x = 6, r;
	gmp_case cs[] = { GMP_RECV_CASE(empty, &x), GMP_SEND_CASE(full, &v),
			  GMP_RECV_CASE(other, &x) };
	int64_t far = gmp_deadline(3600 * SEC);
	char b;

	switch (kind) {
	case 0: return gmp_chan_recv(empty, NULL);
	case 1: return gmp_chan_send(full, &v);
	case 2: return gmp_chan_recv_until(empty, NULL, far);
	case 3: return gmp_chan_send_until(full, &v, far);
	case 4:
		r = gmp_select(cs, 3);
		CHECK_EQ(x, 6);
		return r;
	case 5: return gmp_select_until(cs, 2, far);
	case 6: return gmp_select(NULL, 0);
	case 7: return gmp_mutex_lock_until(&mutex, GMP_FOREVER);
	case 8: return gmp_mutex_lock_until(&mutex, far);
	case 9: return gmp_rwmutex_lock_until(&rwmutex, GMP_FOREVER);
	case 10: return gmp_rwmutex_rlock_until(&rwmutex, far);
	case 11: return gmp_wg_wait(&wg);
	case 12: return gmp_sleep_until(GMP_FOREVER);
	case 13: return gmp_sleep(3600 * SEC);
	case 14: return gmp_sem_acquire(&sem);
	case 15: return gmp_sem_acquire_until(&sem, far);
	case 16: return wait_on_cond(GMP_FOREVER);
	case 17: return wait_on_cond(far);
	case 18: return gmp_barrier_wait(&barrier);
	case 19: return gmp_wg_wait_until(&wg, far);
	case 20: return gmp_join(sleeper);
	default: return (int)gmp_read(pair[0], &b, 1);
	}
}

static void set_up(void)
{
	int v = 1;

	full = gmp_chan_new(sizeof(int), 1);
	empty = gmp_chan_new(sizeof(int), 1);
	other = gmp_chan_new(sizeof(int), 0);
	CHECK(full && empty && other);
	CHECK_EQ(gmp_chan_send(full, &v), 0);
	CHECK_EQ(gmp_mutex_lock(&mutex), 0);
	CHECK_EQ(gmp_rwmutex_lock(&rwmutex), 0);
	CHECK_EQ(gmp_wg_add(&wg, 1), 0);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	CHECK_EQ(gmp_fd_adopt(pair[0]), pair[0]);
	sleeper = spawn(sleep_long, NULL);
}

/* Every object must be as if no G had waited for it. */
static void tear_down(void)
{
	int v = 0;
	char b = 'x';

	CHECK_EQ(gmp_chan_try_send(other, &v), -EAGAIN);
	CHECK_EQ(gmp_chan_try_recv(other, &v), -EAGAIN);
	CHECK_EQ(gmp_chan_recv(full, &v), 0);
	CHECK_EQ(v, 1);
	CHECK_EQ(gmp_chan_try_recv(full, &v), -EAGAIN);
	CHECK_EQ(gmp_chan_send(empty, &v), 0);
	CHECK_EQ(gmp_chan_len(empty), 1);
	gmp_chan_free(full);
	gmp_chan_free(empty);
	gmp_chan_free(other);
	CHECK_EQ(gmp_mutex_unlock(&mutex), 0);
	CHECK_EQ(gmp_mutex_try_lock(&mutex), 0);
	CHECK_EQ(gmp_mutex_unlock(&mutex), 0);
	CHECK_EQ(gmp_rwmutex_unlock(&rwmutex), 0);
	CHECK_EQ(gmp_rwmutex_try_lock(&rwmutex), 0);
	CHECK_EQ(gmp_rwmutex_unlock(&rwmutex), 0);
	CHECK_EQ(gmp_wg_done(&wg), 0);
	CHECK_EQ(sem.state, 0);
	CHECK_EQ(barrier.arrived, 0);
	CHECK_EQ(gmp_mutex_try_lock(&monitor), 0);
	CHECK_EQ(gmp_mutex_unlock(&monitor), 0);
	CHECK_EQ(gmp_cond_signal(&cond), 0);
	CHECK_EQ(cond.waiters, 0);
	CHECK_EQ(write(pair[1], &b, 1), 1);
	CHECK_EQ(gmp_read(pair[0], &b, 1), 1);
	CHECK_EQ(gmp_close(pair[0]), 0);
	CHECK_EQ(close(pair[1]), 0);
	CHECK_EQ(gmp_cancel(sleeper), 0);
	join(sleeper);
}

static void wait_twice(void *arg)
{
	int kind = (int)(intptr_t)arg;

	CHECK_EQ(gmp_cancelled(), 0);
	CHECK_EQ(wait_in(kind), -ECANCELED);
	CHECK_EQ(gmp_cancelled(), 1);
	CHECK_EQ(wait_in(kind), -ECANCELED);
	CHECK_EQ(wait_in((kind + 1) % KINDS), -ECANCELED);
}

RT(cancel_ends_present_and_later_waits)
{
	set_up();
	for (int kind = 0; kind < KINDS; kind++) {
		gmp_g *g = spawn(wait_twice, (void *)(intptr_t)kind);

		wait_parked(2);
		CHECK_EQ(gmp_cancel(g), 0);
		CHECK_EQ(gmp_cancel(g), 0);
		join(g);
	}
	tear_down();
}

static void cancel_it(void *g)
{
	CHECK_EQ(gmp_cancel(g), 0);
}

RT(cancel_from_external_thread_ends_waits)
{
	struct ext_thread f;

	set_up();
	for (int kind = 0; kind < KINDS; kind++) {
		gmp_g *g = spawn(wait_twice, (void *)(intptr_t)kind);

		wait_parked(2);
		ext_thread_start(&f, cancel_it, g);
		join(g);
		ext_thread_join(&f);
	}
	tear_down();
}

static void wait_cancelled(void *arg)
{
	CHECK_EQ(gmp_wg_wait(&gate), -ECANCELED);
	CHECK_EQ(wait_in((int)(intptr_t)arg), -ECANCELED);
}

/* Race: the cancellation comes before, at the start of, or during the wait. */
RT(cancel_racing_start_of_wait_is_not_lost)
{
	enum { ROUNDS = 3000 };

	set_up();
	for (int i = 0; i < ROUNDS; i++) {
		int kind = i % KINDS;
		gmp_g *g[4];

		gmp_wg_add(&gate, 1);
		for (int k = 0; k < 4; k++)
			g[k] = spawn(wait_cancelled, (void *)(intptr_t)((kind + k) % 20));
		for (int k = i % 5; k > 0; k--)
			gmp_yield();
		for (int k = 0; k < 4; k++)
			CHECK_EQ(gmp_cancel(g[k]), 0);
		for (int k = 0; k < 4; k++)
			join(g[k]);
		gmp_wg_done(&gate);
	}
	tear_down();
}

static void call_when_cancelled(UNUSED void *arg)
{
	int v = 3;
	gmp_case cs[] = { GMP_RECV_CASE(empty, &v), GMP_SEND_CASE(full, &v) };
	gmp_wg done = GMP_WG_INIT;
	gmp_barrier alone = GMP_BARRIER_INIT(1);

	CHECK_EQ(gmp_cancel(gmp_self()), 0);
	/* calls that need not wait succeed */
	CHECK_EQ(gmp_chan_send(empty, &v), 0);
	CHECK_EQ(gmp_select(cs, 2), 0);
	CHECK_EQ(v, 3);
	CHECK_EQ(gmp_mutex_unlock(&mutex), 0);
	CHECK_EQ(gmp_mutex_lock_until(&mutex, GMP_FOREVER), 0);
	CHECK_EQ(gmp_rwmutex_unlock(&rwmutex), 0);
	CHECK_EQ(gmp_rwmutex_rlock_until(&rwmutex, GMP_FOREVER), 0);
	CHECK_EQ(gmp_rwmutex_runlock(&rwmutex), 0);
	CHECK_EQ(gmp_rwmutex_lock_until(&rwmutex, GMP_FOREVER), 0);
	CHECK_EQ(gmp_sem_release(&sem, 1), 0);
	CHECK_EQ(gmp_sem_acquire(&sem), 0);
	CHECK_EQ(gmp_wg_wait(&done), 0);
	CHECK_EQ(gmp_barrier_wait(&alone), 1);
	/* try calls fail with -EAGAIN as usual */
	CHECK_EQ(gmp_chan_try_recv(empty, &v), -EAGAIN);
	CHECK_EQ(gmp_chan_try_send(full, &v), -EAGAIN);
	CHECK_EQ(gmp_select_try(cs, 2), -EAGAIN);
	CHECK_EQ(gmp_mutex_try_lock(&mutex), -EAGAIN);
	CHECK_EQ(gmp_rwmutex_try_lock(&rwmutex), -EAGAIN);
	CHECK_EQ(gmp_rwmutex_try_rlock(&rwmutex), -EAGAIN);
	CHECK_EQ(gmp_sem_try_acquire(&sem), -EAGAIN);
	/* -ECANCELED beats -ETIMEDOUT */
	CHECK_EQ(gmp_sem_acquire_until(&sem, 0), -ECANCELED);
	CHECK_EQ(gmp_rwmutex_lock_until(&rwmutex, 0), -ECANCELED);
	CHECK_EQ(gmp_rwmutex_rlock_until(&rwmutex, 0), -ECANCELED);
	CHECK_EQ(wait_on_cond(0), -ECANCELED);
	CHECK_EQ(gmp_chan_recv_until(empty, &v, 0), -ECANCELED);
	CHECK_EQ(gmp_select_until(cs, 2, 0), -ECANCELED);
	CHECK_EQ(gmp_mutex_lock_until(&mutex, 0), -ECANCELED);
	CHECK_EQ(gmp_wg_wait_until(&wg, 0), -ECANCELED);
	CHECK_EQ(gmp_join_until(sleeper, 0), -ECANCELED);
	gmp_yield();
	CHECK_EQ(gmp_sleep(0), 0);
}

RT(cancel_does_not_fail_calls_that_need_not_wait)
{
	set_up();
	join(spawn(call_when_cancelled, NULL));
	tear_down();
}

static atomic_int step;

static void lock_untimed(UNUSED void *arg)
{
	CHECK_EQ(gmp_mutex_lock(&mutex), 0);
	CHECK_EQ(gmp_mutex_unlock(&mutex), 0);
	atomic_fetch_add(&step, 1);
	CHECK_EQ(gmp_rwmutex_rlock(&rwmutex), 0);
	CHECK_EQ(gmp_rwmutex_runlock(&rwmutex), 0);
	CHECK_EQ(gmp_rwmutex_lock(&rwmutex), 0);
	CHECK_EQ(gmp_rwmutex_unlock(&rwmutex), 0);
	atomic_fetch_add(&step, 1);
	CHECK_EQ(gmp_wg_wait(&wg), -ECANCELED);
}

/* The deadline expires at the start of the wait. */
static void wait_with_short_deadline(UNUSED void *arg)
{
	CHECK_EQ(gmp_cancel(gmp_self()), 0);
	for (long i = 0, n = check_scaled(3000); i < n; i++) {
		int64_t soon = gmp_deadline(i % 100 * 20);

		switch (i % 4) {
		case 0: CHECK_EQ(gmp_chan_recv_until(empty, NULL, soon), -ECANCELED); break;
		case 1: CHECK_EQ(gmp_sem_acquire_until(&sem, soon), -ECANCELED); break;
		case 2: CHECK_EQ(gmp_mutex_lock_until(&mutex, soon), -ECANCELED); break;
		default: CHECK_EQ(wait_on_cond(soon), -ECANCELED);
		}
	}
}

RT(cancel_beats_deadline_that_expires_at_start_of_wait)
{
	gmp_g *g[4];

	set_up();
	for (int k = 0; k < 4; k++)
		g[k] = spawn(wait_with_short_deadline, NULL);
	for (int k = 0; k < 4; k++)
		join(g[k]);
	tear_down();
}

/*
 * Both deadlines expire. The first twin to run cancels the other, which its timer has made
 * runnable.
 */
static gmp_g *twin[2];
static int twin_result[2];
static int64_t twin_deadline;

static void cancel_twin(void *arg)
{
	int me = (int)(intptr_t)arg;

	twin_result[me] = gmp_chan_recv_until(empty, NULL, twin_deadline);
	if (twin_result[me] == -ETIMEDOUT)
		CHECK_EQ(gmp_cancel(twin[!me]), 0);
}

static void spawn_twins(UNUSED void *arg)
{
	for (int i = 0; i < 20; i++) {
		empty = gmp_chan_new(1, 0);
		twin_deadline = gmp_deadline(MS);
		for (int k = 0; k < 2; k++)
			twin[k] = spawn(cancel_twin, (void *)(intptr_t)k);
		gmp_yield();
		gmp_yield();
		while (gmp_now() <= twin_deadline)
			;
		for (int k = 0; k < 2; k++)
			join(twin[k]);
		CHECK_EQ(twin_result[0] + twin_result[1], -ETIMEDOUT - ECANCELED);
		gmp_chan_free(empty);
	}
}

TEST(cancel_beats_timeout_of_waiter_that_is_runnable)
{
	run_procs(1, spawn_twins, NULL);
}

RT(cancel_mask_nests_255_deep)
{
	CHECK_EQ(gmp_cancelled(), 0);
	CHECK_EQ(gmp_cancel_mask(0), -EINVAL);
	for (int i = 0; i < 255; i++)
		CHECK_EQ(gmp_cancel_mask(1 + i), 0);
	CHECK_EQ(gmp_cancel_mask(1), -EINVAL);
	CHECK_EQ(gmp_cancel(gmp_self()), 0);
	for (int i = 0; i < 255; i++) {
		CHECK_EQ(gmp_wg_wait_until(&gate, 0), 0);
		CHECK_EQ(gmp_sem_acquire_until(&sem, 0), -ETIMEDOUT);
		CHECK_EQ(gmp_cancel_mask(0), 0);
	}
	CHECK_EQ(gmp_sem_acquire_until(&sem, 0), -ECANCELED);
	CHECK_EQ(gmp_cancel_mask(0), -EINVAL);
	CHECK_EQ(gmp_cancelled(), 1);
}

RT(cancel_does_not_end_untimed_lock)
{
	atomic_store(&step, 0);
	set_up();
	gmp_g *g = spawn(lock_untimed, NULL);

	wait_parked(2);
	CHECK_EQ(gmp_cancel(g), 0);
	for (int i = 0; i < 10; i++)
		gmp_yield();
	CHECK_EQ(atomic_load(&step), 0);
	CHECK_EQ(gmp_mutex_unlock(&mutex), 0);
	WAIT_FOR(atomic_load(&step) == 1);
	for (int i = 0; i < 10; i++)
		gmp_yield();
	CHECK_EQ(atomic_load(&step), 1);
	CHECK_EQ(gmp_rwmutex_unlock(&rwmutex), 0);
	join(g);
	CHECK_EQ(gmp_mutex_lock(&mutex), 0);
	CHECK_EQ(gmp_rwmutex_lock(&rwmutex), 0);
	tear_down();
}

static gmp_timer *timer;

static void fire(UNUSED void *arg)
{
	atomic_store(&step, 1);
	CHECK_EQ(gmp_wg_wait(&gate), 0);
	atomic_store(&step, 2);
}

static void free_and_close(UNUSED void *arg)
{
	CHECK_EQ(gmp_cancel(gmp_self()), 0);
	gmp_timer_free(timer);
	CHECK_EQ(atomic_load(&step), 2);
	CHECK_EQ(gmp_close(pair[0]), 0);
	CHECK_EQ(close(pair[1]), 0);
}

RT(cancel_does_not_end_timer_free_or_close)
{
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	CHECK_EQ(gmp_fd_adopt(pair[0]), pair[0]);
	atomic_store(&step, 0);
	CHECK_EQ(gmp_wg_add(&gate, 1), 0);
	timer = gmp_timer_new(fire, NULL);
	CHECK(timer != NULL);
	CHECK_EQ(gmp_timer_set(timer, gmp_now(), 0), 0);
	WAIT_FOR(atomic_load(&step) == 1);
	gmp_g *g = spawn(free_and_close, NULL);

	CHECK_EQ(gmp_join_until(g, gmp_deadline(MS)), -ETIMEDOUT);
	CHECK_EQ(gmp_wg_done(&gate), 0);
	join(g);
}

static void clean_up(UNUSED void *arg)
{
	int v;

	CHECK_EQ(gmp_chan_recv(empty, &v), -ECANCELED);
	CHECK_EQ(gmp_cancel_mask(1), 0);
	CHECK_EQ(gmp_cancel_mask(1), 0);
	CHECK_EQ(gmp_cancelled(), 1);
	CHECK_EQ(gmp_chan_recv_until(empty, &v, gmp_deadline(MS)), -ETIMEDOUT);
	CHECK_EQ(gmp_sleep(MS), 0);
	CHECK_EQ(gmp_cancel_mask(0), 0);
	atomic_store(&step, 1);
	CHECK_EQ(gmp_chan_recv(empty, &v), 0);
	CHECK_EQ(v, 77);
	CHECK_EQ(gmp_cancel_mask(0), 0);
	CHECK_EQ(gmp_cancel_mask(0), -EINVAL);
	CHECK_EQ(gmp_chan_recv(empty, &v), -ECANCELED);
}

RT(cancel_mask_makes_waits_ignore_cancellation)
{
	int v = 77;

	atomic_store(&step, 0);
	set_up();
	gmp_g *g = spawn(clean_up, NULL);

	wait_parked(2);
	CHECK_EQ(gmp_cancel(g), 0);
	WAIT_FOR(atomic_load(&step) == 1);
	wait_parked(2);
	CHECK_EQ(gmp_cancel(g), 0);
	CHECK_EQ(gmp_chan_send(empty, &v), 0);
	join(g);
	tear_down();
}

static void mask_first(UNUSED void *arg)
{
	CHECK_EQ(gmp_cancel_mask(1), 0);
	CHECK_EQ(gmp_wg_wait(&gate), 0);
	atomic_store(&step, 1);
	CHECK_EQ(gmp_cancel_mask(0), 0);
	CHECK_EQ(gmp_wg_wait(&wg), -ECANCELED);
}

RT(cancel_during_masked_wait_does_not_end_it)
{
	set_up();
	atomic_store(&step, 0);
	gmp_wg_add(&gate, 1);
	gmp_g *g = spawn(mask_first, NULL);

	wait_parked(2);
	CHECK_EQ(gmp_cancel(g), 0);
	for (int i = 0; i < 10; i++)
		gmp_yield();
	CHECK_EQ(atomic_load(&step), 0);
	gmp_wg_done(&gate);
	join(g);
	tear_down();
}

static void nothing(UNUSED void *arg)
{
}

RT(cancel_of_ended_g_does_not_reach_reused_g_struct)
{
	gmp_g *g = spawn(nothing, NULL), *next;

	WAIT_FOR(stats().greens == 1);
	CHECK_EQ(gmp_cancel(g), 0);
	join(g);
	CHECK_EQ(gmp_cancel(NULL), -EINVAL);
	/* a G that reuses the g struct is not cancelled */
	for (int i = 0; i < 100; i++) {
		next = spawn(nothing, NULL);
		join(next);
	}
	gmp_wg w = GMP_WG_INIT;

	gmp_wg_add(&w, 1);
	CHECK_EQ(gmp_wg_wait_until(&w, gmp_deadline(MS)), -ETIMEDOUT);
}

/* Race between a cancellation and a peer: an element is counted by both sides or by neither. */
static atomic_long sent, received;
static gmp_chan *line;

static void send_until_cancelled(UNUSED void *arg)
{
	int64_t v = 1;

	while (gmp_chan_send(line, &v) == 0)
		atomic_fetch_add(&sent, 1);
}

static void receive_until_cancelled(UNUSED void *arg)
{
	int64_t v = 0;
	gmp_case cs[] = { GMP_RECV_CASE(line, &v), GMP_RECV_CASE(other, NULL) };

	while (gmp_select(cs, 2) == 0)
		atomic_fetch_add(&received, v);
}

RT(cancel_racing_chan_peer_has_one_winner)
{
	enum { ROUNDS = 300 };
	int64_t v;

	other = gmp_chan_new(sizeof(int), 0);
	atomic_store(&sent, 0);
	atomic_store(&received, 0);
	for (int i = 0; i < ROUNDS; i++) {
		gmp_g *g[6];

		line = gmp_chan_new(sizeof(int64_t), (size_t)(i % 3));
		for (int k = 0; k < 6; k++)
			g[k] = spawn(k % 2 ? send_until_cancelled : receive_until_cancelled, NULL);
		for (int k = i % 7; k > 0; k--)
			gmp_yield();
		for (int k = 0; k < 6; k++)
			CHECK_EQ(gmp_cancel(g[(k + i) % 6]), 0);
		for (int k = 0; k < 6; k++)
			join(g[k]);
		while (gmp_chan_try_recv(line, &v) == 0)
			atomic_fetch_add(&received, v);
		CHECK_EQ(atomic_load(&sent), atomic_load(&received));
		gmp_chan_free(line);
	}
	gmp_chan_free(other);
}

static void cancel_main(void *g)
{
	CHECK_EQ(gmp_cancel(g), 0);
}

RT(cancel_of_first_green_thread_ends_its_wait)
{
	gmp_g *g = spawn(cancel_main, gmp_self());

	CHECK_EQ(gmp_sleep(3600 * SEC), -ECANCELED);
	CHECK_EQ(gmp_cancel_mask(1), 0);
	join(g);
	CHECK_EQ(gmp_cancel_mask(0), 0);
}

TEST(cancel_on_external_thread_has_no_effect)
{
	CHECK_EQ(gmp_cancelled(), 0);
	CHECK_EQ(gmp_cancel_mask(1), 0);
	CHECK_EQ(gmp_cancel_mask(0), 0);
	CHECK_EQ(gmp_cancel((gmp_g *)&step), -ESRCH);
}
