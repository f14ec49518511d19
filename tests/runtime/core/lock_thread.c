/* SPDX-License-Identifier: MIT */
/* Tests gmp_lock_thread: a locked green thread runs on its OS thread only, which runs no other. */
#define _GNU_SOURCE 1
#include "util.h"

#include <sys/syscall.h>
#include <unistd.h>

/* Not inlined: the compiler must not keep a thread-local address across a switch. */
static __attribute__((noinline)) int thread_id(void)
{
	__asm__ volatile("" ::: "memory");
	return (int)syscall(SYS_gettid);
}

static _Thread_local int mark;

static __attribute__((noinline)) int *mark_here(void)
{
	__asm__ volatile("" ::: "memory");
	return &mark;
}

static void bounce(UNUSED void *arg)
{
	for (int i = 0; i < 200; i++)
		gmp_yield();
}

/* --- the caller of gmp_run --- */

static int caller;

RT(lock_thread_in_entry_stays_on_callers_thread)
{
	CHECK_EQ(gmp_lock_thread(), 0);
	CHECK_EQ(thread_id(), (int)getpid());
	caller = thread_id();
	for (int i = 0; i < 100; i++) {
		gmp_g *g = spawn(bounce, NULL);

		if (i % 3)
			gmp_yield();
		if (i % 5 == 0)
			CHECK_EQ(gmp_sleep(10 * US), 0);
		join(g);
		CHECK_EQ(thread_id(), caller);
	}
	CHECK_EQ(gmp_unlock_thread(), 0);
}

/* --- a locked green thread keeps its thread --- */

struct locked_g {
	gmp_chan *c;
	int rounds, n;
};

static void wait_in_each_way(void *arg)
{
	struct locked_g *s = arg;
	int here, e;

	gmp_yield();
	CHECK_EQ(gmp_lock_thread(), 0);
	here = thread_id();
	*mark_here() = here;
	for (int i = 0; i < s->rounds; i++) {
		switch (i % 5) {
		case 0: CHECK_EQ(gmp_chan_send(s->c, &i), 0); break;
		case 1: CHECK_EQ(gmp_chan_recv(s->c, &e), 0); break;
		case 2: CHECK_EQ(gmp_sleep(US), 0); break;
		case 3: gmp_yield(); break;
		default: CHECK_EQ(gmp_chan_recv_until(s->c, &e, 1), -ETIMEDOUT); break;
		}
		CHECK_EQ(thread_id(), here);
		CHECK_EQ(*mark_here(), here);
		s->n++;
	}
	*mark_here() = 0;
	CHECK_EQ(gmp_unlock_thread(), 0);
}

RT(locked_g_resumes_on_its_thread_after_every_wait)
{
	enum { N = 6 };
	struct locked_g s[N];
	gmp_g *g[N];

	for (int i = 0; i < N; i++) {
		s[i] = (struct locked_g){ gmp_chan_new(sizeof(int), 1), SLOW ? 60 : 300, 0 };
		g[i] = spawn(wait_in_each_way, &s[i]);
	}
	for (int i = 0; i < N; i++) {
		join(g[i]);
		CHECK_EQ(s[i].n, s[i].rounds);
		gmp_chan_free(s[i].c);
	}
}

static atomic_int on_marked, runs;

static void check_mark(UNUSED void *arg)
{
	for (int i = 0; i < 50; i++) {
		if (*mark_here())
			atomic_fetch_add(&on_marked, 1);
		atomic_fetch_add(&runs, 1);
		gmp_yield();
	}
}

RT(locked_thread_runs_no_other_green_thread)
{
	enum { N = 20 };
	gmp_g *g[N];

	atomic_store(&on_marked, 0);
	atomic_store(&runs, 0);
	CHECK_EQ(gmp_lock_thread(), 0);
	*mark_here() = 1;
	for (int i = 0; i < N; i++)
		g[i] = spawn(check_mark, NULL);
	for (int i = 0; i < 100; i++) {
		gmp_yield();
		CHECK_EQ(*mark_here(), 1);
	}
	for (int i = 0; i < N; i++)
		join(g[i]);
	*mark_here() = 0;
	CHECK_EQ(gmp_unlock_thread(), 0);
	CHECK_EQ(atomic_load(&on_marked), 0);
	CHECK_EQ(atomic_load(&runs), N * 50);
}

RT(lock_thread_calls_are_counted)
{
	int here;

	for (int i = 0; i < 3; i++)
		CHECK_EQ(gmp_lock_thread(), 0);
	here = thread_id();
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(gmp_unlock_thread(), 0);
		CHECK_EQ(gmp_sleep(10 * US), 0);
		CHECK_EQ(thread_id(), here);
	}
	CHECK_EQ(gmp_unlock_thread(), 0);
	*mark_here() = 5;
	/* its thread is unlocked again */
	atomic_store(&on_marked, 0);
	WAIT_FOR(({
		join(spawn(check_mark, NULL));
		atomic_load(&on_marked) > 0 || thread_id() != here;
	}));
	*mark_here() = 0;
}

