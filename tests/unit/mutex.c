/* SPDX-License-Identifier: MIT */
/*
 * Does the mutex go to the parking table only when it has to?  Calls of lot_lock are counted.  And is one
 * that sleeps there woken when it has to be, also by who unlocks with a plain store?  Without the watcher: one P
 * stays one, though its thread sleeps for a while.
 *
 * floors 0..6, wrap: lot_lock os_membarrier sysmon_start sysmon_stop
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <pthread.h>
#include <sys/mman.h>

#include "base/atomic.h"
#include "base/os.h"
#include "parkinglot.h"
#include "rt.h"
#include "step.h"
#include "sync/sync.h"
#include "sysmon.h"
#include "timerheap.h"

struct bucket *__real_lot_lock(const void *key);
struct bucket *__wrap_lot_lock(const void *key);

void __real_os_membarrier(void);
void __wrap_os_membarrier(void);

int __wrap_sysmon_start(void);
void __wrap_sysmon_stop(void);

int __wrap_sysmon_start(void)
{
	return 0;
}

void __wrap_sysmon_stop(void)
{
}

static gmp_mutex m;
static int locked; /* (a) how often the bucket of m has been */
static int late;   /* (a) what the waiter's lock returned */

static bool comes_free; /* when next somebody goes to the table for it */

struct bucket *__wrap_lot_lock(const void *key)
{
	if (key == &m) {
		add_seq(&locked, 1);
		if (comes_free) {
			comes_free = false;
			CHECK_EQ(gmp_mutex_unlock(&m), 0);
		}
	}
	return __real_lot_lock(key);
}

static int fences; /* (a) heavy ones */

void __wrap_os_membarrier(void)
{
	add_seq(&fences, 1);
	__real_os_membarrier();
}

static void lock_and_unlock(void *arg)
{
	(void)arg;
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
}

static void hand_over(void *arg)
{
	gmp_g *g;

	(void)arg;
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	CHECK_EQ(gmp_spawn(&g, lock_and_unlock, NULL, NULL), 0);
	while (ld_seq(&locked) == 0)
		gmp_yield();
	os_nap(5000000); /* longer than it takes to starve */
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	CHECK_EQ(gmp_join(g), 0);
	CHECK_EQ(ld_seq(&locked), 2); /* to queue up, to hand it over */
}

TEST(mutex_handed_over_waiter_does_not_lock_bucket_again)
{
	run_procs(1, hand_over, NULL);
}

static void let_go_as_one_queues_up(void *arg)
{
	gmp_g *g;

	(void)arg;
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	comes_free = true;
	CHECK_EQ(gmp_spawn(&g, lock_and_unlock, NULL, NULL), 0);
	CHECK_EQ(gmp_join(g), 0);
	CHECK(!comes_free);
	CHECK_EQ(ld_seq(&m.state), 0);
}

TEST(mutex_unlocked_during_enqueue_is_taken)
{
	run_procs(1, let_go_as_one_queues_up, NULL);
}

static const int64_t HOUR = INT64_C(3600000000000);

static void lock_late(void *arg)
{
	(void)arg;
	st_seq(&late, gmp_mutex_lock_until(&m, gmp_now() + HOUR));
}

/* The unlocker meets one that the time, which is told to have come, has claimed already: at one P it cannot
 * run before. */
static void time_out_before_unlock(void *arg)
{
	gmp_g *g;

	(void)arg;
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	CHECK_EQ(gmp_spawn(&g, lock_late, NULL, NULL), 0);
	while (ld_seq(&locked) == 0)
		gmp_yield();
	os_nap(5000000); /* longer than it takes to starve */
	struct glist out = { 0 };

	CHECK_EQ(timers_run(getp(), gmp_now() + HOUR, &out), 1);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	ready_list(&out);
	CHECK_EQ(gmp_join(g), 0);
	CHECK_EQ(ld_seq(&late), -ETIMEDOUT);
	CHECK_EQ(ld_seq(&locked), 2); /* to queue up, and the unlocker, who took it out */
}

TEST(mutex_timed_out_waiter_does_not_lock_bucket_again)
{
	run_procs(1, time_out_before_unlock, NULL);
}

enum { WOKEN = 4, PARKED = 2 }; /* sync/mutex.c */

static int order[2], got;

static void lock_in_turn(void *i)
{
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	order[got++] = (int)(intptr_t)i;
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
}

