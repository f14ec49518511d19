/* SPDX-License-Identifier: MIT */
/*
 * Tests what a G does after its P was taken: it yields, ends, blocks, spawns, is cancelled; it is
 * bound to its OS thread; the number of Ps changes; the run ends.
 */
#define _GNU_SOURCE 1
#include "preempt_util.h"

/* --- yield and end --- */

static atomic_int ended;

static void yield_often(UNUSED void *arg)
{
	gmp_g *self = gmp_self();

	compute_until_taken();
	for (int i = 0; i < 5; i++) {
		gmp_yield();
		CHECK(gmp_self() == self);
		compute_past_slice();
		gmp_checkpoint();
		CHECK(gmp_self() == self);
		compute_past_slice();
	}
	atomic_fetch_add(&ended, 1);
}

RT(g_without_p_yields)
{
	run_taken(procs, yield_often, NULL, 0);
	CHECK_EQ(atomic_load(&ended), procs);
}

static gmp_key key;

static void destroy_value(void *value)
{
	CHECK(gmp_self() != NULL);
	CHECK_EQ(gmp_sleep(100 * US), 0);
	atomic_fetch_add((atomic_int *)value, 1);
}

static void return_without_p(UNUSED void *arg)
{
	CHECK_EQ(gmp_key_set(key, &ended), 0);
	compute_until_taken();
	CHECK(gmp_key_get(key) == &ended);
}

static void exit_without_p(UNUSED void *arg)
{
	CHECK_EQ(gmp_key_set(key, &ended), 0);
	compute_until_taken();
	CHECK(gmp_key_get(key) == &ended);
	gmp_exit();
}

RT(g_without_p_ends)
{
	CHECK_EQ(gmp_key_create(&key, destroy_value), 0);
	run_taken(procs, return_without_p, NULL, 0);
	run_taken(procs, exit_without_p, NULL, 0);
	CHECK_EQ(atomic_load(&ended), 2 * procs);
	WAIT_FOR(stats().greens == 1);
	CHECK_EQ(gmp_key_delete(key), 0);
}

/* --- own thread-locals --- */

static gmp_g *spawn_own(gmp_fn fn, void *arg)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g = NULL;

	a.flags = GMP_OWN_TLS;
	int err = gmp_spawn(&g, fn, arg, &a);

	if (err == -ENOTSUP)
		check_skip("no own thread-locals here");
	CHECK_EQ(err, 0);
	return g;
}

static void compute_and_end(UNUSED void *arg)
{
	compute_until_taken();
}

enum { THREADS = 6 * PROCS_MOST }; /* more than the Ms of the Gs before */

static atomic_int blocked;

/* In blocking code until all are, so that each runs on an OS thread of its own. */
static void block_beside_others(UNUSED void *arg)
{
	gmp_g *self = gmp_self();

	CHECK(self != NULL);
	gmp_block_enter();
	atomic_fetch_add(&blocked, 1);
	while (atomic_load(&blocked) < THREADS)
		usleep(100);
	gmp_block_leave();
	CHECK(gmp_self() == self);
}

RT(g_with_own_thread_locals_ends_without_p)
{
	gmp_g *g[PROCS_MOST], *others[THREADS];

	rivals_start(procs, procs);
	for (int i = 0; i < procs; i++)
		g[i] = spawn_own(compute_and_end, NULL);
	for (int i = 0; i < procs; i++)
		join(g[i]);
	rivals_stop();
	for (int i = 0; i < THREADS; i++)
		others[i] = spawn(block_beside_others, NULL);
	for (int i = 0; i < THREADS; i++)
		join(others[i]);
}

/* --- spawn and join --- */

enum { CHILDREN = 50 };

static void add_one(void *arg)
{
	gmp_yield();
	atomic_fetch_add((atomic_int *)arg, 1);
}

