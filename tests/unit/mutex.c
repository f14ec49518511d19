/* SPDX-License-Identifier: MIT */
/*
 * Tests when the mutex locks a bucket of the parking lot, and that its waiters are woken, also by
 * an unlock with a plain store. Calls of lot_lock are counted. Without sysmon: a single P is not
 * handed off while its M sleeps.
 *
 * floors 0..6, wrap: lot_lock os_membarrier sysmon_start sysmon_stop
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <pthread.h>
#include <sys/mman.h>

#include "base/atomic.h"
#include "base/os.h"
#include "monitor/sysmon.h"
#include "wait/parkinglot.h"
#include "rt.h"
#include "step.h"
#include "timer/timerheap.h"
#include "wait/sync.h"

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
static int bucket_locks; /* (a) number of calls of lot_lock for m */
static int late;         /* (a) the result of the waiter's lock */

static bool unlock_in_lot_lock; /* unlock m at the next lot_lock for it */

struct bucket *__wrap_lot_lock(const void *key)
{
	if (key == &m) {
		add_seq(&bucket_locks, 1);
		if (unlock_in_lot_lock) {
			unlock_in_lot_lock = false;
			CHECK_EQ(gmp_mutex_unlock(&m), 0);
		}
	}
	return __real_lot_lock(key);
}

static int fences; /* (a) heavy fences */

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
	while (ld_seq(&bucket_locks) == 0)
		gmp_yield();
	os_nap(5000000); /* longer than the starvation limit of 1 ms */
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	CHECK_EQ(gmp_join(g), 0);
	CHECK_EQ(ld_seq(&bucket_locks), 2); /* one to enqueue, one to hand over */
}

TEST(mutex_handed_over_waiter_does_not_lock_bucket_again)
{
	run_procs(1, hand_over, NULL);
}

static void unlock_while_waiter_enqueues(void *arg)
{
	gmp_g *g;

	(void)arg;
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	unlock_in_lot_lock = true;
	CHECK_EQ(gmp_spawn(&g, lock_and_unlock, NULL, NULL), 0);
	CHECK_EQ(gmp_join(g), 0);
	CHECK(!unlock_in_lot_lock);
	CHECK_EQ(ld_seq(&m.state), 0);
}

TEST(mutex_unlocked_during_enqueue_is_taken)
{
	run_procs(1, unlock_while_waiter_enqueues, NULL);
}

static const int64_t HOUR = INT64_C(3600000000000);

static void lock_late(void *arg)
{
	(void)arg;
	st_seq(&late, gmp_mutex_lock_until(&m, gmp_now() + HOUR));
}

/*
 * The unlocker finds a waiter that the expired timer has claimed; with one P the waiter cannot run
 * before.
 */
static void time_out_before_unlock(void *arg)
{
	gmp_g *g;

	(void)arg;
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	CHECK_EQ(gmp_spawn(&g, lock_late, NULL, NULL), 0);
	while (ld_seq(&bucket_locks) == 0)
		gmp_yield();
	os_nap(5000000); /* longer than the starvation limit of 1 ms */
	struct glist out = { 0 };

	CHECK_EQ(timers_run(getp(), gmp_now() + HOUR, &out), 1);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	ready_list(&out);
	CHECK_EQ(gmp_join(g), 0);
	CHECK_EQ(ld_seq(&late), -ETIMEDOUT);
	CHECK_EQ(ld_seq(&bucket_locks), 2); /* one to enqueue, one to dequeue by the unlocker */
}

TEST(mutex_timed_out_waiter_does_not_lock_bucket_again)
{
	run_procs(1, time_out_before_unlock, NULL);
}

enum { WOKEN = 4, PARKED = 2 }; /* wait/mutex.c */

static int order[2], got;

static void lock_and_note_order(void *i)
{
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	order[got++] = (int)(intptr_t)i;
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
}

/* Returns false on a slow machine, where the first waiter has been handed the mutex. */
static bool lock_before_woken(void)
{
	gmp_g *g[2];
	bool free;

	got = 0;
	st_seq(&bucket_locks, 0);
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(gmp_spawn(&g[i], lock_and_note_order, (void *)(intptr_t)i, NULL), 0);
		while (ld_seq(&bucket_locks) <= i)
			gmp_yield();
	}
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	free = gmp_mutex_try_lock(&m) == 0;
	if (free) {
		while (ld_seq(&m.state) & WOKEN)
			gmp_yield(); /* the first loses the race and enqueues again */
		CHECK_EQ(gmp_mutex_unlock(&m), 0);
	}
	for (int i = 0; i < 2; i++)
		CHECK_EQ(gmp_join(g[i]), 0);
	CHECK_EQ(order[0], 0);
	CHECK_EQ(order[1], 1);
	return free;
}

