/* SPDX-License-Identifier: MIT */
/* Tests of gmp_pin, GMP_PINNED and gmp_errno_here: a pinned green thread stays on its thread, others run there
 * too, and none is forgotten. */
#define _GNU_SOURCE 1
#define GMP_SAFE_ERRNO
#include "util.h"

#include <sys/syscall.h>

/* A function of its own: the address of a thread's variable must not be kept across a switch. */
static __attribute__((noinline)) int thread_id(void)
{
	__asm__ volatile("" ::: "memory");
	return (int)syscall(SYS_gettid);
}

static gmp_wg busy;
static gmp_chan *baton;
static atomic_int foreign_wakes;

/* Wait in one of several ways. */
static void wait_somehow(int i)
{
	int v = i;

	switch (i % 6) {
	case 0: gmp_yield(); break;
	case 1: CHECK_EQ(gmp_sleep(20 * US), 0); break;
	case 2: gmp_blocking(usleep(60)); break;
	case 3: CHECK_EQ(gmp_chan_send(baton, &v), 0); break;
	case 4: CHECK_EQ(gmp_chan_recv(baton, &v), 0); break;
	default: gmp_checkpoint();
	}
}

static void pinned_worker(void *arg)
{
	int rounds = *(int *)arg;

	CHECK_EQ(gmp_pin(), 0);
	int here = thread_id();

	for (int i = 0; i < rounds; i++) {
		wait_somehow(i);
		CHECK_EQ(thread_id(), here);
		if (i % 16 == 7) { /* elsewhere, from here on */
			CHECK_EQ(gmp_unpin(), 0);
			gmp_yield();
			CHECK_EQ(gmp_pin(), 0);
			here = thread_id();
		}
	}
	CHECK_EQ(gmp_unpin(), 0);
	gmp_wg_done(&busy);
}

static void free_worker(void *arg)
{
	int rounds = *(int *)arg;

	for (int i = 0; i < rounds; i++)
		wait_somehow(i);
	gmp_wg_done(&busy);
}

/* As many sends as receives: each worker makes the same number of both. */
static void run_workers(int pinned, int others, int rounds)
{
	rounds -= rounds % 6;
	baton = gmp_chan_new(sizeof(int), 4 * (size_t)(pinned + others));
	gmp_wg_add(&busy, pinned + others);
	for (int i = 0; i < pinned; i++)
		CHECK_EQ(gmp_go(pinned_worker, &rounds), 0);
	for (int i = 0; i < others; i++)
		CHECK_EQ(gmp_go(free_worker, &rounds), 0);
	CHECK_EQ(gmp_wg_wait(&busy), 0);
	gmp_chan_free(baton);
}

RT(a_pinned_one_goes_on_on_its_thread_after_any_wait)
{
	run_workers(4, 4, (int)check_scaled(600));
}

RT(many_may_be_pinned_to_a_thread)
{
	run_workers(100, 20, (int)check_scaled(120));
}

RT(all_may_be_pinned)
{
	run_workers(16, 0, (int)check_scaled(300));
}

static void pinned_by_attribute(void *arg)
{
	int here = thread_id();

	(void)arg;
	for (int i = 0; i < 50; i++) {
		if (i % 2)
			gmp_yield();
		else
			CHECK_EQ(gmp_sleep(10 * US), 0);
		CHECK_EQ(thread_id(), here);
	}
	CHECK_EQ(gmp_unpin(), 0);
	CHECK_EQ(gmp_unpin(), -EINVAL);
	gmp_yield();
}

RT(by_the_attribute_it_stays_where_it_begins)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g[20];

	a.flags = GMP_PINNED;
	for (int i = 0; i < 20; i++)
		CHECK_EQ(gmp_spawn(&g[i], pinned_by_attribute, NULL, &a), 0);
	for (int i = 0; i < 20; i++)
		join(g[i]);
	a.flags = GMP_PINNED << 1;
	CHECK_EQ(gmp_spawn(&g[0], pinned_by_attribute, NULL, &a), -EINVAL);
}