/* False: a slow machine, the first has been handed the lock. */
static bool overtake_the_first(void)
{
	gmp_g *g[2];
	bool free;

	got = 0;
	st_seq(&locked, 0);
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(gmp_spawn(&g[i], lock_in_turn, (void *)(intptr_t)i, NULL), 0);
		while (ld_seq(&locked) <= i)
			gmp_yield();
	}
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	free = gmp_mutex_try_lock(&m) == 0;
	if (free) {
		while (ld_seq(&m.state) & WOKEN)
			gmp_yield(); /* the first comes too late, and queues up again */
		CHECK_EQ(gmp_mutex_unlock(&m), 0);
	}
	for (int i = 0; i < 2; i++)
		CHECK_EQ(gmp_join(g[i]), 0);
	CHECK_EQ(order[0], 0);
	CHECK_EQ(order[1], 1);
	return free;
}

static void overtake(void *arg)
{
	(void)arg;
	while (!overtake_the_first())
		;
}

TEST(mutex_woken_waiter_that_loses_race_is_requeued_first)
{
	run_procs(1, overtake, NULL);
}

static void *lock_outside(void *arg)
{
	lock_and_unlock(arg);
	return NULL;
}

/* m is free, and one green thread has been woken to compete for it. */
static void come_free_with_one_woken(void)
{
	do {
		CHECK_EQ(gmp_mutex_lock(&m), 0);
		CHECK_EQ(gmp_go(lock_and_unlock, NULL), 0);
		while (!(ld_seq(&m.state) & PARKED))
			gmp_yield();
		CHECK_EQ(gmp_mutex_unlock(&m), 0);
		if (!(ld_seq(&m.state) & WOKEN)) /* a slow machine: it has been handed over */
			gmp_yield();
	} while (!(ld_seq(&m.state) & WOKEN));
}

static void come_late(void *arg)
{
	(void)arg;
	come_free_with_one_woken();
	CHECK_EQ(gmp_mutex_lock_until(&m, 0), 0);
	CHECK_EQ(gmp_mutex_lock_until(&m, 0), -ETIMEDOUT);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	while (ld_seq(&m.state))
		gmp_yield();
}

TEST(mutex_expired_lock_until_takes_free_mutex_before_woken)
{
	run_procs(1, come_late, NULL);
}

/* The run ends when one green thread has been woken to compete, and one outside sleeps behind it: the unlocker
 * has left it to the former to see to the latter. */
static void leave_one_woken(void *thread)
{
	come_free_with_one_woken();
	CHECK_EQ(gmp_mutex_try_lock(&m), 0);
	CHECK_EQ(pthread_create(thread, NULL, lock_outside, NULL), 0);
	while (!(ld_seq(&m.state) & PARKED))
		os_nap(100000);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	CHECK_EQ(ld_seq(&m.state), WOKEN | PARKED);
}

TEST(mutex_woken_waiter_killed_at_shutdown_wakes_next)
{
	pthread_t thread;

	run_procs(1, leave_one_woken, &thread);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(ld_seq(&m.state), 0);
}

/* --- calm buckets: X4 --- */

static void calm_or_not(gmp_mutex *of, bool calm)
{
	CHECK(os_membarrier_init());
	lot_calm_down();
	CHECK(lot_is_uncontended(of));
	if (calm)
		return;
	struct bucket *b = lot_lock(of);

	lot_mark_contended(b);
	lot_unlock(b);
}

static int looks, come_at;         /* at which look the other one comes */
static int may_come, had_it, gone; /* (a) */

static void *come(void *unused)
{
	(void)unused;
	while (!ld_seq(&may_come))
		os_nap(10000);
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	st_seq(&had_it, 1);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	st_seq(&gone, 1);
	return NULL;
}

/* Stay here until it sleeps, or has had the lock.  Who has the bucket would be waited for by it. */
static void let_it_come(void)
{
	if (looks++ != come_at || ld_seq(&locked) > 0)
		return;
	st_seq(&may_come, 1);
	while (!(ld_seq(&m.state) & PARKED) && !ld_seq(&gone))
		os_nap(10000);
}

static pthread_t lock_before_one_comes_at(int nth, bool calm)
{
	pthread_t thread;

	come_at = nth;
	looks = 0;
	st_seq(&may_come, 0);
	st_seq(&had_it, 0);
	st_seq(&gone, 0);
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	CHECK_EQ(pthread_create(&thread, NULL, come, NULL), 0);
	calm_or_not(&m, calm);
	st_seq(&locked, 0);
	return thread;
}

/* False: unlock has fewer instructions. */
static bool unlock_while_one_comes_at(int nth, bool calm)
{
	pthread_t thread;

	thread = lock_before_one_comes_at(nth, calm);
	STEP(let_it_come, gmp_mutex_unlock(&m));
	bool came = ld_seq(&may_come);

	st_seq(&may_come, 1);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(ld_seq(&m.state), 0);
	return came;
}