static void lock_before_woken_once(void *arg)
{
	(void)arg;
	while (!lock_before_woken())
		;
}

TEST(mutex_woken_waiter_that_loses_race_is_requeued_first)
{
	run_procs(1, lock_before_woken_once, NULL);
}

static void *lock_external(void *arg)
{
	lock_and_unlock(arg);
	return NULL;
}

/* Makes m free with one G woken to compete for it. */
static void unlock_with_one_woken(void)
{
	do {
		CHECK_EQ(gmp_mutex_lock(&m), 0);
		CHECK_EQ(gmp_go(lock_and_unlock, NULL), 0);
		while (!(ld_seq(&m.state) & PARKED))
			gmp_yield();
		CHECK_EQ(gmp_mutex_unlock(&m), 0);
		if (!(ld_seq(&m.state) & WOKEN)) /* slow machine: handed over */
			gmp_yield();
	} while (!(ld_seq(&m.state) & WOKEN));
}

static void lock_until_past(void *arg)
{
	(void)arg;
	unlock_with_one_woken();
	CHECK_EQ(gmp_mutex_lock_until(&m, 0), 0);
	CHECK_EQ(gmp_mutex_lock_until(&m, 0), -ETIMEDOUT);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	while (ld_seq(&m.state))
		gmp_yield();
}

TEST(mutex_expired_lock_until_takes_free_mutex_before_woken)
{
	run_procs(1, lock_until_past, NULL);
}

/*
 * The run ends while one G is woken to compete and an external thread sleeps behind it. The
 * unlocker has left waking the external thread to the G.
 */