static void spawn_without_p(UNUSED void *arg)
{
	atomic_int sum = 0;
	gmp_g *g[CHILDREN];

	compute_until_taken();
	for (int i = 0; i < CHILDREN; i++) {
		g[i] = spawn(add_one, &sum);
		CHECK_EQ(gmp_go(add_one, &ended), 0);
	}
	COMPUTE_UNTIL(atomic_load(&sum) == CHILDREN); /* they run although this G does not wait */
	for (int i = 0; i < CHILDREN; i++)
		join(g[i]);
	CHECK_EQ(atomic_load(&sum), CHILDREN);
}

RT(g_without_p_spawns_and_joins)
{
	run_taken(procs, spawn_without_p, NULL, 0);
	WAIT_FOR(atomic_load(&ended) == CHILDREN * procs);
}

/* --- cancellation --- */

static atomic_int cancelled;

static void compute_until_cancelled(void *arg)
{
	gmp_chan *c = arg;
	int v = 0;

	compute_until_taken();
	COMPUTE_UNTIL(atomic_load(&cancelled));
	CHECK_EQ(gmp_cancelled(), 1);
	CHECK_EQ(gmp_chan_try_send(c, &v), 0); /* need not wait */
	CHECK_EQ(gmp_chan_recv(c, &v), 0);
	CHECK_EQ(gmp_chan_recv(c, &v), -ECANCELED);
	CHECK_EQ(gmp_sleep(PATIENCE), -ECANCELED);
	CHECK_EQ(gmp_cancel_mask(1), 0);
	CHECK_EQ(gmp_sleep(MS), 0);
	CHECK_EQ(gmp_cancel_mask(0), 0);
}

RT(g_cancelled_while_without_p_returns_ecanceled)
{
	gmp_chan *c[PROCS_MOST];
	gmp_g *g[PROCS_MOST];

	rivals_start(procs, procs);
	for (int i = 0; i < procs; i++) {
		CHECK((c[i] = gmp_chan_new(sizeof(int), 1)) != NULL);
		g[i] = spawn(compute_until_cancelled, c[i]);
	}
	WAIT_FOR(atomic_load(&rivals.all_taken));
	for (int i = 0; i < procs; i++)
		CHECK_EQ(gmp_cancel(g[i]), 0);
	atomic_store(&cancelled, 1);
	for (int i = 0; i < procs; i++) {
		join(g[i]);
		gmp_chan_free(c[i]);
	}
	rivals_stop();
}

/* --- blocking code --- */

static void block_without_p(UNUSED void *arg)
{
	gmp_g *self = gmp_self();
	struct timespec t = { 0, 2000000 };

	compute_until_taken();
	for (int i = 0; i < 5; i++) {
		int here = thread_id();

		gmp_block_enter();
		CHECK(gmp_self() == NULL);
		CHECK_EQ(thread_id(), here);
		compute_for(MS);
		CHECK_EQ(thread_id(), here);
		gmp_block_leave();
		CHECK(gmp_self() == self);
		(void)gmp_blocking(nanosleep(&t, NULL));
		CHECK(gmp_self() == self);
		compute_past_slice();
	}
}

RT(g_without_p_enters_blocking_code)
{
	run_taken(procs, block_without_p, NULL, 0);
	WAIT_FOR(stats().greens_blocked == 0);
}

static void call_as_external_thread(void *arg)
{
	gmp_chan *c = arg;
	int v = 1;

	compute_until_taken();
	gmp_block_enter();
	CHECK_EQ(gmp_chan_send(c, &v), 0);
	CHECK_EQ(gmp_sleep(MS), 0);
	gmp_block_leave();
}

RT(g_without_p_waits_in_blocking_code)
{
	gmp_chan *c = gmp_chan_new(sizeof(int), 0);
	gmp_g *g[PROCS_MOST];
	int v;

	rivals_start(procs, procs);
	for (int i = 0; i < procs; i++)
		g[i] = spawn(call_as_external_thread, c);
	for (int i = 0; i < procs; i++)
		CHECK_EQ(gmp_chan_recv(c, &v), 0);
	for (int i = 0; i < procs; i++)
		join(g[i]);
	rivals_stop();
	gmp_chan_free(c);
}

/* --- a G that is bound to its OS thread --- */