static void store_thread_id(void *arg)
{
	*(int *)arg = thread_id();
}

RT(locked_g_spawns_unlocked_green_threads)
{
	int child_ran_on = 0;

	CHECK_EQ(gmp_lock_thread(), 0);
	join(spawn(store_thread_id, &child_ran_on));
	CHECK(child_ran_on != 0 && child_ran_on != thread_id());
	CHECK_EQ(gmp_unlock_thread(), 0);
}

/* --- the end --- */

static void end_locked(void *arg)
{
	CHECK_EQ(gmp_lock_thread(), 0);
	if (thread_id() == caller)
		return; /* the caller's thread does not end */
	*(int *)arg = thread_id();
	*mark_here() = 7;
	gmp_yield();
}

static int thread_exists(int tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d", tid);
	return access(path, F_OK) == 0;
}

RT(locked_g_exit_ends_its_thread)
{
	int tid[8] = { 0 };
	gmp_g *g[8];

	caller = getpid();
	for (int i = 0; i < 8; i++)
		g[i] = spawn(end_locked, &tid[i]);
	for (int i = 0; i < 8; i++)
		join(g[i]);
	for (int i = 0; i < 8; i++)
		WAIT_FOR(!tid[i] || !thread_exists(tid[i]));
}

RT(locked_g_exits_do_not_accumulate_threads)
{
	uint64_t most = 0;
	int tid = 0;

	for (int i = 0; i < (SLOW ? 50 : 300); i++) {
		join(spawn(end_locked, &tid));
		most = most > stats().threads ? most : stats().threads;
	}
	CHECK(most <= (uint64_t)procs + 6);
	WAIT_FOR(count_threads() <= procs + 8);
}

static void run_elsewhere(UNUSED void *arg)
{
	join(spawn(bounce, NULL));
	CHECK(thread_id() != caller);
	atomic_fetch_add(&runs, 1);
}

/* The entry leaves the caller's thread to a green thread that locks it and ends. */
static void ends_on_caller(UNUSED void *arg)
{
	CHECK_EQ(thread_id(), caller);
	CHECK_EQ(gmp_lock_thread(), 0);
	atomic_fetch_add(&runs, 1);
}

static void give_caller_away(UNUSED void *arg)
{
	gmp_g *g = spawn(ends_on_caller, NULL);

	join(g); /* one P, and one thread so far: g runs on it */
	join(spawn(run_elsewhere, NULL));
}

TEST(locked_g_exit_on_callers_thread_retires_that_thread)
{
	caller = getpid();
	atomic_store(&runs, 0);
	run_cooperative(1, give_caller_away, NULL);
	CHECK_EQ(atomic_load(&runs), 2);
}

/* --- with the rest of the runtime --- */

static void hold_locked(void *arg)
{
	CHECK_EQ(gmp_lock_thread(), 0);
	gmp_wg_done(&((gmp_wg *)arg)[0]);
	gmp_wg_wait(&((gmp_wg *)arg)[1]);
	CHECK_EQ(gmp_unlock_thread(), 0);
}

RT(locked_100_waiting_gs_let_the_others_run)
{
	enum { N = 100 };
	gmp_wg wg[2] = { GMP_WG_INIT, GMP_WG_INIT };
	gmp_g *g[N];

	gmp_wg_add(&wg[0], N);
	gmp_wg_add(&wg[1], 1);
	for (int i = 0; i < N; i++)
		g[i] = spawn(hold_locked, wg);
	CHECK_EQ(gmp_wg_wait(&wg[0]), 0);
	join(spawn(bounce, NULL));
	gmp_wg_done(&wg[1]);
	for (int i = 0; i < N; i++)
		join(g[i]);
}

/* Locked at shutdown: sleeping, runnable or running. */
static void stay_locked(void *arg)
{
	CHECK_EQ(gmp_lock_thread(), 0);
	switch ((intptr_t)arg % 3) {
	case 0: gmp_sleep(1000 * SEC); break;
	case 1:
		for (;;)
			gmp_yield();
	default:
		for (;;)
			gmp_checkpoint();
	}
}

static void leave_locked_gs(void *arg)
{
	int n = *(int *)arg;

	for (intptr_t i = 0; i < 6; i++)
		CHECK_EQ(gmp_go(stay_locked, (void *)(n == 1 && i % 3 == 2 ? i + 1 : i)), 0);
	for (int i = 0; i < 20; i++)
		gmp_yield();
}