RT(pins_are_counted)
{
	CHECK_EQ(gmp_unpin(), -EINVAL);
	for (int i = 0; i < 255; i++)
		CHECK_EQ(gmp_pin(), 0);
	CHECK_EQ(gmp_pin(), -EAGAIN);
	int here = thread_id();

	for (int i = 0; i < 255; i++) {
		gmp_yield();
		CHECK_EQ(thread_id(), here);
		CHECK_EQ(gmp_unpin(), 0);
	}
	CHECK_EQ(gmp_unpin(), -EINVAL);
	/* nobody is pinned to its thread any more */
	CHECK_EQ(gmp_lock_thread(), 0);
	CHECK_EQ(gmp_unlock_thread(), 0);
}

static void end_pinned(UNUSED void *arg)
{
	CHECK_EQ(gmp_pin(), 0);
	gmp_yield();
}

static void wait_pinned(void *c)
{
	int v;

	CHECK_EQ(gmp_pin(), 0);
	gmp_chan_recv(c, &v);
	CHECK_EQ(gmp_unpin(), 0);
}

RT(one_that_ends_pinned_leaves_its_thread_as_it_was)
{
	for (int i = 0; i < 20; i++)
		join(spawn(end_pinned, NULL));
	CHECK_EQ(gmp_lock_thread(), 0); /* nobody is pinned to it */
	CHECK_EQ(gmp_unlock_thread(), 0);
}

RT(a_thread_that_others_are_pinned_to_cannot_be_locked)
{
	gmp_chan *c = gmp_chan_new(sizeof(int), 0);
	gmp_g *g[8];
	int v = 0, refused = 0;

	for (int i = 0; i < 8; i++)
		g[i] = spawn(wait_pinned, c);
	wait_parked(8);
	for (int i = 0; i < 100 && procs == 1; i++) {
		int err = gmp_lock_thread();

		CHECK(err == 0 || err == -EAGAIN);
		refused += err == -EAGAIN;
		if (err == 0)
			CHECK_EQ(gmp_unlock_thread(), 0);
		gmp_yield();
	}
	CHECK(procs > 1 || refused == 100);
	for (int i = 0; i < 8; i++)
		CHECK_EQ(gmp_chan_send(c, &v), 0);
	for (int i = 0; i < 8; i++)
		join(g[i]);
	gmp_chan_free(c);
}

static void pinned_and_locked(UNUSED void *arg)
{
	CHECK_EQ(gmp_pin(), 0);
	int here = thread_id();

	for (int i = 0; i < 20; i++) {
		int err = gmp_lock_thread();

		gmp_sleep(10 * US);
		CHECK_EQ(thread_id(), here);
		if (!err)
			CHECK_EQ(gmp_unlock_thread(), 0);
		gmp_yield();
		CHECK_EQ(thread_id(), here);
	}
	CHECK_EQ(gmp_unpin(), 0);
}

RT(one_may_be_pinned_and_locked)
{
	gmp_g *g[4];

	for (int i = 0; i < 4; i++)
		g[i] = spawn(pinned_and_locked, NULL);
	for (int i = 0; i < 4; i++)
		join(g[i]);
}

static void wake_from_outside(void *c)
{
	int v = 1;

	for (int i = 0; i < 100; i++)
		CHECK_EQ(gmp_chan_send(c, &v), 0);
	atomic_fetch_add(&foreign_wakes, 1);
}

static void receive_pinned(void *c)
{
	int v, here;

	CHECK_EQ(gmp_pin(), 0);
	here = thread_id();
	for (int i = 0; i < 100; i++) {
		CHECK_EQ(gmp_chan_recv(c, &v), 0);
		CHECK_EQ(thread_id(), here);
	}
	CHECK_EQ(gmp_unpin(), 0);
}

RT(a_foreign_thread_wakes_a_pinned_one)
{
	gmp_chan *c = gmp_chan_new(sizeof(int), 0);
	struct ext_thread f[2];
	gmp_g *g[2];

	for (int i = 0; i < 2; i++)
		g[i] = spawn(receive_pinned, c);
	for (int i = 0; i < 2; i++)
		ext_thread_start(&f[i], wake_from_outside, c);
	for (int i = 0; i < 2; i++)
		ext_thread_join(&f[i]);
	for (int i = 0; i < 2; i++)
		join(g[i]);
	gmp_chan_free(c);
}