static void compute_bound(void *lock)
{
	int here;

	CHECK_EQ(*(int *)lock ? gmp_lock_thread() : gmp_pin(), 0);
	here = thread_id();
	compute_until_taken();
	for (int i = 0; i < 4; i++) {
		gmp_yield();
		CHECK_EQ(thread_id(), here);
		compute_past_slice();
		CHECK_EQ(gmp_sleep(200 * US), 0);
		CHECK_EQ(thread_id(), here);
		(void)gmp_blocking(usleep(100));
		CHECK_EQ(thread_id(), here);
		compute_past_slice();
	}
	CHECK_EQ(*(int *)lock ? gmp_unlock_thread() : gmp_unpin(), 0);
	gmp_yield();
}

RT(locked_g_without_p_keeps_its_thread)
{
	int lock[PROCS_MOST] = { 1, 1, 1, 1 };

	run_taken(procs, compute_bound, lock, sizeof(lock[0]));
}

RT(pinned_g_without_p_keeps_its_thread)
{
	int lock[PROCS_MOST] = { 0, 0, 0, 0 };

	run_taken(procs, compute_bound, lock, sizeof(lock[0]));
}

/* Binding itself, and its end, without a P. */
static void bind_without_p(void *lock)
{
	int here;

	compute_until_taken();
	CHECK_EQ(*(int *)lock ? gmp_lock_thread() : gmp_pin(), 0);
	here = thread_id();
	gmp_yield();
	CHECK_EQ(thread_id(), here);
	compute_past_slice();
	CHECK_EQ(*(int *)lock ? gmp_unlock_thread() : gmp_unpin(), 0);
	gmp_yield();
}

RT(g_without_p_is_locked_and_unlocked)
{
	int lock[PROCS_MOST] = { 1, 1, 1, 1 };

	run_taken(procs, bind_without_p, lock, sizeof(lock[0]));
}

RT(g_without_p_is_pinned_and_unpinned)
{
	int lock[PROCS_MOST] = { 0, 0, 0, 0 };

	run_taken(procs, bind_without_p, lock, sizeof(lock[0]));
}

/* A G that waits for the OS thread on which another one computes. */
static void wait_pinned(UNUSED void *arg)
{
	int here;

	CHECK_EQ(gmp_pin(), 0);
	here = thread_id();
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(gmp_sleep(500 * US), 0);
		CHECK_EQ(thread_id(), here);
	}
	CHECK_EQ(gmp_unpin(), 0);
	atomic_fetch_add(&ended, 1);
}

static void compute_in_parts(UNUSED void *arg)
{
	for (int i = 0; i < 5; i++) {
		compute_for(15 * MS);
		gmp_yield();
	}
}

RT(pinned_gs_share_threads_with_computing_gs)
{
	gmp_g *pinned[8];

	for (int i = 0; i < 8; i++)
		pinned[i] = spawn(wait_pinned, NULL);
	run_gs(compute_in_parts, NULL, 0, 2 * procs);
	for (int i = 0; i < 8; i++)
		join(pinned[i]);
	CHECK_EQ(atomic_load(&ended), 8);
}

/* --- the number of Ps --- */

static atomic_int resized;

static void compute_during_resize(UNUSED void *arg)
{
	compute_until_taken();
	COMPUTE_UNTIL(atomic_load(&resized));
	CHECK_EQ(gmp_sleep(MS), 0);
	gmp_yield();
	atomic_fetch_add(&ended, 1);
}

RT(set_procs_while_gs_are_without_p_keeps_all)
{
	static const int numbers[] = { 1, 6, 2, 1, 3, 8, 1 };
	gmp_g *g[PROCS_MOST];

	rivals_start(procs, procs);
	for (int i = 0; i < procs; i++)
		g[i] = spawn(compute_during_resize, NULL);
	WAIT_FOR(atomic_load(&rivals.all_taken));
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		CHECK(gmp_set_procs(numbers[i]) > 0);
		gmp_yield();
		CHECK_EQ(gmp_procs(), numbers[i]);
		CHECK_EQ(gmp_sleep(500 * US), 0);
	}
	CHECK_EQ(gmp_set_procs(procs), 1);
	atomic_store(&resized, 1);
	for (int i = 0; i < procs; i++)
		join(g[i]);
	rivals_stop();
	CHECK_EQ(atomic_load(&ended), procs);
}

