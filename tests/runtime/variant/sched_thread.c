/* SPDX-License-Identifier: MIT */
/*
 * Tests GMP_SCHED_THREAD, where every green thread is an OS thread: each behaves as a green thread,
 * and shutdown kills all of them.
 */
#define _GNU_SOURCE 1
#include "util.h"

#include <sys/syscall.h>

static void run_threads(int procs, int max_threads, gmp_fn fn)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.procs = procs;
	cfg.sched = GMP_SCHED_THREAD;
	cfg.max_threads = max_threads;
	CHECK_EQ(gmp_run(fn, NULL, &cfg), 0);
}

#define THREADS(name)                                                                              \
	static void name##_body(void *arg);                                                        \
	TEST_PROCS(name)                                                                           \
	{                                                                                          \
		run_threads(procs, 0, name##_body);                                                \
	}                                                                                          \
	static void name##_body(UNUSED void *arg)

static _Atomic int count;
static gmp_chan *never;

static int tid(void)
{
	return (int)syscall(SYS_gettid);
}

/* --- identity --- */

static void tell_tid(void *arg)
{
	gmp_chan *c = arg;
	int me = tid();

	CHECK(gmp_self() != NULL);
	gmp_yield();
	CHECK_EQ(gmp_sleep(MS), 0);
	CHECK_EQ(gmp_sleep_until(0), 0);
	CHECK_EQ(tid(), me);
	CHECK_EQ(gmp_chan_send(c, &me), 0);
}

THREADS(sched_thread_gives_each_g_own_thread_and_self)
{
	gmp_chan *c = gmp_chan_new(sizeof(int), 0);
	gmp_g *g[4];
	int ids[4];

	CHECK_EQ(tid(), getpid()); /* the first G runs on the caller of gmp_run */
	for (int i = 0; i < 4; i++)
		g[i] = spawn(tell_tid, c);
	for (int i = 0; i < 4; i++) {
		CHECK_EQ(gmp_chan_recv(c, &ids[i]), 0);
		CHECK(ids[i] != tid());
		for (int k = 0; k < i; k++)
			CHECK(ids[k] != ids[i]);
	}
	for (int i = 0; i < 4; i++) {
		CHECK(g[i] != gmp_self() && gmp_id(g[i]) != gmp_id(gmp_self()));
		join(g[i]);
	}
	CHECK_EQ(gmp_join(gmp_self()), -EDEADLK);
	gmp_chan_free(c);
}

static void end_at_once(UNUSED void *arg)
{
}

THREADS(sched_thread_ended_g_is_not_counted_as_blocked)
{
	gmp_g *g[4];

	for (int i = 0; i < 4; i++)
		g[i] = spawn(end_at_once, NULL);
	for (int i = 0; i < 4; i++)
		join(g[i]);
	CHECK_EQ(stats().greens_blocked, 1); /* the caller */
}

static gmp_key key;

static void destroyed(void *value)
{
	CHECK(value == &key);
	count++;
}

static void exit_deep(UNUSED void *arg)
{
	CHECK(gmp_key_get(key) == NULL);
	CHECK_EQ(gmp_key_set(key, &key), 0);
	CHECK(gmp_key_get(key) == &key);
	CHECK_EQ(gmp_lock_thread(), 0);
	CHECK_EQ(gmp_unlock_thread(), 0);
	gmp_block_enter();
	gmp_block_leave();
	gmp_exit();
}

THREADS(sched_thread_exit_destroys_locals_before_join)
{
	CHECK_EQ(gmp_key_create(&key, destroyed), 0);
	for (int i = 1; i <= 20; i++) {
		join(spawn(exit_deep, NULL));
		CHECK_EQ(count, i);
	}
}

/* --- cancellation --- */

static void wait_to_be_cancelled(void *arg)
{
	int64_t deadline = *(int64_t *)arg;

	CHECK_EQ(gmp_chan_recv_until(never, NULL, deadline), -ECANCELED);
	CHECK_EQ(gmp_sleep(SEC), -ECANCELED);
	CHECK_EQ(gmp_cancelled(), 1);
	gmp_cancel_mask(1);
	CHECK_EQ(gmp_chan_recv_until(never, NULL, gmp_deadline(MS)), -ETIMEDOUT);
	gmp_cancel_mask(0);
	count++;
}

THREADS(sched_thread_cancel_ends_wait)
{
	int64_t deadlines[] = { GMP_FOREVER, gmp_deadline(100 * SEC) };

	never = gmp_chan_new(sizeof(int), 0);
	for (int i = 0; i < 10; i++) {
		gmp_g *g = spawn(wait_to_be_cancelled, &deadlines[i % 2]);

		if (i % 3)
			gmp_sleep(MS);
		CHECK_EQ(gmp_cancel(g), 0);
		join(g);
	}
	CHECK_EQ(count, 10);
	gmp_chan_free(never);
}

static int fail(UNUSED void *arg)
{
	return -EIO;
}

static int wait_in_group(UNUSED void *arg)
{
	return gmp_sleep(100 * SEC);
}

THREADS(sched_thread_failing_child_cancels_group)
{
	gmp_group *g = gmp_group_new(0, GMP_FOREVER);

	for (int i = 0; i < 5; i++)
		CHECK_EQ(gmp_group_go(g, wait_in_group, NULL), 0);
	CHECK_EQ(gmp_group_go(g, fail, NULL), 0);
	CHECK_EQ(gmp_group_wait(g), -EIO);
	gmp_group_free(g);
}

/* --- timers, fds and pools, which other Ms serve --- */

static void tick(UNUSED void *arg)
{
	CHECK(gmp_self() != NULL);
	count++;
}

static void read_one(void *arg)
{
	char c;

	CHECK_EQ(gmp_read(*(int *)arg, &c, 1), 1);
	CHECK_EQ(c, 'x');
}

static void count_task(UNUSED void *arg)
{
	gmp_yield();
	count++;
}

THREADS(sched_thread_timers_fds_and_pools_work)
{
	gmp_timer *t = gmp_timer_new(tick, NULL);
	gmp_pool *p;
	gmp_g *g;
	int fd[2];

	CHECK_EQ(gmp_timer_set(t, gmp_deadline(MS), MS), 0);
	WAIT_FOR(count >= 3);
	gmp_timer_free(t);
	CHECK_EQ(pipe(fd), 0);
	CHECK(gmp_fd_adopt(fd[0]) >= 0);
	g = spawn(read_one, &fd[0]);
	gmp_sleep(MS);
	CHECK_EQ(write(fd[1], "x", 1), 1);
	join(g);
	gmp_close(fd[0]);
	close(fd[1]);
	count = 0;
	p = gmp_pool_new(4, NULL);
	for (int i = 0; i < 50; i++)
		CHECK_EQ(gmp_pool_submit(p, count_task, NULL), 0);
	CHECK_EQ(gmp_pool_release(p, GMP_FOREVER), 0);
	CHECK_EQ(count, 50);
	gmp_pool_free(p);
}

/* --- pins: counted, although each G has its own thread --- */

static void pin_and_unpin(UNUSED void *arg)
{
	int me = tid();

	CHECK_EQ(gmp_unpin(), -EINVAL);
	for (int i = 0; i < 255; i++)
		CHECK_EQ(gmp_pin(), 0);
	CHECK_EQ(gmp_pin(), -EAGAIN);
	CHECK_EQ(gmp_lock_thread(), 0); /* no other G is pinned there */
	gmp_yield();
	CHECK_EQ(gmp_sleep(100 * US), 0);
	CHECK_EQ(gmp_unlock_thread(), 0);
	gmp_block_enter();
	CHECK_EQ(gmp_unpin(), 0);
	gmp_block_leave();
	for (int i = 0; i < 254; i++)
		CHECK_EQ(gmp_unpin(), 0);
	CHECK_EQ(gmp_unpin(), -EINVAL);
	CHECK_EQ(tid(), me);
}

static void unpin_by_attribute(void *arg)
{
	int me = tid();

	CHECK_EQ(gmp_chan_send(arg, &me), 0);
	CHECK_EQ(tid(), me);
	CHECK_EQ(gmp_unpin(), 0);
	CHECK_EQ(gmp_unpin(), -EINVAL);
	CHECK_EQ(gmp_chan_send(arg, &me), 0);
	CHECK_EQ(tid(), me);
	CHECK_EQ(gmp_pin(), 0); /* the G ends pinned */
}

THREADS(sched_thread_pins_are_counted_and_change_nothing)
{
	gmp_chan *c = gmp_chan_new(sizeof(int), 0);
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g[8];
	int sum = 0, v;

	a.flags = GMP_PINNED;
	pin_and_unpin(NULL); /* the first G runs on the thread of gmp_run */
	for (int i = 0; i < 4; i++)
		g[i] = spawn(pin_and_unpin, NULL);
	for (int i = 4; i < 8; i++)
		CHECK_EQ(gmp_spawn(&g[i], unpin_by_attribute, c, &a), 0);
	for (int i = 0; i < 8; i++) {
		CHECK_EQ(gmp_chan_recv(c, &v), 0);
		sum ^= v; /* each sends its thread id twice */
	}
	CHECK_EQ(sum, 0);
	for (int i = 0; i < 8; i++)
		join(g[i]);
	gmp_chan_free(c);
}

static void wait_pinned(UNUSED void *arg)
{
	CHECK_EQ(gmp_pin(), 0);
	(void)gmp_chan_recv(never, NULL);
	CHECK(0 && "a killed green thread ran on");
}

THREADS(sched_thread_shutdown_kills_pinned_gs)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g;

	a.flags = GMP_PINNED;
	never = gmp_chan_new(sizeof(int), 0);
	for (int i = 0; i < 10; i++)
		CHECK_EQ(gmp_spawn(&g, wait_pinned, NULL, i % 2 ? &a : NULL), 0);
	gmp_sleep(MS);
}