TEST(mutex_lock_at_any_instruction_of_unlock_succeeds)
{
	for (int calm = 0; calm < 2; calm++) {
		int nth = 0;

		while (unlock_while_one_comes_at(nth, calm))
			nth++;
		CHECK(nth > 5);
	}
}

static bool anew;

/* One comes at the first look, and sleeps; another locks as soon as the word is free.  If the former has had
 * the lock by then, and is done with it, there is nobody to be told of. */
static void let_it_come_and_lock_anew(void)
{
	let_it_come();
	if (anew || !ld_seq(&may_come) || ld_seq(&m.state) != 0 || gmp_mutex_try_lock(&m) != 0)
		return;
	if (ld_seq(&had_it))
		CHECK_EQ(gmp_mutex_unlock(&m), 0);
	else
		anew = true;
}

TEST(mutex_locked_before_unlock_repair_has_parked_bit)
{
	pthread_t thread;

	/* after its look at the word: before that it sees that somebody waits */
	for (int nth = 0; !anew; nth++) {
		thread = lock_before_one_comes_at(nth, true);
		STEP(let_it_come_and_lock_anew, gmp_mutex_unlock(&m));
		CHECK(ld_seq(&may_come));
		if (anew) {
			CHECK(ld_seq(&m.state) & PARKED);
			CHECK_EQ(gmp_mutex_unlock(&m), 0);
		}
		CHECK_EQ(pthread_join(thread, NULL), 0);
		CHECK_EQ(ld_seq(&m.state), 0);
	}
}

static gmp_mutex *lent;
static int unlocked; /* looks after which it was */

/* It is the next holder's, who may have given its memory back. */
static void take_it_away(void)
{
	if (unlocked > 0 || lent->state != 0)
		return;
	unlocked = ++looks;
	CHECK_EQ(mprotect(lent, 4096, PROT_NONE), 0);
}

TEST(mutex_unlock_does_not_access_mutex_after_unlocking_store)
{
	lent = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(lent != MAP_FAILED);
	for (int calm = 0; calm < 2; calm++) {
		calm_or_not(lent, calm);
		unlocked = 0;
		CHECK_EQ(gmp_mutex_lock(lent), 0);
		STEP(take_it_away, gmp_mutex_unlock(lent));
		CHECK(unlocked > 0);
		CHECK_EQ(mprotect(lent, 4096, PROT_READ | PROT_WRITE), 0);
	}
	CHECK_EQ(munmap(lent, 4096), 0);
}

static void sleep_and_be_woken(void)
{
	pthread_t thread;

	CHECK_EQ(gmp_mutex_lock(&m), 0);
	CHECK_EQ(pthread_create(&thread, NULL, lock_outside, NULL), 0);
	while (!(ld_seq(&m.state) & PARKED))
		os_nap(100000);
	lot_calm_down();
	CHECK(!lot_is_uncontended(&m)); /* somebody waits */
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
}

TEST(mutex_first_waiter_of_uncontended_bucket_runs_heavy_fence)
{
	calm_or_not(&m, true);
	for (int i = 1; i < 4; i++) {
		st_seq(&fences, 0);
		sleep_and_be_woken();
		CHECK_EQ(ld_seq(&fences), 1);
		sleep_and_be_woken();
		CHECK_EQ(ld_seq(&fences), 1);
		lot_calm_down();
		CHECK(lot_is_uncontended(&m));
	}
}

static int heir_ran; /* (a) */

static void note_lock(void *arg)
{
	(void)arg;
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	st_seq(&heir_ran, 1);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
}

/* Without sysmon only the unlocker can wake the other M. */
static void hand_over_and_compute(void *arg)
{
	(void)arg;
	for (int round = 0; round < 5; round++) {
		gmp_g *g;

		CHECK_EQ(gmp_mutex_lock(&m), 0);
		st_seq(&locked, 0);
		st_seq(&heir_ran, 0);
		CHECK_EQ(gmp_spawn(&g, note_lock, NULL, NULL), 0);
		while (ld_seq(&locked) == 0)
			gmp_yield();
		os_nap(5000000); /* longer than 1 ms, and than the other M spins */
		CHECK_EQ(gmp_mutex_unlock(&m), 0);
		int64_t limit = os_now() + INT64_C(10000000000);

		while (!ld_seq(&heir_ran))
			CHECK(os_now() < limit);
		CHECK_EQ(gmp_join(g), 0);
	}
}

TEST(mutex_handed_over_by_computing_g_is_locked_on_idle_p)
{
	run_procs(2, hand_over_and_compute, NULL);
}
