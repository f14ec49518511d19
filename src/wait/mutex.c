/* SPDX-License-Identifier: MIT */
/*
 * Mutex: barging lock, FIFO queue in the parking table, paced hand-over against starvation.
 *
 * State word: mutex.h.  Next to it, for reports, the token of the owner (sync.h); it may be 0 while
 * LOCKED is set.  The slow paths also serve the word of an rwmutex (rwmutex.c).  Unlock by a plain
 * store, the fast path: mutex_unlock.c.
 *
 *   lock                                          unlock
 *    1 the word is 0?  compare-and-swap LOCKED     1 the word is LOCKED alone?  clear it
 *    2 spin a few times                            2 WOKEN is set, or no waiter is queued?  clear
 *    3 lock the bucket; LOCKED is set?  set          LOCKED by compare-and-swap
 *      PARKED, enqueue, unlock the bucket, park;   3 otherwise lock the bucket; claim the first
 *      otherwise unlock the bucket, from 1           waiter
 *    4 woken: compete, from 1, and enqueue at      4 it is overdue?  leave LOCKED set: handed over;
 *      the front if another thread won               otherwise clear LOCKED, set WOKEN
 *    5 handed over: the lock is owned              5 unlock the bucket, ready the waiter
 *
 * Invariants
 *   MUTEX-1  PARKED is set under the bucket lock, by a compare-and-swap to a word with LOCKED or
 *            WOKEN set, and cleared under it.  So unlock of a word with PARKED locks the bucket,
 *            unless a woken waiter competes, and no wakeup is lost.  Unlock by a plain store may
 *            overwrite PARKED; it then repairs the word (UNLOCK-1).
 *   -        Lock and unlock read the word and compare-and-swap the value that they have read.
 *            WOKEN may stay set until the woken waiter gets a P; a compare-and-swap that expects a
 *            word without WOKEN would fail until then.
 *   MUTEX-3  While LOCKED is set, only its owner clears it, in unlock, and WOKEN changes only under
 *            the bucket lock.
 *   MUTEX-4  Starvation: the first waiter is overdue STARVING_NS after its lock call, but not
 *            within the pace of the last hand-over: PACE_GREEN_NS if that was to a green thread,
 *            PACE_THREAD_NS if to an external thread.  mutex_dequeue raises the due time of each
 *            new first waiter accordingly.
 *   MUTEX-5  A green thread that is handed the lock is the next G of the unlocker's P.  An idle P
 *            is woken as well, to steal it, in case the unlocker does not park soon or its OS
 *            thread does not run.
 *
 * Fairness
 *   Normal mode: unlock frees the word and wakes the first waiter, which competes with running
 *   threads.  These are on a CPU and mostly win, which is good for throughput.
 *   Starvation mode: if the first waiter is overdue (MUTEX-4), unlock leaves LOCKED set and hands
 *   the lock over.
 *   Bound: with k waiters ahead of it, a waiter has the lock at the latest STARVING_NS + k * pace
 *   after its call, rounded up k + 1 times to the next unlock, since only an unlock hands over.  An
 *   unlock does not count while WOKEN is set, that is, until the woken waiter has run.
 *   The pace bounds the cost of hand-overs.  Each is two switches, and a wakeup by the kernel if
 *   the waiter is an external thread; until the waiter runs, no thread can use the lock.  If the
 *   lock is held for longer than the pace, every unlock hands over to the next overdue waiter.
 *
 * Measured (20,000 green threads, 2 million locks held for some ns, 2 Ps, medians of 9 runs): 11 ns
 * per lock on an idle machine (Go 46), next to two busy processes 41 (Go 41; 27 runs).
 *
 * Rejected
 *   A hand-over at each unlock while the first waiter is older than 1 ms: 330 to 610 ns per lock,
 *   890 next to two busy processes.  Every G parks after one lock, so a queue longer than 1 ms
 *   never drains.
 *   Parking as soon as another waiter is parked, instead of spinning: 27 ns.  The lock becomes free
 *   while the bucket is being locked, so the Ps contend for the bucket lock as well.
 *   Spinning without STUCK: 12 ns, but 68 next to two busy processes.  While the CPU of the owner
 *   runs another process, each G of the other P spins before it parks.
 */
#include "wait/mutex.h"

#include <errno.h>

#include "base/throw.h"
#include "proc.h"
#include "ready.h"
#include "variant/variant.h"
#include "wait/sync.h"
#include "waiter.h"

enum { LOCKED = MUTEX_LOCKED, PARKED = MUTEX_PARKED, WOKEN = MUTEX_WOKEN, STUCK = MUTEX_STUCK };
enum { RPARKED = RW_RPARKED, DRAIN = RW_DRAIN, READER = RW_READER };