static void leave_one_woken(void *thread)
{
	unlock_with_one_woken();
	CHECK_EQ(gmp_mutex_try_lock(&m), 0);
	CHECK_EQ(pthread_create(thread, NULL, lock_external, NULL), 0);
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

/* --- uncontended buckets: UNLOCK-1 --- */

static void set_uncontended(gmp_mutex *of, bool uncontended)
{
	CHECK(os_membarrier_init());
	lot_reset();
	CHECK(lot_is_uncontended(of));
	if (uncontended)
		return;
	struct bucket *b = lot_lock(of);

	lot_mark_contended(b);
	lot_unlock(b);
}

static int steps, start_at;         /* the step at which the other thread starts */
static int may_start, had_it, gone; /* (a) */

static void *lock_when_started(void *unused)
{
	(void)unused;
	while (!ld_seq(&may_start))
		os_nap(10000);
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	st_seq(&had_it, 1);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	st_seq(&gone, 1);
	return NULL;
}

/*
 * Start the other thread, and wait until it parks or has had the mutex. Does nothing while this
 * thread holds the bucket, which the other would wait for.
 */
static void start_other(void)
{
	if (steps++ != start_at || ld_seq(&bucket_locks) > 0)
		return;
	st_seq(&may_start, 1);
	while (!(ld_seq(&m.state) & PARKED) && !ld_seq(&gone))
		os_nap(10000);
}

static pthread_t lock_before_start_at(int nth, bool uncontended)
{
	pthread_t thread;

	start_at = nth;
	steps = 0;
	st_seq(&may_start, 0);
	st_seq(&had_it, 0);
	st_seq(&gone, 0);
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	CHECK_EQ(pthread_create(&thread, NULL, lock_when_started, NULL), 0);
	set_uncontended(&m, uncontended);
	st_seq(&bucket_locks, 0);
	return thread;
}

/* Returns false if unlock has fewer instructions. */
static bool unlock_while_other_starts_at(int nth, bool uncontended)
{
	pthread_t thread;

	thread = lock_before_start_at(nth, uncontended);
	STEP(start_other, gmp_mutex_unlock(&m));
	bool came = ld_seq(&may_start);

	st_seq(&may_start, 1);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(ld_seq(&m.state), 0);
	return came;
}

TEST(mutex_lock_at_any_instruction_of_unlock_succeeds)
{
	for (int uncontended = 0; uncontended < 2; uncontended++) {
		int nth = 0;

		while (unlock_while_other_starts_at(nth, uncontended))
			nth++;
		CHECK(nth > 5);
	}
}

static bool relocked;

/*
 * The other thread starts at step `start_at` and parks; this thread locks again as soon as the word
 * is free. If the other has had the mutex by then, no waiter is left to be marked.
 */
static void start_other_and_relock(void)
{
	start_other();
	if (relocked || !ld_seq(&may_start) || ld_seq(&m.state) != 0 || gmp_mutex_try_lock(&m) != 0)
		return;
	if (ld_seq(&had_it))
		CHECK_EQ(gmp_mutex_unlock(&m), 0);
	else
		relocked = true;
}

TEST(mutex_locked_before_unlock_repair_has_parked_bit)
{
	pthread_t thread;

	/* the steps after unlock has read the word: before that it sees the waiter */
	for (int nth = 0; !relocked; nth++) {
		thread = lock_before_start_at(nth, true);
		STEP(start_other_and_relock, gmp_mutex_unlock(&m));
		CHECK(ld_seq(&may_start));
		if (relocked) {
			CHECK(ld_seq(&m.state) & PARKED);
			CHECK_EQ(gmp_mutex_unlock(&m), 0);
		}
		CHECK_EQ(pthread_join(thread, NULL), 0);
		CHECK_EQ(ld_seq(&m.state), 0);
	}
}

static gmp_mutex *mapped;
static int unlocked; /* the step after which it was unlocked */

/* After the unlock the memory may belong to the next holder, and may be unmapped. */
static void unmap_unlocked(void)
{
	if (unlocked > 0 || mapped->state != 0)
		return;
	unlocked = ++steps;
	CHECK_EQ(mprotect(mapped, 4096, PROT_NONE), 0);
}

TEST(mutex_unlock_does_not_access_mutex_after_unlocking_store)
{
	mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(mapped != MAP_FAILED);
	for (int uncontended = 0; uncontended < 2; uncontended++) {
		set_uncontended(mapped, uncontended);
		unlocked = 0;
		CHECK_EQ(gmp_mutex_lock(mapped), 0);
		STEP(unmap_unlocked, gmp_mutex_unlock(mapped));
		CHECK(unlocked > 0);
		CHECK_EQ(mprotect(mapped, 4096, PROT_READ | PROT_WRITE), 0);
	}
	CHECK_EQ(munmap(mapped, 4096), 0);
}

static void sleep_and_be_woken(void)
{
	pthread_t thread;

	CHECK_EQ(gmp_mutex_lock(&m), 0);
	CHECK_EQ(pthread_create(&thread, NULL, lock_external, NULL), 0);
	while (!(ld_seq(&m.state) & PARKED))
		os_nap(100000);
	lot_reset();
	CHECK(!lot_is_uncontended(&m)); /* a waiter is queued */
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
}

TEST(mutex_first_waiter_of_uncontended_bucket_runs_heavy_fence)
{
	set_uncontended(&m, true);
	for (int i = 1; i < 4; i++) {
		st_seq(&fences, 0);
		sleep_and_be_woken();
		CHECK_EQ(ld_seq(&fences), 1);
		sleep_and_be_woken();
		CHECK_EQ(ld_seq(&fences), 1);
		lot_reset();
		CHECK(lot_is_uncontended(&m));
	}
}

static int waiter_ran; /* (a) */

static void note_lock(void *arg)
{
	(void)arg;
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	st_seq(&waiter_ran, 1);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
}

/* Without sysmon only the unlocker can wake the other M. */
static void hand_over_and_compute(void *arg)
{
	(void)arg;
	for (int round = 0; round < 5; round++) {
		gmp_g *g;

		CHECK_EQ(gmp_mutex_lock(&m), 0);
		st_seq(&bucket_locks, 0);
		st_seq(&waiter_ran, 0);
		CHECK_EQ(gmp_spawn(&g, note_lock, NULL, NULL), 0);
		while (ld_seq(&bucket_locks) == 0)
			gmp_yield();
		os_nap(5000000); /* longer than 1 ms, and than the other M spins */
		CHECK_EQ(gmp_mutex_unlock(&m), 0);
		int64_t limit = os_now() + INT64_C(10000000000);

		while (!ld_seq(&waiter_ran))
			CHECK(os_now() < limit);
		CHECK_EQ(gmp_join(g), 0);
	}
}

TEST(mutex_handed_over_by_computing_g_is_locked_on_idle_p)
{
	run_procs(2, hand_over_and_compute, NULL);
}
