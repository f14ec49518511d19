/* SPDX-License-Identifier: MIT */
/*
 * Spinlock: excludes Ms from each other for the few instructions that a queue operation takes.
 *
 * lock exchanges the word; unlock is a plain release store. So an uncontended pair costs one locked
 * instruction. In exchange, the holder does not know whether threads wait. A waiter therefore spins
 * with backoff, then yields its CPU, then sleeps for NAP_NS at a time, and re-checks the word after
 * each step. This suits critical sections of at most a few hundred instructions that never wait.
 * Longer ones use the waiters of floor 4 (parkinglot.h).
 *
 * Invariants
 *   LOCK-1  A critical section neither switches green threads nor calls user code. The exception is
 *           the commit step of park.c: the lock passes from the G to g0, which unlocks it. Debug
 *           builds check this at the start of a switch (switch_check).
 *   LOCK-2  Locks are taken in the order of lockrank.def. The exception is a try that does not wait
 *           (try_lock_against). Debug builds check this.
 *
 * Rejected
 *   A futex word with a bit for sleepers: a second locked instruction at each unlock, for sections
 *   that are contended once in ten thousand times.
 *   A ticket lock: throughput collapses if the kernel preempts the holder.
 */
#ifndef GMP_LOCK_H
#define GMP_LOCK_H

#include "base/atomic.h"
#include "base/base.h"
#include "base/tls.h"

/*
 * State of a lock's word. All-zero bytes are a free lock.
 *
 *   FREE    no thread holds the lock
 *   TAKEN   a thread holds it. Only lock, try_lock and try_lock_against write it, by an exchange;
 *           only the holder writes FREE, by unlock
 *   POISON  (object.h) the object that contains the lock was freed; an exchange that finds it ends
 *           the process
 */
enum { LOCK_FREE = 0, LOCK_TAKEN = 1 };

struct lock {
	uint32_t word; /* (a) LOCK_FREE, LOCK_TAKEN */
};

enum lockrank {
#define LOCKRANK(name, several) name,
#include "base/lockrank.def"
#undef LOCKRANK
};

/*
 * Wait for the lock and take it. was: the word before the caller's exchange set it to LOCK_TAKEN;
 * POISON ends the process. most_pauses: upper bound of the backoff, in cpu_relax calls.
 */
void gmp__lock_slow(struct lock *l, unsigned most_pauses, uint32_t was);

/* Debug builds: check LOCK-2 and note l as held; note it without the check; forget it; check that
 * the calling thread holds none (LOCK-1). */
void gmp__lock_check(struct lock *l, enum lockrank rank);
void gmp__lock_note(struct lock *l, enum lockrank rank);
void gmp__unlock_check(enum lockrank rank);
void gmp__switch_check(void);

#ifdef GMP_DEBUG_CHECKS
#define lock_check(l, rank) gmp__lock_check(l, rank)
#define lock_note(l, rank) gmp__lock_note(l, rank)
#define unlock_check(rank) gmp__unlock_check(rank)
#define switch_check() gmp__switch_check()
#else
#define lock_check(l, rank) ((void)(rank))
#define lock_note(l, rank) ((void)(rank))
#define unlock_check(rank) ((void)(rank))
#define switch_check() ((void)0)
#endif

/*
 * Upper bound of the backoff between two checks of a contended lock, in cpu_relax calls.
 *
 * A check takes the cache line of the lock from the holder. If it succeeds, the lines of the
 * guarded data move too. A channel that two threads use alternately moves less often if the
 * interval doubles after each check. For a lock that is rarely taken again soon, a long interval is
 * lost time.
 */
static inline unsigned lock_most_pauses(enum lockrank rank)
{
	return rank == LR_CHAN ? 64 : 8;
}

static inline void lock(struct lock *l, enum lockrank rank)
{
	lock_check(l, rank);
	uint32_t was = xchg_acq(&l->word, LOCK_TAKEN); /* ORD(lock): pairs with unlock */

	if (unlikely(was != LOCK_FREE))
		gmp__lock_slow(l, lock_most_pauses(rank), was);
}

/* Take the lock if it is free. Returns false if it is not. */
static inline bool try_lock(struct lock *l, enum lockrank rank)
{
	if (ld_rlx(&l->word) || xchg_acq(&l->word, LOCK_TAKEN)) /* ORD(lock) */
		return false;
	lock_check(l, rank);
	return true;
}

/* try_lock against the order (LOCK-2): a failed try does not wait, so it cannot cause a deadlock.
 */
static inline bool try_lock_against(struct lock *l, enum lockrank rank)
{
	if (ld_rlx(&l->word) || xchg_acq(&l->word, LOCK_TAKEN)) /* ORD(lock) */
		return false;
	lock_note(l, rank);
	return true;
}

static inline void unlock(struct lock *l, enum lockrank rank)
{
	unlock_check(rank);
	st_rel(&l->word, LOCK_FREE); /* ORD(lock): the next holder sees the section's writes */
}

/* Wait until the last holder has unlocked l. For the owner of the guarded memory before it frees
 * it; no thread may take the lock any more. */
static inline void lock_end(struct lock *l, enum lockrank rank)
{
	if (unlikely(ld_acq(&l->word))) { /* ORD(lock) */
		lock(l, rank);
		unlock(l, rank);
	}
}

#endif