/* --- a fork --- */

static pid_t forked;

static void fork_and_return(UNUSED void *arg)
{
	forked = fork();
	CHECK(forked >= 0);
}

THREADS(sched_thread_fork_child_returning_exits_0)
{
	int status = -1;

	join(spawn(fork_and_return, NULL));
	CHECK_EQ(gmp_waitpid(forked, &status, 0), forked);
	CHECK_EQ(status, 0);
}

/* --- limits and shutdown --- */

enum { CHILDREN = 20 };

static pid_t children[CHILDREN];
static _Atomic int awaited;

static void await_child(void *pid)
{
	awaited++;
	(void)gmp_waitpid(*(pid_t *)pid, NULL, 0);
	CHECK(0 && "a killed green thread ran on");
}

static void leave_waiting(UNUSED void *arg)
{
	for (int i = 0; i < CHILDREN; i++)
		CHECK_EQ(gmp_go(await_child, &children[i]), 0);
	WAIT_FOR(awaited == CHILDREN);
}

/* Each wait holds a pidfd that is recorded on the stack of the killed G. */
TEST_PROCS(sched_thread_killed_waitpid_leaks_no_fd)
{
	check_skip_on_valgrind("Valgrind knows no pidfds");
	int before = count_fds();

	for (int i = 0; i < CHILDREN; i++) {
		children[i] = fork();
		CHECK(children[i] >= 0);
		if (children[i] == 0) {
			pause();
			_exit(0);
		}
	}
	for (int round = 0; round < 5; round++) {
		awaited = 0;
		run_threads(procs, 0, leave_waiting);
		CHECK_EQ(count_fds(), before);
	}
	for (int i = 0; i < CHILDREN; i++) {
		CHECK_EQ(kill(children[i], SIGKILL), 0);
		CHECK_EQ(waitpid(children[i], NULL, 0), children[i]);
	}
}

