/* SPDX-License-Identifier: MIT */
/*
 * Mutex: barging lock with a FIFO queue in the parking table, and paced hand-over against starvation.
 *
 * The word: sync/mutex.h.  Beside it, for reports, the token of the owner.  The word of an rwmutex has readers
 * in it as well (rwmutex.c): lock and unlock by the bucket are the same for both; the fast unlock is not.
 *
 * Invariants
 *  X1 PARKED is set under the bucket's lock, by a thread that finds LOCKED set; it is cleared under that
 *     lock too.  So unlock of a word with PARKED takes the bucket's lock, and no wakeup is lost.
 *  X2 Between the fast unlock, which needs the word to be LOCKED alone, and a lock there is nothing.
 *     Both read the word before they swap: WOKEN may stay set until the woken waiter has a P, and a
 *     compare-and-swap that expects the word without WOKEN would fail during all that time.
 *  X3 While LOCKED is set, only the holder, in unlock, changes it: under the bucket's lock if a waiter is
 *     queued, or by the plain store of X4.  Nor does WOKEN change then while the bucket is locked.
 *  X4 The plain store may clear bits that other threads have set since the read.  A thread that made such a
 *     store while there was a waiter finds that the bucket is not calm, and repairs the word.
 *
 * Unlock without a locked instruction, which would be half the cost of an uncontended lock and unlock
 *
 *   the holder                               a thread that enqueues itself, with the bucket locked
 *    1 the word is LOCKED, the bucket calm?   1 the bucket is not calm any more
 *    2 word = 0, a plain store                2 heavy fence (membarrier)              ORD(calm)
 *    3 light fence           ORD(calm)        3 LOCKED? then set PARKED, queue up
 *    4 the bucket still calm? done            4 unlock the bucket, sleep
 *    5 else lock the bucket; is there a waiter?
 *      locked anew: set PARKED; free: wake one
 *
 *   If the store comes before the fence, step 3 on the right sees it, or a newer lock.  If it comes
 *   after, so does the read of step 4.  A thread that locks after the store has seen all that the fence has
 *   made visible, so it unlocks by a locked instruction.  Lifetime: the mutex may be freed after step 2.  Its
 *   address only serves as a key, which no other kind of object uses; if there is a waiter at that address,
 *   a live mutex is there, this one or another.
 *
 * Fairness
 *   Normal mode: unlock frees the word and wakes the first waiter, which competes with running threads.
 *   They are on a CPU and mostly win, which is good for throughput.  A waiter that loses goes back to the
 *   front of the queue.
 *   Starvation: if the first waiter is overdue, unlock leaves the word LOCKED and hands the lock over.
 *  X5 A waiter is overdue 1 ms after its lock call, but not before PACE_GREEN_NS (PACE_THREAD_NS) have
 *     passed since the mutex was last handed over to a green (external) thread.  dequeue passes the later of
 *     the two times on to each new first waiter.
 *     Bound: with k waiters ahead of it a waiter has the lock at the latest 1 ms + k × pace after its
 *     call, rounded up k + 1 times to the next unlock.  An unlock does not count while WOKEN is set: until
 *     the woken waiter has run.
 *     The pace bounds the cost of hand-overs: each is two switches, and a wakeup by the kernel if the
 *     waiter is an external thread.  Where the lock is held for longer than the pace, every unlock hands
 *     over to the next overdue waiter.
 *
 *  X6 A green thread that is handed the lock is its P's next, and an idle P is woken to steal it, should the
 *     unlocker not wait soon or its thread not run.
 *
 * Measured (20,000 green threads, 2 million locks held for some ns, 2 Ps, ns for each lock; medians of 9 runs,
 * beside two busy processes of 27): quiet 11 (Go 46), beside two busy processes 41 (Go 41).
 * Rejected
 *   A hand-over at each unlock while the first waiter is older than 1 ms: 330 to 610 ns for each lock, 890
 *   beside two busy processes.  Every G parks after one lock, so a queue of more than 1 ms never drains.
 *   Parking as soon as another waiter is parked, in place of spinning: 27 ns.  The lock comes free while the
 *   bucket is being locked, so the Ps contend for the bucket's lock as well.
 *   Spinning without STUCK: 12 ns, but 68 beside two busy processes: while the CPU of the owner runs
 *   another process, each G of the other P spins before it parks.
 *   A pace of 2 us: some 20 per cent slower; of 10, 50, 100 or 1000 us: no different from 20.
 *   A yield of the unlocker at each hand-over (Go): unlock would switch. Not measured.
 */
#include "sync/mutex.h"

#include <errno.h>

#include "base/os.h"
#include "base/throw.h"
#include "mode/chaos.h"
#include "proc.h"
#include "ready.h"
#include "sync/sync.h"

