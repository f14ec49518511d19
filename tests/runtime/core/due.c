/* SPDX-License-Identifier: MIT */
/*
 * Tests Gs that timers make runnable: they run before the Gs of the ring, in the order of their
 * deadlines, and their budget keeps the ring from starvation (source.h, SOURCE-1).
 *
 * The cases that compare an order, or count without atomics, run without preemption: a preempted G
 * runs beside those of the P. Its cases compare times: each needs a CPU.
 */
#define _GNU_SOURCE /* RUSAGE_THREAD */
#include "green_util.h"

#include <sys/resource.h>

enum {
	RING = 20,
	WAITS = 30,
	COMPUTE_NS = 100000, /* of a G of the ring: > 10 us, so each switch checks the timers */
	DUE_MOST = 8,        /* as in sched.c */
	SLICE_SWITCHES = 200 /* switches of 10 us in QUANTUM_TICKS */
};

static atomic_int stop;
static _Atomic int64_t due; /* 0: the waiter does not wait */
static int late_runs;       /* of Gs of the ring, begun after `due` */
static gmp_wg others;

static void compute(int64_t ns)
{
	int64_t end = gmp_deadline(ns);

	while (gmp_now() < end)
		;
}

static void run_once(void)
{
	int64_t when = atomic_load(&due);

	late_runs += when && gmp_now() > when;
	compute(COMPUTE_NS);
}

static void yield_in_ring(UNUSED void *arg)
{
	while (!atomic_load(&stop)) {
		run_once();
		gmp_yield();
	}
	gmp_wg_done(&others);
}

static gmp_chan *there, *back, *silent;

static void ping_pong(void *arg)
{
	char c = 0;

	while (!atomic_load(&stop)) {
		run_once();
		if (arg ? gmp_chan_send(there, &c) || gmp_chan_recv(back, &c)
			: gmp_chan_recv(there, &c) || gmp_chan_send(back, &c))
			break;
	}
	gmp_chan_close(there);
	gmp_chan_close(back);
	gmp_wg_done(&others);
}

/* --- four ways to wait for `due` --- */

static void wait_asleep(void)
{
	CHECK_EQ(gmp_sleep_until(atomic_load(&due)), 0);
}

static void wait_to_receive(void)
{
	char c;

	CHECK_EQ(gmp_chan_recv_until(silent, &c, atomic_load(&due)), -ETIMEDOUT);
}

static void wait_for_tick(void)
{
	gmp_chan *c = gmp_tick_new(atomic_load(&due), 0);
	int64_t when;

	CHECK_EQ(gmp_chan_recv(c, &when), 0);
	gmp_tick_free(c);
}

static gmp_sem fired = GMP_SEM_INIT(0);

static void fire(UNUSED void *arg)
{
	atomic_store(&due, 0);
	gmp_sem_release(&fired, 1);
}

static void wait_for_timer(void)
{
	gmp_timer *t = gmp_timer_new(fire, NULL);

	CHECK_EQ(gmp_timer_set(t, atomic_load(&due), 0), 0);
	CHECK_EQ(gmp_sem_acquire(&fired), 0);
	gmp_timer_free(t);
}

/* How often the kernel has preempted this OS thread; the only M that runs Gs here. */
static long preemptions(void)
{
	struct rusage u;

	CHECK_EQ(getrusage(RUSAGE_THREAD, &u), 0);
	return u.ru_nivcsw;
}

/*
 * Returns how many of WAITS waits were prompt: at most one other G began to run after `due`. One
 * may, if the switch happens between reading the clock and `due`. A wait during which the kernel
 * has preempted the M does not count: it may use up the budget of the timers.
 */