RT(a_pinned_one_gets_its_turn_while_its_thread_is_busy_and_the_others_theirs)
{
	static int rounds = 60;

	gmp_pin();
	gmp_wg_add(&busy, 4);
	baton = gmp_chan_new(sizeof(int), 100);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(gmp_go(i % 2 ? pinned_worker : free_worker, &rounds), 0);
	for (int i = 0; i < 200; i++)
		gmp_yield();
	CHECK_EQ(gmp_wg_wait(&busy), 0);
	gmp_chan_free(baton);
	gmp_unpin();
}

static atomic_int on_their_threads;
static atomic_int served;

/* Two that run at the same time are on two threads. */
static void pin_beside_the_other(void)
{
	atomic_fetch_add(&on_their_threads, 1);
	while (atomic_load(&on_their_threads) < 2)
		;
	CHECK_EQ(gmp_pin(), 0);
}

static void keep_busy(void *unused)
{
	(void)unused;
	while (!atomic_load(&served))
		gmp_yield();
}

static void receive_where_others_are_busy(void *c)
{
	int v;

	pin_beside_the_other();
	for (int i = 0; i < 4; i++)
		CHECK_EQ(gmp_go(keep_busy, NULL), 0);
	for (int i = 0; i < 100; i++)
		CHECK_EQ(gmp_chan_recv(c, &v), 0);
	atomic_store(&served, 1);
	CHECK_EQ(gmp_unpin(), 0);
}

static void send_from_elsewhere(void *c)
{
	int v = 1;

	pin_beside_the_other();
	for (int i = 0; i < 100; i++)
		CHECK_EQ(gmp_chan_send(c, &v), 0);
	CHECK_EQ(gmp_unpin(), 0);
}

RT(a_pinned_one_that_another_p_wakes_gets_its_turn_though_its_thread_never_runs_dry)
{
	if (procs == 1)
		return;
	gmp_chan *c = gmp_chan_new(sizeof(int), 0);
	gmp_g *receiver = spawn(receive_where_others_are_busy, c);
	gmp_g *sender = spawn(send_from_elsewhere, c);

	join(receiver);
	join(sender);
	gmp_chan_free(c);
}

enum { PINNED_THERE = 5 };

static int home;
static atomic_int there, woken, computes, may_go_on;
static gmp_wg gate;

static void wait_at_home(UNUSED void *arg)
{
	if (thread_id() != home || atomic_fetch_add(&there, 1) >= PINNED_THERE)
		return;
	CHECK_EQ(gmp_pin(), 0);
	CHECK_EQ(gmp_wg_wait(&gate), 0);
	CHECK_EQ(thread_id(), home);
	CHECK_EQ(gmp_unpin(), 0);
	if (atomic_fetch_add(&woken, 1) + 1 == PINNED_THERE)
		atomic_store(&served, 1);
}

static void compute_while_they_are_woken(UNUSED void *arg)
{
	pin_beside_the_other();
	home = thread_id();
	while (atomic_load(&there) < PINNED_THERE) {
		CHECK_EQ(gmp_go(wait_at_home, NULL), 0);
		gmp_yield();
	}
	for (int i = 0; i < 8; i++)
		CHECK_EQ(gmp_go(keep_busy, NULL), 0);
	atomic_store(&computes, 1);
	while (!atomic_load(&may_go_on))
		;
	CHECK_EQ(gmp_unpin(), 0);
}

static void wake_them_from_elsewhere(UNUSED void *arg)
{
	pin_beside_the_other();
	while (!atomic_load(&computes))
		;
	CHECK_EQ(gmp_wg_done(&gate), 0);
	for (int i = 0; i < 50; i++)
		gmp_yield();
	atomic_store(&may_go_on, 1);
	CHECK_EQ(gmp_unpin(), 0);
}

RT(of_several_pinned_ones_that_are_woken_together_each_gets_its_turn)
{
	if (procs == 1)
		return;
	CHECK_EQ(gmp_wg_add(&gate, 1), 0);
	gmp_g *there_too = spawn(compute_while_they_are_woken, NULL);
	gmp_g *elsewhere = spawn(wake_them_from_elsewhere, NULL);

	join(there_too);
	join(elsewhere);
	WAIT_FOR(atomic_load(&woken) == PINNED_THERE);
}

