/* SPDX-License-Identifier: MIT */
/*
 * Tests wait groups, once objects and the wait queue table with programs of the same intent as Go's
 * src/sync/{waitgroup,once}_test.go and src/runtime/lot_test.go; each section names its
 * counterpart.
 */
#include <stdbool.h>

#include "go_util.h"

static gmp_sem sem;

/* --- waitgroup_test.go: TestWaitGroup --- */

enum { GROUP = 16 };

struct wg_pair {
	gmp_wg here, there;
	gmp_chan *out;
};

static void done_and_wait(void *arg)
{
	struct wg_pair *t = arg;

	CHECK_EQ(gmp_wg_done(&t->here), 0);
	CHECK_EQ(gmp_wg_wait(&t->there), 0);
	put_int(t->out, 1);
}

GO_MAIN(wg_can_be_reused_after_wait)
{
	struct wg_pair *t = make_memory(sizeof(*t));

	t->out = make_ints(GROUP);
	for (int round = 0; round < 8; round++) {
		CHECK_EQ(gmp_wg_add(&t->here, GROUP), 0);
		CHECK_EQ(gmp_wg_add(&t->there, GROUP), 0);
		for (int i = 0; i < GROUP; i++)
			go(done_and_wait, t);
		CHECK_EQ(gmp_wg_wait(&t->here), 0);
		for (int i = 0; i < GROUP; i++) {
			CHECK_EQ(gmp_chan_try_recv(t->out, NULL), -EAGAIN);
			CHECK_EQ(gmp_wg_done(&t->there), 0);
		}
		for (int i = 0; i < GROUP; i++)
			get_int(t->out);
	}
}

/* --- TestWaitGroupRace, TestWaitGroupMisuse2: a wait group on the waiter's stack --- */

struct task {
	gmp_wg *wg;
	atomic_int *n;
};

static void run_task(void *arg)
{
	struct task *e = arg;

	atomic_fetch_add_explicit(e->n, 1, memory_order_relaxed);
	CHECK_EQ(gmp_wg_done(e->wg), 0);
}

static __attribute__((noinline)) void wait_for_tasks(int tasks)
{
	gmp_wg w = GMP_WG_INIT;
	atomic_int n = 0;
	struct task e = { &w, &n };

	for (int i = 0; i < tasks; i++) {
		CHECK_EQ(gmp_wg_add(&w, 1), 0);
		go(run_task, &e);
	}
	CHECK_EQ(gmp_wg_wait(&w), 0);
	CHECK_EQ(atomic_load_explicit(&n, memory_order_relaxed), tasks);
	memset(&w, 0xee, sizeof(w));
}

static void wait_for_tasks_often(UNUSED void *arg)
{
	for (long i = 0, n = check_scaled(1000); i < n; i++)
		wait_for_tasks(1 + (int)(i % 3));
}

GO_MAIN(wg_on_stack_is_not_used_after_wait_returns)
{
	gmp_g *g[4];

	spawn_all(wait_for_tasks_often, NULL, g, 4);
	join_all(g, 4);
}

/* --- once_test.go: TestOnce, TestOncePanic --- */

static gmp_once once;
static int calls;

static void count_call(UNUSED void *arg)
{
	calls++;
}

static void do_once(void *done)
{
	CHECK_EQ(gmp_once_do(&once, count_call, NULL), 0);
	CHECK_EQ(calls, 1);
	put_int(done, 1);
}

GO_MAIN(once_concurrent_callers_run_fn_once)
{
	gmp_chan *done = make_ints(0);

	for (long i = 0, n = check_scaled(200); i < n; i++) {
		once = (gmp_once)GMP_ONCE_INIT;
		calls = 0;
		for (int k = 0; k < 10; k++)
			go(do_once, done);
		for (int k = 0; k < 10; k++)
			get_int(done);
		CHECK_EQ(calls, 1);
	}
}

static void count_call_and_exit(void *done)
{
	calls++;
	put_int(done, 2);
	gmp_exit();
}

static void do_once_and_exit(void *done)
{
	gmp_once_do(&once, count_call_and_exit, done);
	CHECK(!"gmp_once_do returned although its function exits");
}

GO_MAIN(once_fn_that_exits_counts_as_done)
{
	gmp_chan *done = make_ints(0);

	for (long i = 0, n = check_scaled(200); i < n; i++) {
		once = (gmp_once)GMP_ONCE_INIT;
		calls = 0;
		gmp_g *first = spawn(do_once_and_exit, done);

		WAIT_FOR(__atomic_load_n(&once.state, __ATOMIC_RELAXED) != 0);
		for (int k = 0; k < 3; k++)
			go(do_once, done);
		CHECK_EQ(get_int(done), 2);
		for (int k = 0; k < 3; k++)
			CHECK_EQ(get_int(done), 1);
		join(first);
	}
}

/* --- lot_test.go of the runtime: the wait queue table --- */

enum { ADDRESSES = 307 }; /* prime, so that every step visits all addresses */

static gmp_sem table[ADDRESSES];

static void acquire_own(void *arg)
{
	gmp_sem *s = arg;

	CHECK_EQ(gmp_sem_acquire(s), 0);
	CHECK_EQ(gmp_sem_try_acquire(s), -EAGAIN);
}

/* Releases many addresses in an order other than that of the waits. */
GO_MAIN(sem_release_wakes_waiter_of_its_address)
{
	gmp_g *g[ADDRESSES];

	for (int step = 1; step < ADDRESSES; step += 100) {
		for (int i = 0; i < ADDRESSES; i++)
			g[i] = spawn(acquire_own, &table[i]);
		wait_parked(ADDRESSES);
		for (int i = 0, k = 0; i < ADDRESSES; i++, k = (k + step) % ADDRESSES) {
			CHECK_EQ(gmp_sem_release(&table[k], 1), 0);
			join(g[k]);
		}
	}
}

static gmp_chan *in_order;

static void acquire_numbered(void *number)
{
	CHECK_EQ(gmp_sem_acquire(&sem), 0);
	put_int(in_order, (int)(intptr_t)number);
}

/* One address with a long queue. */
GO_MAIN(sem_long_queue_keeps_fifo_order)
{
	int n = SLOW ? 100 : 1000;

	sem = (gmp_sem)GMP_SEM_INIT(0);
	in_order = make_ints((size_t)n);
	for (int i = 0; i < n; i++) {
		go(acquire_numbered, (void *)(intptr_t)i);
		while (stats().greens_waiting != (uint64_t)i + 1)
			gmp_yield();
	}
	for (int i = 0; i < n; i++) {
		CHECK_EQ(gmp_sem_release(&sem, 1), 0);
		CHECK_EQ(get_int(in_order), i);
	}
}