static int prompt_waits(void (*wait)(void))
{
	int64_t end = gmp_deadline(20 * 1000 * MS);
	int prompt = 0;

	for (int i = 0; i < WAITS;) {
		long before = preemptions();

		late_runs = 0;
		atomic_store(&due, gmp_deadline(MS + MS / 3));
		wait();
		atomic_store(&due, 0);
		if (preemptions() == before) {
			prompt += late_runs <= 1;
			i++;
		} else if (gmp_now() > end) {
			check_skip("the kernel preempts each wait");
		}
	}
	return prompt;
}

static void begin_others(gmp_fn fn, int n)
{
	silent = gmp_chan_new(1, 0);
	there = gmp_chan_new(1, 0);
	back = gmp_chan_new(1, 0);
	CHECK(silent && there && back);
	gmp_wg_add(&others, n);
	for (intptr_t i = 0; i < n; i++)
		CHECK_EQ(gmp_go(fn, (void *)i), 0);
	gmp_yield();
}

static void end_others(void)
{
	atomic_store(&stop, 1);
	gmp_wg_wait(&others);
	gmp_chan_free(silent);
	gmp_chan_free(there);
	gmp_chan_free(back);
}

/* Most waits, not all: the machine may be slow at times. */
static void wait_beside_ring(void *wait)
{
	begin_others(yield_in_ring, RING);
	CHECK(prompt_waits((void (*)(void))(uintptr_t)wait) > WAITS / 2);
	end_others();
}

/* While the timer heap is empty, the run time of the ring must not be charged to timers. */
static void wait_after_pause(void)
{
	atomic_store(&due, 0);
	for (int i = 0; i < 4; i++)
		gmp_yield();
	late_runs = 0;
	atomic_store(&due, gmp_deadline(MS + MS / 3));
	wait_asleep();
}

#define PROMPT(name, wait)                                                                         \
	TEST(name)                                                                                 \
	{                                                                                          \
		run_cooperative(1, wait_beside_ring, (void *)(uintptr_t)wait);                     \
	}

PROMPT(sleep_expired_runs_before_ring, wait_asleep)
PROMPT(chan_deadline_expired_runs_before_ring, wait_to_receive)
PROMPT(sleep_after_pause_runs_before_ring, wait_after_pause)
PROMPT(tick_due_runs_before_ring, wait_for_tick)
PROMPT(timer_function_due_runs_before_ring, wait_for_timer)

static void wait_beside_pair(UNUSED void *arg)
{
	begin_others(ping_pong, 2);
	CHECK(prompt_waits(wait_asleep) > WAITS / 2);
	end_others();
}

TEST(sleep_expired_runs_before_runnext)
{
	run_cooperative(1, wait_beside_pair, NULL);
}

static void wait_behind_ring(UNUSED void *arg)
{
	begin_others(yield_in_ring, RING);
	CHECK(prompt_waits(wait_asleep) < WAITS / 2);
	end_others();
}

/* The older schedulers enqueue a woken G at the tail. */
TEST(sleep_expired_without_runnext_goes_to_tail)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = 1;
	c.sched = GMP_SCHED_LOCAL;
	c.flags |= GMP_COOPERATIVE;
	CHECK_EQ(gmp_run(wait_behind_ring, NULL, &c), 0);
}

/* --- order --- */

enum { SLEEPERS = 3 * DUE_MOST + 1 };

static int64_t base;
static int woken[SLEEPERS], nwoken;

static void sleep_and_record(void *arg)
{
	intptr_t i = (intptr_t)arg;

	CHECK_EQ(gmp_sleep_until(base + i * US), 0);
	woken[nwoken++] = (int)i;
	gmp_wg_done(&gate);
}