/* Bits that end with the hold. */
enum { OF_HOLD = LOCKED | STUCK | DRAIN };

/* Result of a wait that ended with the lock handed over. */
enum { HANDED_OVER = -EALREADY };

/* Lock m by a compare-and-swap of its word; false if the word is not `from` any more. */
static bool mutex_take(gmp_mutex *m, uint32_t from, uint32_t to)
{
	if (!cas_acq(&m->state, &from, to)) /* ORD(mutex): with the release in unlock */
		return false;
	st_rlx(&m->owner, gmp__self_token());
	return true;
}

/* PARKED if a waiter is queued, otherwise 0.  Under the bucket lock. */
static uint32_t parked_bit(struct bucket *b, const gmp_mutex *m)
{
	return lot_first(b, mutex_queue(m)) ? PARKED : 0;
}

bool mutex_spin(uint32_t s, int *spins)
{
	if (s & STUCK || *spins == MUTEX_SPINS || sched.cpus < 2 || ld_rlx(&sched.procs) < 2)
		return false;
	for (int i = 0; i < MUTEX_PAUSES; i++)
		cpu_relax();
	++*spins;
	return true;
}

void mutex_set_woken(struct bucket *b, gmp_mutex *m)
{
	uint32_t s = ld_rlx(&m->state), bits = WOKEN | parked_bit(b, m);

	while (!cas_rlx(&m->state, &s, (s & ~(uint32_t)PARKED) | bits))
		;
}

/*
 * Set PARKED and enqueue sg, at the front if it was woken before.  Returns false if m is free.
 * Under the bucket lock.
 */
static bool mutex_enqueue(struct bucket *b, gmp_mutex *m, struct sudog *sg, bool woken)
{
	lot_mark_contended(b);
	uint32_t s = ld_rlx(&m->state);

	do {
		if (!(s & LOCKED))
			return false;
	} while (!cas_rlx(&m->state, &s, (s | PARKED | STUCK) & ~(woken ? (uint32_t)WOKEN : 0)));
	lot_enqueue(b, mutex_queue(m), sg, woken);
	return true;
}

/* MUTEX-4: least time between a hand-over to sg and the next one, in ns. */
static int64_t mutex_pace(const struct sudog *sg)
{
	return sg->w->gp ? PACE_GREEN_NS : PACE_THREAD_NS;
}

/*
 * Dequeue sg, which is claimed (PARK-5).  If it was the first waiter, the next one is not overdue
 * before `due` (MUTEX-4).  Returns the first waiter that is left.  Under the bucket lock.
 */
static struct sudog *mutex_dequeue(struct bucket *b, const gmp_mutex *m, struct sudog *sg,
				   int64_t due)
{
	bool first = sg == lot_first(b, mutex_queue(m));

	lot_dequeue(b, sg);
	struct sudog *next = lot_first(b, mutex_queue(m));

	if (first && next)
		next->due = max_of(next->due, due);
	return next;
}

/* Dequeue sg, whose wait has timed out or was cancelled. */
static void mutex_give_up(gmp_mutex *m, struct sudog *sg)
{
	struct bucket *b = lot_lock(m);

	if (sg->queued)
		mutex_dequeue(b, m, sg, sg->due);
	lot_unlock(b);
}

/*
 * Undo a wait: dequeue the waiter if it gave up.  If shutdown kills it after it was woken to
 * compete, wake the next waiter in its place; if it was handed the lock, unlock.  Also called, with
 * nothing to undo, when a waiter that is not killed resumes with HANDED_OVER.
 */
static void mutex_unwait(struct waiter *w)
{
	struct sudog *sg = waiter_sudog(w);
	gmp_mutex *m = wait_key_mutex(sg->key);

	if (ld_acq(&sg->queued)) { /* ORD(sudog.queued) */
		mutex_give_up(m, sg);
		return;
	}
	int result = waiter_result(ld_rlx(&w->state));

	/* Caution: if m was on the stack of a G that has ended, its word is arbitrary by now */
	if (result == HANDED_OVER && waiter_killed(w) && ld_rlx(&m->state) & LOCKED)
		mutex_unlock_slow(m);
	if (result)
		return;
	struct glist out = { 0 };
	struct bucket *b = lot_lock(m);
	uint32_t s = ld_rlx(&m->state);

	while (!cas_rlx(&m->state, &s, s & ~(uint32_t)WOKEN))
		;
	if (!(s & LOCKED) && lot_wake_first(b, mutex_queue(m), 0, &out))
		mutex_set_woken(b, m);
	lot_unlock_ready(b, &out);
}