enum { LOCKED = MUTEX_LOCKED, PARKED = MUTEX_PARKED, WOKEN = MUTEX_WOKEN, STUCK = MUTEX_STUCK };
enum { RPARKED = RW_RPARKED, DRAIN = RW_DRAIN, READER = RW_READER };
enum { OF_HOLD = LOCKED | STUCK | DRAIN }; /* end with it */
enum { SPINS = 4, SPIN_PAUSES = 30 };
/* X5.  The pace is some hundred times the cost of a hand-over between green threads, and some ten times that
 * of waking a thread of the kernel's. */
enum { STARVING_NS = 1000000, PACE_GREEN_NS = 20000, PACE_THREAD_NS = 500000 };

/* What a wait returns that was handed the lock. */
enum { HANDED_OVER = -EALREADY };

static bool take(gmp_mutex *m, uint32_t from, uint32_t to)
{
	if (!cas_acq(&m->state, &from, to)) /* ORD(mutex): with the release in unlock */
		return false;
	st_rlx(&m->owner, gmp__self_token());
	return true;
}

/* K3, X4: a key that tells a mutex's queue from those of what may have its place in memory next. */
static const void *queue_of(const gmp_mutex *m)
{
	return (const char *)m + MUTEX_KEY;
}

/* Under the bucket's lock. */
static uint32_t parked_bit(struct bucket *b, const gmp_mutex *m)
{
	return lot_first(b, queue_of(m)) ? PARKED : 0;
}

bool mutex_spin(uint32_t s, int *spins)
{
	if (s & STUCK || *spins == SPINS || sched.cpus < 2 || ld_rlx(&sched.procs) < 2)
		return false;
	for (int i = 0; i < SPIN_PAUSES; i++)
		cpu_relax();
	++*spins;
	return true;
}

/* Under the bucket's lock, after a waiter was claimed to compete: set WOKEN, and PARKED if others wait. */
static void add_woken(struct bucket *b, gmp_mutex *m)
{
	uint32_t s = ld_rlx(&m->state), bits = WOKEN | parked_bit(b, m);

	while (!cas_rlx(&m->state, &s, (s & ~(uint32_t)PARKED) | bits))
		;
}

/* Set PARKED and queue up; false if the lock has come free meanwhile. */
static bool enqueue(struct bucket *b, gmp_mutex *m, struct sudog *sg, bool woken)
{
	lot_mark_contended(b);
	uint32_t s = ld_rlx(&m->state);

	do {
		if (!(s & LOCKED))
			return false;
	} while (!cas_rlx(&m->state, &s, (s | PARKED | STUCK) & ~(woken ? (uint32_t)WOKEN : 0)));
	lot_enqueue(b, queue_of(m), sg, woken);
	return true;
}

/* X5: how long after a hand-over to sg the next one may come. */
static int64_t pace(const struct sudog *sg)
{
	return sg->w->gp ? PACE_GREEN_NS : PACE_THREAD_NS;
}

/* Under the bucket's lock, after the claim (W5).  Returns the first waiter that is left.  If sg was the first,
 * that one is not overdue before `due` (X5). */
static struct sudog *dequeue(struct bucket *b, const gmp_mutex *m, struct sudog *sg, int64_t due)
{
	bool first = sg == lot_first(b, queue_of(m));

	lot_dequeue(b, sg);
	struct sudog *next = lot_first(b, queue_of(m));

	if (first && next)
		next->due = max_of(next->due, due);
	return next;
}

/* sg has timed out, or is cancelled. */
static void give_up(gmp_mutex *m, struct sudog *sg)
{
	struct bucket *b = lot_lock(m);

	if (sg->queued)
		dequeue(b, m, sg, sg->due);
	lot_unlock(b);
}

/* The wait ended without the lock.  A waiter that was woken to compete and is killed at shutdown before it
 * could, passes the wakeup on to the next waiter; a waiter that was handed the lock passes the lock on. */
static void mutex_unwait(struct waiter *w)
{
	struct sudog *sg = waiter_sudog(w);
	gmp_mutex *m = wait_key_mutex(sg->key);

	if (ld_acq(&sg->queued)) { /* ORD(sudog.queued) */
		give_up(m, sg);
		return;
	}
	int result = waiter_result(ld_rlx(&w->state));

	/* Tricky: if m was on the stack of a G that has ended, it may hold anything by now */
	if (result == HANDED_OVER && waiter_killed(w) && ld_rlx(&m->state) & LOCKED)
		mutex_unlock_slow(m);
	if (result)
		return;
	struct glist out = { 0 };
	struct bucket *b = lot_lock(m);
	uint32_t s = ld_rlx(&m->state);

	while (!cas_rlx(&m->state, &s, s & ~(uint32_t)WOKEN))
		;
	if (!(s & LOCKED) && lot_wake_first(b, queue_of(m), 0, &out))
		add_woken(b, m);
	lot_unlock(b);
	ready_list(&out);
}

