/* SPDX-License-Identifier: MIT */
/*
 * State word of a mutex, and of an rwmutex, which is a mutex between writers with a number of readers in the
 * upper bits of the same word.
 *
 *   LOCKED     a thread holds the mutex; of an rwmutex: a writer, once the number of readers is 0.  Set
 *              while readers hold it, it means that a writer has claimed it and waits for them
 *   PARKED     a waiter is in the table's queue.  May be set although the queue is empty (the waiter has
 *              given up); must be set if it is not, except while X4 is being mended
 *   WOKEN      a waiter that was woken to compete has not run yet: no need to wake another
 *   STUCK      spinning during this hold is a waste: a waiter has spun to the end and has parked, or the
 *              owner was handed the lock and has not run yet.  Set only with LOCKED, under the bucket's
 *              lock; cleared with it.  A hint: only mutex_spin reads it
 *   RPARKED    readers are in the table's queue.  Set only with LOCKED, under the bucket's lock; cleared
 *              with LOCKED.  May be set although the queue is empty
 *   DRAIN      the writer that has set LOCKED has parked until the readers are gone.  Set and cleared under
 *              the bucket's lock, or cleared with LOCKED by that writer if it gives up
 *   READER     one reader; the bits from here on count them.  0 in a gmp_mutex, as are RPARKED and DRAIN
 */
#ifndef GMP_MUTEX_H
#define GMP_MUTEX_H

#include "parkinglot.h"

enum {
	MUTEX_LOCKED = 1,
	MUTEX_PARKED = 2,
	MUTEX_WOKEN = 4,
	MUTEX_STUCK = 8,
	RW_RPARKED = 16,
	RW_DRAIN = 32,
	RW_READER = 64,
};

/* Where in the table a thread waits: the object's address and so many bytes. */
enum { RW_READERS_KEY = 1, MUTEX_KEY = 2, RW_DRAIN_KEY = 3, WAIT_KEYS = 3 };

static inline const void *rw_readers(const gmp_mutex *m)
{
	return (const char *)m + RW_READERS_KEY;
}

static inline const void *rw_drain(const gmp_mutex *m)
{
	return (const char *)m + RW_DRAIN_KEY;
}

/* The object of a key. */
static inline gmp_mutex *wait_key_mutex(const void *key)
{
	return (gmp_mutex *)((uintptr_t)key & ~(uintptr_t)WAIT_KEYS);
}

/* s is a word with LOCKED set, *spins how often the caller has spun: spin a little, if the owner can run
 * meanwhile.  False: park. */
bool mutex_spin(uint32_t s, int *spins);

/* Set LOCKED, if need be by waiting in the queue of m; why is a reason, perhaps with UNCANCELLABLE.  Returns 0, also
 * while readers hold it, or as wait_on without LOCKED. */
int mutex_lock_slow(gmp_mutex *m, unsigned why, int64_t deadline);

/* Clear LOCKED, which the caller has set: let all queued readers in, then wake the first waiter or hand LOCKED
 * over to it.  m may be gone when it returns. */
int mutex_unlock_slow(gmp_mutex *m);

#endif
