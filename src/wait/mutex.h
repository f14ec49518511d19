/* SPDX-License-Identifier: MIT */
/*
 * Lock word shared by mutex and rwmutex, and the slow paths that both use.
 *
 * An rwmutex is a mutex between writers with a count of readers in the upper bits of the same word.
 * The count and RPARKED and DRAIN are 0 in the word of a gmp_mutex.
 *
 *   bit 0  LOCKED   A thread holds the mutex.  Of an rwmutex: a writer holds it if the count is 0;
 *                   otherwise a writer has claimed it and waits for the readers.  Set by the owner,
 *                   or left set by an unlock that hands the lock over.  Only the owner clears it.
 *   bit 1  PARKED   A waiter may be queued in the parking table.  Set and cleared under the bucket
 *                   lock.  May be set although no waiter is queued (the waiter gave up); must be
 *                   set if one is, except until unlock_repair has run (mutex_unlock.c).
 *   bit 2  WOKEN    A waiter that was woken to compete has not run yet.  While it is set, unlock
 *                   wakes no further waiter.  Set under the bucket lock, after that waiter was
 *                   claimed.  Cleared by it, when it locks or parks again.
 *   bit 3  STUCK    Hint, read by mutex_spin only: spinning during this hold is a waste.  A waiter
 *                   has spun to the end and has parked, or the new owner was handed the lock and
 *                   has not run yet.  Set only with LOCKED, under the bucket lock; cleared with
 *                   LOCKED.
 *   bit 4  RPARKED  A reader may be queued.  Set only with LOCKED, under the bucket lock; cleared
 *                   with LOCKED.  May be set although no reader is queued (the reader gave up).
 *   bit 5  DRAIN    The writer that owns LOCKED is parked until the count is 0.  Set under the
 *                   bucket lock.  Cleared under it by the last reader, or with LOCKED by the writer
 *                   if it gives up.
 *   bits 6..31      Number of readers that hold the rwmutex, in units of READER.
 */
#ifndef GMP_MUTEX_H
#define GMP_MUTEX_H

#include "wait/parkinglot.h"

enum {
	MUTEX_LOCKED = 1 << 0,
	MUTEX_PARKED = 1 << 1,
	MUTEX_WOKEN = 1 << 2,
	MUTEX_STUCK = 1 << 3,
	RW_RPARKED = 1 << 4,
	RW_DRAIN = 1 << 5,
	RW_READER = 1 << 6,
};

_Static_assert((MUTEX_LOCKED | MUTEX_PARKED | MUTEX_WOKEN | MUTEX_STUCK | RW_RPARKED | RW_DRAIN) ==
		       RW_READER - 1,
	       "the count of readers starts above the flags");

/*
 * Keys in the parking table: the address of the object plus these offsets.  MUTEX_KEY tells the
 * queue of a mutex from that of any object that reuses the memory of a freed mutex (UNLOCK-2).
 */
enum { RW_READERS_KEY = 1, MUTEX_KEY = 2, RW_DRAIN_KEY = 3, WAIT_KEYS = 3 };

_Static_assert(WAIT_KEYS < _Alignof(gmp_mutex), "wait_key_mutex masks the offset");

static inline const void *mutex_queue(const gmp_mutex *m)
{
	return (const char *)m + MUTEX_KEY;
}

static inline const void *rw_readers(const gmp_mutex *m)
{
	return (const char *)m + RW_READERS_KEY;
}

static inline const void *rw_drain(const gmp_mutex *m)
{
	return (const char *)m + RW_DRAIN_KEY;
}

/* The object that a key belongs to. */
static inline gmp_mutex *wait_key_mutex(const void *key)
{
	return (gmp_mutex *)((uintptr_t)key & ~(uintptr_t)WAIT_KEYS);
}

/*
 * Spin for a moment if the owner may run meanwhile.  s: the word, with LOCKED set.  *spins: how
 * many times the caller has spun.  Returns false if the caller must park.
 */
bool mutex_spin(uint32_t s, int *spins);

/*
 * Set LOCKED; wait in the queue of m if it is set.  why: the wait reason, with UNCANCELLABLE or
 * without.  Returns 0 with LOCKED set, also while readers hold m; otherwise the result of wait_on.
 */
int mutex_lock_slow(gmp_mutex *m, unsigned why, int64_t deadline);

/*
 * Clear LOCKED, which the caller owns: let all queued readers in, then wake the first waiter or
 * hand LOCKED over to it.  m may be freed by another thread before this returns.
 */
int mutex_unlock_slow(gmp_mutex *m);

/*
 * Under the bucket lock, after a waiter of m was claimed to compete: set WOKEN, and PARKED if
 * further waiters are queued.
 */
void mutex_set_woken(struct bucket *b, gmp_mutex *m);

#endif