noinline int mutex_lock_slow(gmp_mutex *m, unsigned why, int64_t deadline)
{
	struct external f;
	struct sudog *sg = NULL;
	bool woken = false;

	for (int spins = 0;;) {
		uint32_t s = ld_rlx(&m->state);

		if (!(s & LOCKED)) {
			if (take(m, s, (s | LOCKED) & ~(woken ? (uint32_t)WOKEN : 0)))
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

		if (!enqueue(b, m, sg, woken)) {
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

/* Under the bucket's lock: claim the first waiter; NULL if there is none.  *bits: the word's new bits. */
static struct waiter *claim_first(struct bucket *b, gmp_mutex *m, uint32_t *bits)
{
	struct sudog *sg;

	while ((sg = lot_first(b, queue_of(m)))) {
		int64_t now = rt_now();
		bool starving = now > sg->due;
		bool won = waiter_claim(sg->w, starving ? HANDED_OVER : 0);
		struct sudog *next = dequeue(b, m, sg, won && starving ? now + pace(sg) : sg->due);

		if (!won)
			continue;
		*bits = (starving ? LOCKED | STUCK : WOKEN) | (next ? PARKED : 0);
		return sg->w;
	}
	*bits = 0; /* all waiters have given up */
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
		gmp__fatal("unlock of an unlocked mutex");
	struct glist in = { 0 };
	struct bucket *b = lot_lock(m);
	struct waiter *w = NULL;
	uint32_t n = 0, bits;

	s = ld_rlx(&m->state);
	if (s & RPARKED)
		n = lot_wake_all(b, rw_readers(m), &in);
	if (s & WOKEN)
		bits = s & (PARKED | WOKEN); /* X3 */
	else
		w = claim_first(b, m, &bits);
	bool heir = bits & LOCKED && w->gp;

	while (!cas_rel(&m->state, &s, (s / READER + n) * READER + bits)) /* ORD(mutex) */
		;
	lot_unlock(b);
	ready_list(&in);
	if (w)
		ready(w);
	if (heir && getp())
		wake_if_idle(); /* X6 */
	return 0;
}

/* Step 5: m may have been freed, unless there is a waiter at its address. */
static noinline int mend(gmp_mutex *m)
{
	struct glist out = { 0 };
	struct bucket *b = lot_lock(m);

	if (lot_first(b, queue_of(m))) {
		uint32_t s = ld_rlx(&m->state);

		while (s & (LOCKED | WOKEN) && !cas_rlx(&m->state, &s, s | PARKED))
			;
		if (!(s & (LOCKED | WOKEN)) && lot_wake_first(b, queue_of(m), 0, &out))
			add_woken(b, m);
	}
	lot_unlock(b);
	ready_list(&out);
	return 0;
}

int gmp_mutex_lock(gmp_mutex *m)
{
	chaos_point();
	if (likely(ld_rlx(&m->state) == 0) && likely(take(m, 0, LOCKED)))
		return 0;
	return mutex_lock_slow(m, WAIT_MUTEX | UNCANCELLABLE, NEVER);
}

int gmp_mutex_try_lock(gmp_mutex *m)
{
	uint32_t s = ld_rlx(&m->state);

	while (!(s & LOCKED)) {
		if (take(m, s, s | LOCKED))
			return 0;
		s = ld_rlx(&m->state);
	}
	return -EAGAIN;
}

int gmp_mutex_lock_until(gmp_mutex *m, int64_t deadline)
{
	chaos_point();
	if (likely(take(m, 0, LOCKED)))
		return 0;
	int late = too_late(deadline);

	if (late)
		return gmp_mutex_try_lock(m) ? late : 0;
	return mutex_lock_slow(m, WAIT_MUTEX, deadline);
}

int gmp_mutex_unlock(gmp_mutex *m)
{
	uint32_t s = LOCKED;

	st_rlx(&m->owner, 0);
	if (unlikely(ld_rlx(&m->state) != LOCKED))
		return mutex_unlock_slow(m);
	if (likely(lot_is_uncontended(m))) {
		st_rel(&m->state, 0); /* ORD(mutex): the last touch */
		fence_light();        /* ORD(calm) */
		return likely(lot_is_uncontended(m)) ? 0 : mend(m);
	}
	if (likely(cas_rel(&m->state, &s, 0))) /* ORD(mutex): the last touch */
		return 0;
	return mutex_unlock_slow(m);
}
