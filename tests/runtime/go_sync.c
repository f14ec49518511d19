/* SPDX-License-Identifier: MIT */
/*
 * Do wait groups, once objects and the table of those who wait do what Go's public tests ask of them?
 * Programs of the same intent as those of src/sync/{waitgroup,once}_test.go and src/runtime/lot_test.go;
 * each section names its own.
 */
#include <stdbool.h>

#include "go_util.h"

static gmp_sem sem;

/* --- waitgroup_test.go: TestWaitGroup --- */

enum { GROUP = 16 };

struct two_groups {
	gmp_wg here, there;
	gmp_chan *out;
};

static void meet(void *arg)
{
	struct two_groups *t = arg;

	CHECK_EQ(gmp_wg_done(&t->here), 0);
	CHECK_EQ(gmp_wg_wait(&t->there), 0);
	put_int(t->out, 1);
}

GO_MAIN(wait_groups_are_used_again_and_again)
{
	struct two_groups *t = make_memory(sizeof(*t));

	t->out = make_ints(GROUP);
	for (int round = 0; round < 8; round++) {
		CHECK_EQ(gmp_wg_add(&t->here, GROUP), 0);
		CHECK_EQ(gmp_wg_add(&t->there, GROUP), 0);
		for (int i = 0; i < GROUP; i++)
			go(meet, t);
		CHECK_EQ(gmp_wg_wait(&t->here), 0);
		for (int i = 0; i < GROUP; i++) {
			CHECK_EQ(gmp_chan_try_recv(t->out, NULL), -EAGAIN);
			CHECK_EQ(gmp_wg_done(&t->there), 0);
		}
		for (int i = 0; i < GROUP; i++)
			get_int(t->out);
	}
}

/* --- TestWaitGroupRace, TestWaitGroupMisuse2: on the stack of who waits, and gone after that --- */

struct errand {
	gmp_wg *wg;
	atomic_int *n;
};

static void run_errand(void *arg)
{
	struct errand *e = arg;

	atomic_fetch_add_explicit(e->n, 1, memory_order_relaxed);
	CHECK_EQ(gmp_wg_done(e->wg), 0);
}

static __attribute__((noinline)) void wait_for_errands(int errands)
{
	gmp_wg w = GMP_WG_INIT;
	atomic_int n = 0;
	struct errand e = { &w, &n };

	for (int i = 0; i < errands; i++) {
		CHECK_EQ(gmp_wg_add(&w, 1), 0);
		go(run_errand, &e);
	}
	CHECK_EQ(gmp_wg_wait(&w), 0);
	CHECK_EQ(atomic_load_explicit(&n, memory_order_relaxed), errands);
	memset(&w, 0xee, sizeof(w));
}

static void wait_for_many_errands(UNUSED void *arg)
{
	for (long i = 0, n = check_scaled(1000); i < n; i++)
		wait_for_errands(1 + (int)(i % 3));
}

GO_MAIN(a_wait_group_may_live_on_the_stack)
{
	gmp_g *g[4];

	spawn_all(wait_for_many_errands, NULL, g, 4);
	join_all(g, 4);
}

/* --- once_test.go: TestOnce, TestOncePanic --- */

static gmp_once once;
static int times;

static void count_time(UNUSED void *arg)
{
	times++;
}

static void do_once(void *done)
{
	CHECK_EQ(gmp_once_do(&once, count_time, NULL), 0);
	CHECK_EQ(times, 1);
	put_int(done, 1);
}

GO_MAIN(once_is_once)
{
	gmp_chan *done = make_ints(0);

	for (long i = 0, n = check_scaled(200); i < n; i++) {
		once = (gmp_once)GMP_ONCE_INIT;
		times = 0;
		for (int k = 0; k < 10; k++)
			go(do_once, done);
		for (int k = 0; k < 10; k++)
			get_int(done);
		CHECK_EQ(times, 1);
	}
}

static void count_time_and_end(void *done)
{
	times++;
	put_int(done, 2);
	gmp_exit();
}

static void do_once_and_end(void *done)
{
	gmp_once_do(&once, count_time_and_end, done);
	CHECK(!"its function has ended it");
}

GO_MAIN(once_is_once_though_its_function_ends_the_green_thread)
{
	gmp_chan *done = make_ints(0);

	for (long i = 0, n = check_scaled(200); i < n; i++) {
		once = (gmp_once)GMP_ONCE_INIT;
		times = 0;
		gmp_g *first = spawn(do_once_and_end, done);

		WAIT_FOR(__atomic_load_n(&once.state, __ATOMIC_RELAXED) != 0);
		for (int k = 0; k < 3; k++)
			go(do_once, done);
		CHECK_EQ(get_int(done), 2);
		for (int k = 0; k < 3; k++)
			CHECK_EQ(get_int(done), 1);
		join(first);
	}
}

/* --- lot_test.go of the runtime: the table of those who wait --- */

enum { ADDRESSES = 307 }; /* a prime: every step goes round to all */

static gmp_sem table[ADDRESSES];

static void acquire_own(void *arg)
{
	gmp_sem *s = arg;

	CHECK_EQ(gmp_sem_acquire(s), 0);
	CHECK_EQ(gmp_sem_try_acquire(s), -EAGAIN);
}

/* Many addresses, released in an order of their own: each wakes who waits for it. */
GO_MAIN(who_waits_on_an_address_is_woken_by_it)
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
GO_MAIN(a_long_queue_keeps_its_order)
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