static void resize_without_p(UNUSED void *arg)
{
	compute_until_taken();
	for (int n = 1; n <= 4; n++)
		CHECK(gmp_set_procs(n) > 0);
	compute_for(MS);
	gmp_yield();
}

RT(g_without_p_sets_procs)
{
	run_taken(procs, resize_without_p, NULL, 0);
	CHECK(gmp_procs() >= 1);
}

/* --- the first G --- */

static void only_compute(UNUSED void *arg)
{
	compute_until_taken();
}

RT(first_g_without_p_waits_and_yields)
{
	gmp_g *self = gmp_self(), *g[PROCS_MOST];

	rivals_start(procs, procs);
	for (int i = 0; i < procs - 1; i++)
		g[i] = spawn(only_compute, NULL);
	compute_until_taken();
	CHECK(gmp_self() == self);
	gmp_yield();
	compute_past_slice();
	CHECK_EQ(gmp_sleep(MS), 0);
	CHECK(gmp_self() == self);
	for (int i = 0; i < procs - 1; i++)
		join(g[i]);
	rivals_stop();
}

static atomic_int begun;

static void compute_after_start(UNUSED void *arg)
{
	atomic_fetch_add(&begun, 1);
	compute_until_taken();
	compute_for(5 * MS);
	atomic_fetch_add(&ended, 1);
	gmp_sleep(PATIENCE); /* killed here at shutdown */
	CHECK(!"a green thread that was killed at shutdown ran on");
}

/* It returns while it has no P itself, and others compute without one. */
static void return_early(void *procs)
{
	int n = *(int *)procs;

	rivals_start(n, n);
	for (int i = 0; i < n - 1; i++)
		CHECK_EQ(gmp_go(compute_after_start, NULL), 0);
	compute_until_taken();
}

TEST_PROCS(run_ends_while_gs_are_without_p)
{
	int threads = count_threads();

	for (int i = 0; i < 10; i++) {
		run_procs(procs, return_early, &procs);
		CHECK_EQ(gmp_procs(), 0);
		CHECK_EQ(count_threads(), threads);
	}
	CHECK_EQ(atomic_load(&ended), atomic_load(&begun)); /* the end of a run waits for them */
}

/* --- other threads and forks --- */

static atomic_int thread_rounds;

static void send_from_outside(void *arg)
{
	for (int i = 0; i < 100; i++) {
		CHECK_EQ(gmp_chan_send(arg, &i), 0);
		atomic_fetch_add(&thread_rounds, 1);
	}
}

static void receive_without_p(void *arg)
{
	for (int i = 0, v; i < 100; i++) {
		if (i % 20 == 0)
			compute_for(12 * MS);
		CHECK_EQ(gmp_chan_recv(*(gmp_chan **)arg, &v), 0);
		CHECK_EQ(v, i);
	}
}

RT(external_threads_exchange_with_computing_gs)
{
	gmp_chan *c[PROCS_MOST];
	struct ext_thread f[PROCS_MOST];

	for (int i = 0; i < procs; i++) {
		CHECK((c[i] = gmp_chan_new(sizeof(int), (size_t)i)) != NULL);
		ext_thread_start(&f[i], send_from_outside, c[i]);
	}
	run_gs(receive_without_p, c, sizeof(c[0]), procs);
	for (int i = 0; i < procs; i++) {
		ext_thread_join(&f[i]);
		gmp_chan_free(c[i]);
	}
	CHECK_EQ(atomic_load(&thread_rounds), 100 * procs);
}

static void fork_without_p(UNUSED void *arg)
{
	int status = -1;
	pid_t pid;

	compute_until_taken();
	pid = fork();
	if (pid == 0)
		_exit(gmp_self() == NULL && gmp_go(add_one, &ended) == -ESRCH ? 42 : 1);
	CHECK(pid > 0);
	CHECK_EQ(gmp_waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
}

RT(g_without_p_forks)
{
	run_taken(procs, fork_without_p, NULL, 0);
}
