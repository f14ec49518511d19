/* SPDX-License-Identifier: MIT */
/*
 * Tests that each object of wait/ re-checks its state under the bucket lock before a caller parks
 * or wakes a waiter. The wrapped lot_lock changes the state before the bucket is locked.
 *
 * floors 0..6, wrap: lot_lock
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <errno.h>

#include "base/atomic.h"
#include "wait/parkinglot.h"
#include "rt.h"

struct bucket *__real_lot_lock(const void *key);
struct bucket *__wrap_lot_lock(const void *key);

static const void *awaited; /* (a) the key whose next lot_lock calls `meanwhile` */
static void (*meanwhile)(void);

struct bucket *__wrap_lot_lock(const void *key)
{
	const void *expected = key;

	if (cas_seq(&awaited, &expected, NULL))
		meanwhile();
	return __real_lot_lock(key);
}

static void before_bucket_lock(const void *key, void (*fn)(void))
{
	meanwhile = fn;
	st_seq(&awaited, key);
}

static gmp_mutex m;
static gmp_rwmutex rw;
static gmp_sem sem;
static gmp_once once;
static gmp_g *other;
static int began, go_on, result; /* (a) */

static void unlock_m(void)
{
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
}

static void lock_late(void *arg)
{
	(void)arg;
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	before_bucket_lock(&m, unlock_m);
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	CHECK(ld_seq(&awaited) == NULL);
	CHECK_EQ(gmp_mutex_try_lock(&m), -EAGAIN);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
}

TEST_PROCS(mutex_unlocked_before_park_is_taken)
{
	run_procs(procs, lock_late, NULL);
}

static void unlock_rw(void)
{
	CHECK_EQ(gmp_rwmutex_unlock(&rw), 0);
}

static void runlock_rw(void)
{
	CHECK_EQ(gmp_rwmutex_runlock(&rw), 0);
}

static void rwlock_late(void *arg)
{
	(void)arg;
	CHECK_EQ(gmp_rwmutex_lock(&rw), 0);
	before_bucket_lock(&rw, unlock_rw);
	CHECK_EQ(gmp_rwmutex_rlock(&rw), 0);
	CHECK(ld_seq(&awaited) == NULL);
	before_bucket_lock(&rw, runlock_rw);
	CHECK_EQ(gmp_rwmutex_lock(&rw), 0);
	CHECK(ld_seq(&awaited) == NULL);
	CHECK_EQ(gmp_rwmutex_unlock(&rw), 0);
}

TEST_PROCS(rwmutex_unlocked_before_park_is_taken)
{
	run_procs(procs, rwlock_late, NULL);
}

static void do_slowly(void *arg)
{
	(void)arg;
	st_seq(&began, 1);
	while (!ld_seq(&go_on))
		gmp_yield();
}

static void do_once(void *arg)
{
	(void)arg;
	CHECK_EQ(gmp_once_do(&once, do_slowly, NULL), 0);
}

static void finish_once(void)
{
	st_seq(&go_on, 1);
	CHECK_EQ(gmp_join(other), 0);
}

static void once_late(void *arg)
{
	(void)arg;
	CHECK_EQ(gmp_spawn(&other, do_once, NULL, NULL), 0);
	while (!ld_seq(&began))
		gmp_yield();
	before_bucket_lock(&once, finish_once);
	CHECK_EQ(gmp_once_do(&once, do_slowly, NULL), 0);
	CHECK(ld_seq(&awaited) == NULL);
}

TEST_PROCS(once_finished_before_park_returns_without_wait)
{
	run_procs(procs, once_late, NULL);
}

static void acquire(void *arg)
{
	(void)arg;
	st_seq(&began, 1);
	st_seq(&result, gmp_sem_acquire(&sem));
}

/* The waiter is cancelled, and one permit is released. */
static void cancel_waiter(void)
{
	CHECK_EQ(gmp_cancel(other), 0);
	CHECK_EQ(gmp_join(other), 0);
	CHECK_EQ(ld_seq(&result), -ECANCELED);
	CHECK_EQ(gmp_sem_release(&sem, 1), 0);
}

static void release_late(void *arg)
{
	(void)arg;
	CHECK_EQ(gmp_spawn(&other, acquire, NULL, NULL), 0);
	while (!ld_seq(&began) || ld_rlx(&sem.state) == 0)
		gmp_yield();
	before_bucket_lock(&sem, cancel_waiter);
	CHECK_EQ(gmp_sem_release(&sem, INT32_MAX), -EOVERFLOW);
	CHECK(ld_seq(&awaited) == NULL);
	CHECK_EQ(gmp_sem_try_acquire(&sem), 0);
	CHECK_EQ(gmp_sem_try_acquire(&sem), -EAGAIN);
}

TEST_PROCS(sem_release_after_waiter_cancelled_returns_eoverflow)
{
	run_procs(procs, release_late, NULL);
}