static void leave_pinned(void *c)
{
	for (int i = 0; i < 10; i++)
		CHECK_EQ(gmp_go(i % 2 ? wait_pinned : end_pinned, c), 0);
	for (int i = 0; i < 20; i++)
		gmp_yield();
}

TEST_PROCS(runs_end_with_pinned_ones_left)
{
	gmp_chan *c = gmp_chan_new(sizeof(int), 0);

	for (int i = 0; i < 20; i++)
		run_procs(procs, leave_pinned, c);
	gmp_chan_free(c);
}

TEST(outside_a_run_a_pin_does_nothing)
{
	CHECK_EQ(gmp_pin(), 0);
	CHECK_EQ(gmp_unpin(), 0);
	CHECK_EQ(gmp_unpin(), 0);
}

/* --- errno --- */

static void spoil_errno(void *arg)
{
	for (int i = 0; i < 200; i++) {
		gmp_errno_here()[0] = 1000 + *(int *)arg;
		gmp_yield();
	}
	gmp_wg_done(&busy);
}

/* The optimiser may merge what it takes for the address of one variable. */
RT(errno_is_the_present_threads_after_a_wait)
{
	int number[4] = { 0, 1, 2, 3 };

	gmp_wg_add(&busy, 4);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(gmp_go(spoil_errno, &number[i]), 0);
	for (int i = 0; i < 500; i++) {
		errno = 0;
		CHECK_EQ(close(-1), -1);
		CHECK_EQ(errno, EBADF);
		gmp_yield();
		errno = 0;
		CHECK_EQ(*gmp_errno_here(), 0);
		CHECK_EQ(gmp_blocking_sys(close(-1)), -EBADF);
	}
	CHECK_EQ(gmp_wg_wait(&busy), 0);
}

static __attribute__((noinline)) int *libcs_errno(void)
{
	__asm__ volatile("" ::: "memory");
	return __errno_location();
}

static void wander(UNUSED void *arg)
{
	for (int i = 0; i < (int)check_scaled(600); i++) {
		wait_somehow(i);
		CHECK(gmp_errno_here() == libcs_errno());
		CHECK(&errno == libcs_errno());
	}
	gmp_wg_done(&busy);
}

RT(its_address_is_libcs_wherever_one_goes_on)
{
	baton = gmp_chan_new(sizeof(int), 100);
	gmp_wg_add(&busy, 8);
	for (int i = 0; i < 8; i++)
		CHECK_EQ(gmp_go(wander, NULL), 0);
	CHECK_EQ(gmp_wg_wait(&busy), 0);
	gmp_chan_free(baton);
}

enum { MINE = 1001, THE_OTHERS = 1002 };

static void set_errno_and_send(void *c)
{
	int v = 0;

	errno = THE_OTHERS;
	CHECK_EQ(gmp_chan_send(c, &v), 0);
}

static void keep_errno_over_a_wait(UNUSED void *arg)
{
	gmp_chan *c = gmp_chan_new(sizeof(int), 0);

	for (int i = 0; i < 100; i++) {
		CHECK_EQ(gmp_go(set_errno_and_send, c), 0);
		errno = MINE;
		CHECK_EQ(gmp_chan_recv(c, NULL), 0);
		CHECK(errno != MINE);
	}
	gmp_chan_free(c);
}

TEST(its_value_is_not_carried_across_a_wait)
{
	run_procs(1, keep_errno_over_a_wait, NULL);
}

static void keep_errno_in_blocking_code(UNUSED void *arg)
{
	for (int i = 0; i < 10; i++) {
		gmp_block_enter();
		errno = MINE;
		usleep(500); /* others take the P */
		CHECK_EQ(errno, MINE);
		gmp_block_leave();
	}
	gmp_wg_done(&busy);
}

RT(in_blocking_code_its_value_stays)
{
	int number[2] = { 4, 5 };

	gmp_wg_add(&busy, 6);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(gmp_go(keep_errno_in_blocking_code, NULL), 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(gmp_go(spoil_errno, &number[i]), 0);
	CHECK_EQ(gmp_wg_wait(&busy), 0);
}
