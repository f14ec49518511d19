/* SPDX-License-Identifier: MIT */
/*
 * Unlock of a mutex by a plain store: an asymmetric fence protocol with the parking table.
 *
 * A locked instruction in unlock would be half the cost of an uncontended lock and unlock.  The
 * parking table keeps one byte per bucket that says "uncontended": no mutex waiter hashes to this
 * bucket (LOT-5).  While the bucket of a mutex is uncontended, unlock stores 0 without a
 * locked instruction, and checks the byte again afterwards.  The first waiter of an uncontended
 * bucket pays for that with a membarrier(2).
 *
 *   gmp_mutex_unlock, by the owner              mutex_enqueue, by a waiter (mutex.c)
 *    1 the word is LOCKED alone and the bucket   1 lock the bucket
 *      is uncontended?  otherwise compare-and-   2 mark the bucket as contended
 *      swap or mutex_unlock_slow                 3 heavy fence (membarrier)   ORD(uncontended)
 *    2 word = 0, a plain store with release      4 LOCKED is set?  set PARKED, enqueue;
 *    3 light fence          ORD(uncontended)       otherwise unlock the bucket, retry the lock
 *    4 the bucket is still uncontended?  done    5 unlock the bucket, park
 *    5 otherwise unlock_repair: lock the
 *      bucket; a waiter is queued?
 *        LOCKED or WOKEN is set: set PARKED
 *        the word is free: wake the first waiter
 *
 * No lost wakeup.  The heavy fence takes effect before or after the store of step 2, in the program
 * order of the owner.
 *   Store before the fence: step 4 of the waiter reads the 0, or the word of a later lock.  The
 *   same argument applies to that later owner.
 *   Store after the fence: so is step 4 of the owner.  It reads the bucket as contended and repairs
 *   what the store has overwritten.  A thread that locks between the store and the repair acquires
 *   the contended mark with the word, so it unlocks by compare-and-swap and keeps PARKED.
 * sysmon marks a bucket as uncontended again only while it is empty, under the bucket lock.
 *
 * Invariants
 *   UNLOCK-1  The store can only overwrite PARKED and STUCK, set by mutex_enqueue after step 1.  If
 *             it has overwritten PARKED, the store came after the fence of the waiter, and
 *             unlock_repair sets PARKED again or wakes the waiter.  STUCK ends with the hold
 *             anyway.  WOKEN is never overwritten: it is set only after a waiter was queued, so
 *             after a fence, and an owner that locks later reads the bucket as contended in step 1.
 *   UNLOCK-2  Lifetime: the mutex may be freed as soon as the store is visible.  Steps 4 and 5 use
 *             its address only as a key, with the offset MUTEX_KEY, which no other kind of object
 *             uses.  If a waiter is queued under that key, a live mutex is at that address, this
 *             one or a later one, and a repair of it is correct.
 *
 * An rwmutex does not use the store: readers change the word while LOCKED is set.
 *
 * Verified by model/mutex.pml with -DQUICK.  Lost wakeup without step 3 of the waiter: mutant
 * NO_FENCE; without step 4 of the owner: mutant NO_RECHECK_IN_UNLOCK.
 */
#include "wait/mutex.h"

enum { LOCKED = MUTEX_LOCKED, PARKED = MUTEX_PARKED, WOKEN = MUTEX_WOKEN };

/* Step 5.  m may have been freed, unless a waiter is queued at its address (UNLOCK-2). */
static noinline int unlock_repair(gmp_mutex *m)
{
	struct glist out = { 0 };
	struct bucket *b = lot_lock(m);

	if (lot_first(b, mutex_queue(m))) {
		uint32_t s = ld_rlx(&m->state);

		while (s & (LOCKED | WOKEN) && !cas_rlx(&m->state, &s, s | PARKED))
			;
		if (!(s & (LOCKED | WOKEN)) && lot_wake_first(b, mutex_queue(m), 0, &out))
			mutex_set_woken(b, m);
	}
	lot_unlock_ready(b, &out);
	return 0;
}

int gmp_mutex_unlock(gmp_mutex *m)
{
	uint32_t s = LOCKED;

	st_rlx(&m->owner, 0);
	if (unlikely(ld_rlx(&m->state) != LOCKED))
		return mutex_unlock_slow(m);
	if (likely(lot_is_uncontended(m))) {
		st_rel(&m->state, 0); /* ORD(mutex): the last access */
		fence_light();        /* ORD(uncontended) */
		return likely(lot_is_uncontended(m)) ? 0 : unlock_repair(m);
	}
	if (likely(cas_rel(&m->state, &s, 0))) /* ORD(mutex): the last access */
		return 0;
	return mutex_unlock_slow(m);
}