noinline int mutex_lock_slow(gmp_mutex *m, unsigned why, int64_t deadline)
{
	struct external f;
	struct sudog *sg = NULL;
	bool woken = false;

	for (int spins = 0;;) {
		uint32_t s = ld_rlx(&m->state);

		if (!(s & LOCKED)) {
			if (mutex_take(m, s, (s | LOCKED) & ~(woken ? (uint32_t)WOKEN : 0)))
				return 0;
			continue;
		}
		if (mutex_spin(s, &spins))
			continue;
		if (!sg) {
			sg = self_sudog(&f);
			sg->due = rt_now() + STARVING_NS;
		}
		struct bucket *b = lot_lock(m);

		if (!mutex_enqueue(b, m, sg, woken)) {
			lot_unlock(b);
			continue;
		}
		int result = lot_wait(b, sg, why, mutex_unwait, deadline);

		if (result == HANDED_OVER) {
			st_rlx(&m->owner, gmp__self_token());
			return 0;
		}
		if (result)
			return result;
		woken = true;
		spins = 0;
	}
}

/*
 * Claim and dequeue the first waiter that can be claimed; hand the lock over to it if it is
 * overdue.  Returns NULL if there is none.  *bits: the new flags of the word.  Under the bucket
 * lock.
 */
static struct waiter *mutex_claim_first(struct bucket *b, gmp_mutex *m, uint32_t *bits)
{
	struct sudog *sg;

	while ((sg = lot_first(b, mutex_queue(m)))) {
		int64_t now = rt_now();
		bool starving = now > sg->due;
		bool won = waiter_claim(sg->w, starving ? HANDED_OVER : 0);
		int64_t due = won && starving ? now + mutex_pace(sg) : sg->due;
		struct sudog *next = mutex_dequeue(b, m, sg, due);

		if (!won)
			continue;
		*bits = (starving ? LOCKED | STUCK : WOKEN) | (next ? PARKED : 0);
		return sg->w;
	}
	*bits = 0; /* all waiters gave up */
	return NULL;
}

noinline int mutex_unlock_slow(gmp_mutex *m)
{
	uint32_t s = ld_rlx(&m->state);

	while (s & LOCKED && !(s & RPARKED) && (s & WOKEN || !(s & PARKED))) {
		if (cas_rel(&m->state, &s, s & ~(uint32_t)OF_HOLD)) /* ORD(mutex) */
			return 0; /* the woken waiter competes, or there is none */
	}
	if (!(s & LOCKED))
		gmp__fatal("unlock of mutex %p, which is not locked (unlocked twice, or a missing "
			   "lock?)",
			   (void *)m);
	struct glist in = { 0 };
	struct bucket *b = lot_lock(m);
	struct waiter *w = NULL;
	uint32_t n = 0, bits;

	s = ld_rlx(&m->state);
	if (s & RPARKED)
		n = lot_wake_all(b, rw_readers(m), &in);
	if (s & WOKEN)
		bits = s & (PARKED | WOKEN); /* MUTEX-3 */
	else
		w = mutex_claim_first(b, m, &bits);
	bool handed_over = bits & LOCKED && w->gp;

	while (!cas_rel(&m->state, &s, (s / READER + n) * READER + bits)) /* ORD(mutex) */
		;
	lot_unlock_ready(b, &in);
	if (w)
		ready(w);
	if (handed_over && getp())
		wake_if_idle(); /* MUTEX-5 */
	return 0;
}

int gmp_mutex_lock(gmp_mutex *m)
{
	chaos_point();
	if (likely(ld_rlx(&m->state) == 0) && likely(mutex_take(m, 0, LOCKED)))
		return 0;
	return mutex_lock_slow(m, WAIT_MUTEX | UNCANCELLABLE, NEVER);
}

int gmp_mutex_try_lock(gmp_mutex *m)
{
	uint32_t s = ld_rlx(&m->state);

	while (!(s & LOCKED)) {
		if (mutex_take(m, s, s | LOCKED))
			return 0;
		s = ld_rlx(&m->state);
	}
	return -EAGAIN;
}

int gmp_mutex_lock_until(gmp_mutex *m, int64_t deadline)
{
	chaos_point();
	if (likely(mutex_take(m, 0, LOCKED)))
		return 0;
	int late = too_late(deadline);

	if (late)
		return gmp_mutex_try_lock(m) ? late : 0;
	return mutex_lock_slow(m, WAIT_MUTEX, deadline);
}