TEST_PROCS(shutdown_with_locked_gs_leaves_no_thread)
{
	int before;

	run_procs(procs, leave_locked_gs, &procs);
	before = count_threads();
	for (int i = 0; i < 10; i++)
		run_procs(procs, leave_locked_gs, &procs);
	WAIT_FOR(count_threads() <= before); /* /proc lists a thread briefly after its join */
}

static void locked_sleeper(void *arg)
{
	CHECK_EQ(gmp_lock_thread(), 0);
	while (!atomic_load((atomic_int *)arg))
		CHECK_EQ(gmp_sleep(20 * US), 0);
	CHECK_EQ(gmp_unlock_thread(), 0);
}

RT(set_procs_with_locked_gs_works)
{
	atomic_int stop = 0;
	gmp_g *g[3];

	for (int i = 0; i < 3; i++)
		g[i] = spawn(locked_sleeper, &stop);
	for (int i = 0; i < (SLOW ? 30 : 200); i++) {
		CHECK(gmp_set_procs(1 + i % 4) > 0);
		gmp_sleep(20 * US);
	}
	atomic_store(&stop, 1);
	for (int i = 0; i < 3; i++)
		join(g[i]);
	CHECK(gmp_set_procs(procs) > 0);
}

static void cancelled_locked(void *arg)
{
	int here;

	CHECK_EQ(gmp_lock_thread(), 0);
	here = thread_id();
	gmp_wg_done(arg);
	CHECK_EQ(gmp_sleep(1000 * SEC), -ECANCELED);
	CHECK_EQ(thread_id(), here);
	CHECK_EQ(gmp_unlock_thread(), 0);
}

RT(locked_g_can_be_cancelled)
{
	gmp_wg wg = GMP_WG_INIT;
	gmp_g *g;

	gmp_wg_add(&wg, 1);
	g = spawn(cancelled_locked, &wg);
	CHECK_EQ(gmp_wg_wait(&wg), 0);
	CHECK_EQ(gmp_cancel(g), 0);
	join(g);
}

static void lock_only_thread(UNUSED void *arg)
{
	CHECK_EQ(gmp_lock_thread(), -EAGAIN);
	join(spawn(bounce, NULL)); /* the caller is not locked */
	CHECK_EQ(gmp_sleep(10 * US), 0);
}

TEST(lock_thread_of_only_thread_returns_eagain)
{
	run_bounded(1, 1, lock_only_thread, NULL);
}

static atomic_int refused;

static void lock_if_possible(void *arg)
{
	int err = gmp_lock_thread();

	CHECK(err == 0 || err == -EAGAIN);
	if (err)
		atomic_fetch_add(&refused, 1);
	gmp_wg_done(arg);
	gmp_wg_wait((gmp_wg *)arg + 1);
}

static void lock_at_max_threads(UNUSED void *arg)
{
	gmp_wg wg[2] = { GMP_WG_INIT, GMP_WG_INIT };
	gmp_g *g[20];

	gmp_wg_add(&wg[0], 20);
	gmp_wg_add(&wg[1], 1);
	for (int i = 0; i < 20; i++)
		g[i] = spawn(lock_if_possible, wg);
	CHECK_EQ(gmp_wg_wait(&wg[0]), 0);
	CHECK_EQ(atomic_load(&refused), 20 - 7);
	gmp_wg_done(&wg[1]);
	for (int i = 0; i < 20; i++)
		join(g[i]);
}

TEST(lock_thread_leaves_one_of_max_threads_unlocked)
{
	run_bounded(2, 8, lock_at_max_threads, NULL);
}

static void lock_again_and_again(UNUSED void *arg)
{
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(gmp_lock_thread(), 0);
		CHECK_EQ(gmp_unlock_thread(), 0);
	}
}

TEST(unlock_thread_makes_thread_available_again)
{
	run_bounded(2, 4, lock_again_and_again, NULL);
}

static void sleep_locked(UNUSED void *arg)
{
	int64_t began = gmp_now();

	CHECK_EQ(gmp_lock_thread(), 0);
	/* its P is idle meanwhile, and another M runs the timer */
	for (int i = 0; i < 20; i++)
		CHECK_EQ(gmp_sleep(MS), 0);
	CHECK(gmp_now() - began >= 20 * MS);
	CHECK_EQ(gmp_unlock_thread(), 0);
}

TEST_PROCS(locked_g_sleep_ends_in_time)
{
	run_procs(procs, sleep_locked, NULL);
}

TEST(lock_thread_works_in_started_runtime)
{
	int tid = 0;
	gmp_g *g;

	caller = getpid();
	CHECK_EQ(gmp_start(NULL), 0);
	CHECK_EQ(gmp_spawn(&g, end_locked, &tid, NULL), 0);
	CHECK_EQ(gmp_join(g), 0);
	CHECK(tid != 0);
	WAIT_FOR(!thread_exists(tid));
	CHECK_EQ(gmp_stop(), 0);
}
