/* SPDX-License-Identifier: MIT */
/*
 * Tests gmp_pin, GMP_PINNED and gmp_errno_here: a pinned green thread stays on its OS thread, other
 * Gs run there too, and none of them is starved.
 */
#define _GNU_SOURCE 1
#define GMP_SAFE_ERRNO
#include "util.h"

#include <sys/syscall.h>

/* noinline: the address of a thread-local must not be kept across a switch. */
static __attribute__((noinline)) int thread_id(void)
{
	__asm__ volatile("" ::: "memory");
	return (int)syscall(SYS_gettid);
}

static gmp_wg busy;
static gmp_chan *baton;
static atomic_int external_wakes;

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
		if (i % 16 == 7) { /* pin again, perhaps to another thread */
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

/* Each worker makes as many sends as receives. */
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

RT(pin_keeps_thread_across_every_wait)
{
	run_workers(4, 4, (int)check_scaled(600));
}

RT(pin_of_100_green_threads_works)
{
	run_workers(100, 20, (int)check_scaled(120));
}

RT(pin_of_all_green_threads_works)
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

RT(pinned_attribute_keeps_first_thread)
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

RT(pin_calls_are_counted_up_to_255)
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
	/* no G is pinned to this thread any more */
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

RT(pin_ends_with_green_thread)
{
	for (int i = 0; i < 20; i++)
		join(spawn(end_pinned, NULL));
	CHECK_EQ(gmp_lock_thread(), 0); /* no G is pinned to it */
	CHECK_EQ(gmp_unlock_thread(), 0);
}

RT(lock_thread_with_other_gs_pinned_returns_eagain)
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

RT(pin_and_lock_thread_combine)
{
	gmp_g *g[4];

	for (int i = 0; i < 4; i++)
		g[i] = spawn(pinned_and_locked, NULL);
	for (int i = 0; i < 4; i++)
		join(g[i]);
}

static void send_from_external(void *c)
{
	int v = 1;

	for (int i = 0; i < 100; i++)
		CHECK_EQ(gmp_chan_send(c, &v), 0);
	atomic_fetch_add(&external_wakes, 1);
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

RT(pinned_g_is_woken_by_external_thread)
{
	gmp_chan *c = gmp_chan_new(sizeof(int), 0);
	struct ext_thread f[2];
	gmp_g *g[2];

	for (int i = 0; i < 2; i++)
		g[i] = spawn(receive_pinned, c);
	for (int i = 0; i < 2; i++)
		ext_thread_start(&f[i], send_from_external, c);
	for (int i = 0; i < 2; i++)
		ext_thread_join(&f[i]);
	for (int i = 0; i < 2; i++)
		join(g[i]);
	gmp_chan_free(c);
}

RT(pinned_and_unpinned_gs_do_not_starve_each_other)
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

static atomic_int running;
static atomic_int served;

/* Gs that run at the same time are on different threads. */
static void pin_beside_other(void)
{
	atomic_fetch_add(&running, 1);
	while (atomic_load(&running) < 2)
		;
	CHECK_EQ(gmp_pin(), 0);
}

static void keep_busy(void *unused)
{
	(void)unused;
	while (!atomic_load(&served))
		gmp_yield();
}

static void receive_on_busy_thread(void *c)
{
	int v;

	pin_beside_other();
	for (int i = 0; i < 4; i++)
		CHECK_EQ(gmp_go(keep_busy, NULL), 0);
	for (int i = 0; i < 100; i++)
		CHECK_EQ(gmp_chan_recv(c, &v), 0);
	atomic_store(&served, 1);
	CHECK_EQ(gmp_unpin(), 0);
}

static void send_from_other_thread(void *c)
{
	int v = 1;

	pin_beside_other();
	for (int i = 0; i < 100; i++)
		CHECK_EQ(gmp_chan_send(c, &v), 0);
	CHECK_EQ(gmp_unpin(), 0);
}

RT(pinned_g_woken_by_other_p_is_not_starved_by_busy_thread)
{
	if (procs == 1)
		return;
	gmp_chan *c = gmp_chan_new(sizeof(int), 0);
	gmp_g *receiver = spawn(receive_on_busy_thread, c);
	gmp_g *sender = spawn(send_from_other_thread, c);

	join(receiver);
	join(sender);
	gmp_chan_free(c);
}

enum { PINNED_THERE = 5 };

static int home;
static atomic_int there, woken, computes, may_continue;
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

static void compute_during_wakeups(UNUSED void *arg)
{
	pin_beside_other();
	home = thread_id();
	while (atomic_load(&there) < PINNED_THERE) {
		CHECK_EQ(gmp_go(wait_at_home, NULL), 0);
		gmp_yield();
	}
	for (int i = 0; i < 8; i++)
		CHECK_EQ(gmp_go(keep_busy, NULL), 0);
	atomic_store(&computes, 1);
	while (!atomic_load(&may_continue))
		;
	CHECK_EQ(gmp_unpin(), 0);
}

static void wake_from_other_thread(UNUSED void *arg)
{
	pin_beside_other();
	while (!atomic_load(&computes))
		;
	CHECK_EQ(gmp_wg_done(&gate), 0);
	for (int i = 0; i < 50; i++)
		gmp_yield();
	atomic_store(&may_continue, 1);
	CHECK_EQ(gmp_unpin(), 0);
}

RT(pinned_gs_woken_together_all_run)
{
	if (procs == 1)
		return;
	CHECK_EQ(gmp_wg_add(&gate, 1), 0);
	gmp_g *computing = spawn(compute_during_wakeups, NULL);
	gmp_g *waker = spawn(wake_from_other_thread, NULL);

	join(computing);
	join(waker);
	WAIT_FOR(atomic_load(&woken) == PINNED_THERE);
}

static void leave_pinned(void *c)
{
	for (int i = 0; i < 10; i++)
		CHECK_EQ(gmp_go(i % 2 ? wait_pinned : end_pinned, c), 0);
	for (int i = 0; i < 20; i++)
		gmp_yield();
}

TEST_PROCS(pinned_gs_are_killed_at_shutdown)
{
	gmp_chan *c = gmp_chan_new(sizeof(int), 0);

	for (int i = 0; i < 20; i++)
		run_procs(procs, leave_pinned, c);
	gmp_chan_free(c);
}

TEST(pin_without_runtime_does_nothing)
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

/* The optimiser may merge two reads of the address of errno. */
RT(errno_after_wait_belongs_to_current_thread)
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

static __attribute__((noinline)) int *libc_errno(void)
{
	__asm__ volatile("" ::: "memory");
	return __errno_location();
}

static void check_errno_address(UNUSED void *arg)
{
	for (int i = 0; i < (int)check_scaled(600); i++) {
		wait_somehow(i);
		CHECK(gmp_errno_here() == libc_errno());
		CHECK(&errno == libc_errno());
	}
	gmp_wg_done(&busy);
}

RT(errno_address_equals_libc_address_after_wait)
{
	baton = gmp_chan_new(sizeof(int), 100);
	gmp_wg_add(&busy, 8);
	for (int i = 0; i < 8; i++)
		CHECK_EQ(gmp_go(check_errno_address, NULL), 0);
	CHECK_EQ(gmp_wg_wait(&busy), 0);
	gmp_chan_free(baton);
}

enum { MINE = 1001, OTHER = 1002 };

static void set_errno_and_send(void *c)
{
	int v = 0;

	errno = OTHER;
	CHECK_EQ(gmp_chan_send(c, &v), 0);
}

static void keep_errno_across_wait(UNUSED void *arg)
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

TEST(errno_value_is_not_carried_across_wait)
{
	run_procs(1, keep_errno_across_wait, NULL);
}

static void keep_errno_in_blocking_code(UNUSED void *arg)
{
	for (int i = 0; i < 10; i++) {
		gmp_block_enter();
		errno = MINE;
		usleep(500); /* other Gs take the P */
		CHECK_EQ(errno, MINE);
		gmp_block_leave();
	}
	gmp_wg_done(&busy);
}

RT(errno_value_is_kept_in_blocking_code)
{
	int number[2] = { 4, 5 };

	gmp_wg_add(&busy, 6);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(gmp_go(keep_errno_in_blocking_code, NULL), 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(gmp_go(spoil_errno, &number[i]), 0);
	CHECK_EQ(gmp_wg_wait(&busy), 0);
}

enum { RECEIVERS = 64 };

static struct inbox {
	gmp_chan *c;
	long sent;
	atomic_long received;
} inbox[RECEIVERS];

static atomic_int pinned_receivers;
static atomic_int flooded, woke;

static void compute(int64_t ns)
{
	int64_t until = gmp_deadline(ns);

	while (gmp_now() < until)
		;
}

static void receive_slowly(void *arg)
{
	struct inbox *in = arg;
	int v;

	CHECK_EQ(gmp_pin(), 0);
	atomic_fetch_add(&pinned_receivers, 1);
	while (gmp_chan_recv(in->c, &v) == 0) {
		compute(20 * US);
		atomic_fetch_add(&in->received, 1);
	}
	CHECK_EQ(gmp_wg_done(&busy), 0);
}

static long all_received(void)
{
	long n = 0;

	for (int i = 0; i < RECEIVERS; i++)
		n += atomic_load(&inbox[i].received);
	return n;
}

static void sleep_among_receivers(void *unused)
{
	(void)unused;
	pin_beside_other();
	for (int i = 0; i < RECEIVERS; i++)
		CHECK_EQ(gmp_go(receive_slowly, &inbox[i]), 0);
	while (!atomic_load(&flooded))
		gmp_yield();
	long before = all_received();

	CHECK_EQ(gmp_sleep(MS), 0);
	CHECK(all_received() - before < 5000); /* 1 ms has time for 50 */
	atomic_store(&woke, 1);
	CHECK_EQ(gmp_unpin(), 0);
}

/* Keeps the receivers runnable until the sleeper has woken up; yields so that its P sends them to
 * their own M. */
static void flood_receivers(void *unused)
{
	int v = 1;

	(void)unused;
	pin_beside_other();
	while (atomic_load(&pinned_receivers) < RECEIVERS)
		; /* not a wait: the P of the sleeper must run all of them */
	while (!atomic_load(&woke)) {
		for (int i = 0; i < RECEIVERS; i++) {
			struct inbox *in = &inbox[i];

			if (atomic_load(&in->received) == in->sent) { /* it waits, or soon does */
				CHECK_EQ(gmp_chan_try_send(in->c, &v), 0);
				in->sent++;
			}
		}
		atomic_store(&flooded, 1);
		gmp_yield();
	}
	for (int i = 0; i < RECEIVERS; i++)
		CHECK_EQ(gmp_chan_close(inbox[i].c), 0);
	CHECK_EQ(gmp_unpin(), 0);
}

/* An M whose list of pinned Gs never becomes empty still fires the timers of its P. */
RT(pinned_gs_that_are_always_runnable_do_not_starve_timers)
{
	if (procs != 2)
		return;
	for (int i = 0; i < RECEIVERS; i++)
		inbox[i].c = gmp_chan_new(sizeof(int), 1);
	CHECK_EQ(gmp_wg_add(&busy, RECEIVERS), 0);
	gmp_g *sleeper = spawn(sleep_among_receivers, NULL);
	gmp_g *sender = spawn(flood_receivers, NULL);

	join(sleeper);
	join(sender);
	CHECK_EQ(gmp_wg_wait(&busy), 0);
	for (int i = 0; i < RECEIVERS; i++)
		gmp_chan_free(inbox[i].c);
}