static void wait_for_never(UNUSED void *arg)
{
	(void)gmp_chan_recv(never, NULL);
	CHECK(0 && "a killed green thread ran on");
}

static void spawn_to_limit(UNUSED void *arg)
{
	int n = 0, err;

	while ((err = gmp_go(wait_for_never, NULL)) == 0)
		CHECK(++n < 40);
	CHECK_EQ(err, -EAGAIN);
	CHECK(n >= 30);
	CHECK_EQ(stats().greens, n + 1);
}

static void tick_after_room(UNUSED void *arg)
{
	gmp_timer *t = gmp_timer_new(tick, NULL);
	gmp_chan *c = gmp_chan_new(sizeof(int), 0);
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g[40];
	int n = 0, err;

	a.stack_size = 64 * 1024;
	while ((err = gmp_spawn(&g[n], tell_tid, c, n % 2 ? &a : NULL)) == 0)
		CHECK(++n < 40);
	CHECK_EQ(err, -EAGAIN);
	CHECK_EQ(gmp_timer_set(t, gmp_now(), 0), 0);
	gmp_sleep(10 * MS);
	CHECK_EQ(count, 0);
	for (int i = 0; i < n; i++)
		CHECK_EQ(gmp_chan_recv(c, NULL), 0);
	for (int i = 0; i < n; i++)
		join(g[i]);
	WAIT_FOR(count == 1);
	gmp_timer_free(t);
	gmp_chan_free(c);
}

TEST_PROCS(sched_thread_timer_at_max_threads_runs_later)
{
	run_threads(procs, 20, tick_after_room);
}

static _Atomic int room;

static void wait_for_room(UNUSED void *arg)
{
	WAIT_FOR(room);
}

/* Each attempt to start the timer's thread is a switch of the scheduler; an M serves only
 * the G of the timer. */
static void fail_to_start_a_timer(UNUSED void *arg)
{
	uint64_t attempts = (uint64_t)check_scaled(4000) * (uint64_t)gmp_procs();
	gmp_timer *t = gmp_timer_new(tick, NULL);
	int n = 0, err;

	while ((err = gmp_go(wait_for_room, NULL)) == 0)
		CHECK(++n < 40);
	CHECK_EQ(err, -EAGAIN);
	attempts += stats().switches;
	CHECK_EQ(gmp_timer_set(t, gmp_now(), 0), 0);
	WAIT_FOR(stats().switches >= attempts);
	CHECK_EQ(count, 0);
	room = 1;
	WAIT_FOR(count == 1);
	gmp_timer_free(t);
}

