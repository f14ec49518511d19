/* SPDX-License-Identifier: MIT */
/*
 * How do Ms exclude each other for the few instructions that a queue takes?
 *
 * A word: exchange to take, a plain release store to drop, so that an uncontended pair costs one
 * locked instruction.  The price: the one who drops it cannot know of sleepers, so those who wait
 * spin a little, then yield the CPU, then sleep for microseconds and look again.  That is right
 * for sections that never wait and are a few hundred instructions at most; anything longer is for
 * the waiters of floor 4.
 *
 * Invariants
 *  L1 A section neither switches green threads nor calls user code.  The one exception is the
 *     commit step of park.c, where the lock goes with the thread from G to g0 and is dropped there.
 *     Debug builds check it where the scheduler begins (switch_check).
 *  L2 Locks are taken in the order of lockrank.def, but for a try that does not wait
 *     (try_lock_against).  Debug builds check it.
 *
 * Rejected: a futex word with a sleepers bit (a second locked instruction at each unlock, for
 * sections that are contended once in ten thousand times); a ticket lock (collapses when the
 * holder's CPU is taken away).
 */
#ifndef GMP_LOCK_H
#define GMP_LOCK_H

#include "base/atomic.h"
#include "base/base.h"
#include "base/tls.h"

struct lock {
	uint32_t word; /* (a) 0 free, 1 taken; zero bytes are a free lock */
};

enum lockrank {
#define LOCKRANK(name, several) name,
#include "base/lockrank.def"
#undef LOCKRANK
};

/* `was`: what the word held before it was set to 1. */
void gmp__lock_slow(struct lock *l, unsigned most_pauses, uint32_t was);
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
 * How long one who waits looks away at most between two looks, in pauses of the CPU.  A look takes the
 * line from the holder, and if the one who looks wins, all that the lock guards goes with it.  What
 * two use again and again, as a channel, is handed to and fro less often if it looks twice as late
 * after each look; where a section is the only one for long, that is time lost.
 */
static inline unsigned lock_most_pauses(enum lockrank rank)
{
	return rank == LR_CHAN ? 64 : 8;
}

static inline void lock(struct lock *l, enum lockrank rank)
{
	lock_check(l, rank);
	uint32_t was = xchg_acq(&l->word, 1); /* ORD(lock): pairs with the store in unlock */

	if (unlikely(was != 0))
		gmp__lock_slow(l, lock_most_pauses(rank), was);
}

static inline bool try_lock(struct lock *l, enum lockrank rank)
{
	if (ld_rlx(&l->word) || xchg_acq(&l->word, 1)) /* ORD(lock) */
		return false;
	lock_check(l, rank);
	return true;
}

/* Against the order (L2): a try that fails goes away, so it closes no circle. */
static inline bool try_lock_against(struct lock *l, enum lockrank rank)
{
	if (ld_rlx(&l->word) || xchg_acq(&l->word, 1)) /* ORD(lock) */
		return false;
	lock_note(l, rank);
	return true;
}

static inline void unlock(struct lock *l, enum lockrank rank)
{
	unlock_check(rank);
	st_rel(&l->word, 0); /* ORD(lock): what the section did is seen by the next holder */
}

/* Before what it protects is freed, by one who knows that nobody will take it any more: whoever still has
 * it drops it first. */
static inline void lock_end(struct lock *l, enum lockrank rank)
{
	if (unlikely(ld_acq(&l->word))) { /* ORD(lock) */
		lock(l, rank);
		unlock(l, rank);
	}
}

#endif