static void sleep_together(UNUSED void *arg)
{
	begin_others(yield_in_ring, RING);
	/* all must sleep before the first deadline, so a slow machine needs a later one */
	for (int64_t ahead = 50 * MS;; ahead *= 2) {
		nwoken = 0;
		base = gmp_deadline(ahead);
		gmp_wg_add(&gate, SLEEPERS);
		for (intptr_t i = 0; i < SLEEPERS; i++)
			CHECK_EQ(gmp_go(sleep_and_record, (void *)(i * 7 % SLEEPERS)), 0);
		while (stats().greens_waiting < SLEEPERS && gmp_now() < base)
			gmp_yield();
		if (gmp_now() < base)
			break;
		gmp_wg_wait(&gate);
	}
	compute(base + SLEEPERS * US - gmp_now());
	gmp_wg_wait(&gate);
	for (int i = 0; i < SLEEPERS; i++)
		CHECK_EQ(woken[i], i);
	end_others();
}

TEST(sleepers_due_together_run_in_order_of_deadline)
{
	run_cooperative(1, sleep_together, NULL);
}

/* --- starvation --- */

enum { MANY = 100, SWITCHES = 20000 };

static uint64_t gap, ring_runs;

static void set_again(void *arg)
{
	gmp_timer **t = arg;

	if (!atomic_load(&stop))
		CHECK(gmp_timer_set(*t, gmp_now(), 0) >= 0);
}

static void measure_gap(UNUSED void *arg)
{
	uint64_t last = stats().switches;

	while (!atomic_load(&stop)) {
		gmp_yield();
		uint64_t now = stats().switches;

		gap = now - last > gap ? now - last : gap;
		last = now;
		ring_runs++;
	}
	gmp_wg_done(&others);
}

static void starve(UNUSED void *arg)
{
	gmp_timer *t[MANY];
	uint64_t began;

	begin_others(measure_gap, RING);
	began = stats().switches;
	for (int i = 0; i < MANY; i++) {
		t[i] = gmp_timer_new(set_again, &t[i]);
		CHECK(t[i] != NULL);
		CHECK_EQ(gmp_timer_set(t[i], gmp_now(), 0), 0);
	}
	while (stats().switches - began < SWITCHES)
		gmp_yield();
	/* timers get three quarters plus their initial budget, and more than a half */
	uint64_t all = stats().switches - began;

	CHECK(4 * ring_runs + SLICE_SWITCHES + RING + DUE_MOST + all / 10 >= all);
	CHECK(ring_runs < all / 2);
	/* each G of the ring and this one run once in between */
	CHECK(gap <= SLICE_SWITCHES + DUE_MOST + RING + 2);
	end_others();
	for (int i = 0; i < MANY; i++)
		gmp_timer_free(t[i]);
}

/* In virtual time on one P a switch counts as 10 us, so the bound is exact. */
TEST(timers_always_due_delay_ring_by_one_slice_at_most)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = 1;
	c.flags = GMP_VIRTUAL_TIME;
	CHECK_EQ(gmp_run(starve, NULL, &c), 0);
}

static int64_t ring_time;

static void run_short(UNUSED void *arg)
{
	while (!atomic_load(&stop)) {
		int64_t began = gmp_now();

		compute(20 * US);
		ring_time += gmp_now() - began;
		gmp_yield();
	}
	gmp_wg_done(&others);
}

static void overload(UNUSED void *arg)
{
	enum { PERIODIC = SANITIZED ? 200 : 2000 };
	gmp_timer *t[PERIODIC];
	int64_t began, had, took;

	begin_others(run_short, RING);
	for (int i = 0; i < PERIODIC; i++) {
		t[i] = gmp_timer_new(add_one, NULL);
		CHECK(t[i] != NULL);
		CHECK_EQ(gmp_timer_set(t[i], gmp_now(), US), 0);
	}
	gmp_yield();
	began = gmp_now();
	had = ring_time;
	while ((took = gmp_now() - began) < 200 * MS)
		gmp_yield();
	CHECK(8 * (ring_time - had) > took);
	CHECK(atomic_load(&count) > 0);
	end_others();
	for (int i = 0; i < PERIODIC; i++)
		gmp_timer_free(t[i]);
}

TEST(timers_1us_overload_leaves_ring_an_eighth_of_time)
{
	run_procs(1, overload, NULL);
}