/* 64 bytes of g0 for each failed attempt would be enough for an overflow. */
TEST_PROCS(sched_thread_failed_timer_starts_use_no_g0_stack)
{
	run_threads(procs, 20, fail_to_start_a_timer);
}

static _Atomic int refused;

static void spawn_until_refused(UNUSED void *arg)
{
	while (gmp_go(tick, NULL) != -ESRCH)
		;
	refused++;
	gmp_yield();
	CHECK(0 && "a killed green thread ran on");
}

static void run_spawners(UNUSED void *arg)
{
	CHECK_EQ(gmp_go(spawn_until_refused, NULL), 0);
	CHECK_EQ(gmp_go(spawn_until_refused, NULL), 0);
	gmp_sleep(MS);
}

TEST_PROCS(sched_thread_spawn_at_shutdown_returns_esrch)
{
	run_threads(procs, 0, run_spawners);
	CHECK_EQ(refused, 2);
}

static gmp_pool *shared_pool;
static _Atomic int shared;

static void sleep_a_little(UNUSED void *arg)
{
	gmp_sleep(MS);
}

static void submit_forever(UNUSED void *arg)
{
	for (;;) {
		(void)gmp_pool_submit(shared_pool, sleep_a_little, NULL);
		gmp_checkpoint();
	}
}

static void submit_from_external(UNUSED void *arg)
{
	WAIT_FOR(shared);
	while (gmp_pool_submit(shared_pool, sleep_a_little, NULL) != -ESRCH)
		;
}

static void share_pool(UNUSED void *arg)
{
	shared_pool = gmp_pool_new(0, NULL);
	CHECK(shared_pool != NULL);
	shared = 1;
	CHECK_EQ(gmp_go(submit_forever, NULL), 0);
	CHECK_EQ(gmp_go(submit_forever, NULL), 0);
	gmp_sleep(3 * MS);
}

/* If a killed G kept the pool's lock, the external thread would spin indefinitely. */
TEST(sched_thread_killed_submitter_leaves_pool_unlocked)
{
	for (int i = 0; i < 20; i++) {
		struct ext_thread f;

		shared = 0;
		ext_thread_start(&f, submit_from_external, NULL);
		run_threads(2, 100, share_pool);
		ext_thread_join(&f);
		gmp_pool_free(shared_pool);
	}
}

TEST(sched_thread_max_threads_bounds_green_threads)
{
	int threads = count_threads();

	never = gmp_chan_new(sizeof(int), 0);
	run_threads(1, 40, spawn_to_limit);
	WAIT_FOR(count_threads() == threads); /* the kernel lists a joined thread for a moment */
	gmp_chan_free(never);
}

static gmp_mutex held;

static void wait_in_every_way(void *arg)
{
	gmp_case cs[] = { GMP_RECV_CASE(never, NULL) };

	switch ((int)(intptr_t)arg % 5) {
	case 0: (void)gmp_select(cs, 1); break;
	case 1: gmp_sleep(1000 * SEC); break;
	case 2: gmp_mutex_lock(&held); break;
	case 3:
		for (;;)
			gmp_checkpoint();
	case 4: wait_for_never(NULL);
	}
	CHECK(0 && "a killed green thread ran on");
}

THREADS(sched_thread_shutdown_kills_gs_in_every_wait)
{
	never = gmp_chan_new(sizeof(int), 0);
	CHECK_EQ(gmp_mutex_lock(&held), 0);
	for (int i = 0; i < 20; i++)
		CHECK_EQ(gmp_go(wait_in_every_way, (void *)(intptr_t)i), 0);
	gmp_sleep(MS); /* some Gs wait by then and some do not: shutdown must find both */
}

TEST(sched_thread_stop_kills_green_threads)
{
	gmp_config cfg = GMP_CONFIG_INIT;
	int threads = count_threads();

	never = gmp_chan_new(sizeof(int), 0);
	cfg.sched = GMP_SCHED_THREAD;
	for (int i = 0; i < 10; i++) {
		CHECK_EQ(gmp_start(&cfg), 0);
		for (int k = 0; k < 5; k++)
			CHECK_EQ(gmp_go(wait_for_never, NULL), 0);
		CHECK_EQ(gmp_stop(), 0);
	}
	WAIT_FOR(count_threads() == threads); /* as above */
	gmp_chan_free(never);
}

TEST(sched_thread_with_virtual_time_returns_enotsup)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.sched = GMP_SCHED_THREAD;
	cfg.flags = GMP_VIRTUAL_TIME;
	CHECK_EQ(gmp_run(tick, NULL, &cfg), -ENOTSUP);
	CHECK_EQ(count, 0);
}
