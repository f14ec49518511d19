/* SPDX-License-Identifier: MIT */
/*
 * How do many take turns, fast when nobody contends and fair when somebody has waited long?
 *
 * The word: LOCKED, PARKED (somebody stands in the table's queue), WOKEN (one that was woken to
 * compete has not decided yet: no need to wake another).  Beside it, for reports, who holds it.
 *
 * Invariants
 *  X1 PARKED is set under the bucket's lock, by one who finds LOCKED there; it is cleared under it.
 *     So the unlocker of a word with PARKED goes by the bucket, and nobody is left asleep.
 *  X2 Between the fast unlock, which needs the word to be LOCKED alone, and a lock there is nothing.
 *     Both look before they swap: WOKEN may stand for as long as the one that was woken has no P, and
 *     swaps that expect the bare word would be in vain all that time.
 *  X3 While LOCKED and PARKED, only the holder, in unlock, changes LOCKED: under the bucket's lock,
 *     or by the plain store of X4.
 *  X4 The plain store may wipe out bits that others have set since the look; whoever made such a store
 *     while somebody waited sees that the bucket is not calm, and mends the word.
 *
 * Unlock without a locked instruction, which would be half of what an uncontended turn costs
 *
 *   the holder                               who is to queue up, with the bucket locked
 *    1 the word is LOCKED, the bucket calm?   1 the bucket is not calm any more
 *    2 word = 0, a plain store                2 heavy fence (membarrier)              ORD(calm)
 *    3 light fence           ORD(calm)        3 LOCKED? then set PARKED, queue up
 *    4 the bucket still calm? done            4 unlock the bucket, sleep
 *    5 else lock the bucket; somebody waits?
 *      locked anew: set PARKED; free: wake one
 *
 *   If the store comes before the fence, step 3 on the right sees it, or a newer lock.  If it comes
 *   after, so does the look of step 4.  Who locks after the store has seen all that the fence has made
 *   visible, so it unlocks by a locked instruction.  The word may be gone after step 2: its address
 *   serves as a key, which no other kind of object uses, and if somebody waits at it it is a mutex that is
 *   alive, this one or another.
 *
 * Normal mode: unlock frees the word and wakes the first, which competes with newcomers; they are
 * on a CPU and mostly win, which is good for throughput.  If it loses it goes back to the front.
 * Starvation: an unlocker that finds that the first has waited for more than 1 ms leaves the word
 * LOCKED and hands it over.
 */
#include <errno.h>

#include "base/os.h"
#include "base/throw.h"
#include "chaos.h"
#include "proc.h"
#include "sema.h"
#include "sync/sync.h"

enum { LOCKED = MUTEX_LOCKED, PARKED = 2, WOKEN = 4 };
enum { SPINS = 4, SPIN_PAUSES = 30, STARVING_NS = 1000000 };

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
	return sema_first(b, queue_of(m)) ? PARKED : 0;
}

/* A little patience pays only if the holder can run meanwhile. */
static bool may_spin(int spins)
{
	return spins < SPINS && sched.cpus > 1 && ld_rlx(&sched.procs) > 1;
}

/* Under the bucket's lock, with one claimed to compete: the word says so, and who else waits. */
static void add_woken(struct bucket *b, gmp_mutex *m)
{
	uint32_t s = ld_rlx(&m->state), bits = WOKEN | parked_bit(b, m);

	while (!cas_rlx(&m->state, &s, (s & ~(uint32_t)PARKED) | bits))
		;
}

/* Set PARKED and queue up; false if the lock has come free meanwhile. */
static bool enqueue(struct bucket *b, gmp_mutex *m, struct sudog *sg, bool woken)
{
	sema_stir(b);
	uint32_t s = ld_rlx(&m->state);

	do {
		if (!(s & LOCKED))
			return false;
	} while (!cas_rlx(&m->state, &s, (s | PARKED) & ~(woken ? (uint32_t)WOKEN : 0)));
	sema_enqueue(b, queue_of(m), sg, woken);
	return true;
}

/* The wait is over without the lock.  One that was woken to compete, and is dropped before it could,
 * gives its turn to the next; one that was handed the lock gives that. */
static void mutex_unwait(struct waiter *w)
{
	struct sudog *sg = waiter_sudog(w);
	gmp_mutex *m = (gmp_mutex *)((uintptr_t)sg->key - MUTEX_KEY);

	if (ld_acq(&sg->queued)) { /* ORD(sudog.queued) */
		sema_unwait(w);
		return;
	}
	int result = waiter_result(ld_rlx(&w->state));

	/* Tricky: what lay on the stack of one that has ended may hold anything by now */
	if (result == HANDED_OVER && waiter_dropped(w) && ld_rlx(&m->state) & LOCKED)
		gmp_mutex_unlock(m);
	if (result)
		return;
	struct glist out = { 0 };
	struct bucket *b = sema_lock(m);
	uint32_t s = ld_rlx(&m->state);

	while (!cas_rlx(&m->state, &s, s & ~(uint32_t)WOKEN))
		;
	if (!(s & LOCKED) && sema_wake_first(b, queue_of(m), 0, &out))
		add_woken(b, m);
	sema_unlock(b);
	ready_list(&out);
}

static noinline int lock_slow(gmp_mutex *m, unsigned uncut, int64_t deadline)
{
	struct foreign f;
	struct sudog *sg = NULL;
	bool woken = false;

	for (int spins = 0;;) {
		uint32_t s = ld_rlx(&m->state);

		if (!(s & LOCKED)) {
			if (take(m, s, (s | LOCKED) & ~(woken ? (uint32_t)WOKEN : 0)))
				return 0;
			continue;
		}
		if (!(s & PARKED) && may_spin(spins)) {
			for (int i = 0; i < SPIN_PAUSES; i++)
				cpu_relax();
			spins++;
			continue;
		}
		if (!sg) {
			sg = self_sudog(&f);
			sg->since = rt_now();
		}
		struct bucket *b = sema_lock(m);

		if (!enqueue(b, m, sg, woken)) {
			sema_unlock(b);
			continue;
		}
		int result = sema_wait(b, sg, WAIT_MUTEX | uncut, mutex_unwait, deadline);

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

static noinline int unlock_slow(gmp_mutex *m)
{
	uint32_t s = ld_rlx(&m->state);

	while ((s & (LOCKED | WOKEN)) == (LOCKED | WOKEN)) {
		if (cas_rel(&m->state, &s, s & ~(uint32_t)LOCKED)) /* ORD(mutex) */
			return 0; /* one is awake, and sees to itself */
	}
	if (!(s & LOCKED))
		gmp__fatal("unlock of an unlocked mutex");
	struct bucket *b = sema_lock(m);
	struct sudog *sg;

	while ((sg = sema_first(b, queue_of(m)))) {
		bool starving = rt_now() - sg->since > STARVING_NS;
		bool won = waiter_claim(sg->w, starving ? HANDED_OVER : 0);

		sema_dequeue(b, sg); /* W5 */
		if (!won)
			continue;
		uint32_t rest = (starving ? LOCKED : WOKEN) | parked_bit(b, m);

		st_rel(&m->state, rest); /* ORD(mutex); X3: nobody else changes it here */
		sema_unlock(b);
		ready(sg->w);
		return 0;
	}
	st_rel(&m->state, 0); /* ORD(mutex): those who waited have given up */
	sema_unlock(b);
	return 0;
}

/* Step 5: m may be gone, unless somebody waits there. */
static noinline int mend(gmp_mutex *m)
{
	struct glist out = { 0 };
	struct bucket *b = sema_lock(m);

	if (sema_first(b, queue_of(m))) {
		uint32_t s = ld_rlx(&m->state);

		while (s & (LOCKED | WOKEN) && !cas_rlx(&m->state, &s, s | PARKED))
			;
		if (!(s & (LOCKED | WOKEN)) && sema_wake_first(b, queue_of(m), 0, &out))
			add_woken(b, m);
	}
	sema_unlock(b);
	ready_list(&out);
	return 0;
}

int gmp_mutex_lock(gmp_mutex *m)
{
	chaos_point();
	if (likely(ld_rlx(&m->state) == 0) && likely(take(m, 0, LOCKED)))
		return 0;
	return lock_slow(m, UNCUT, NEVER);
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
	return lock_slow(m, 0, deadline);
}

int gmp_mutex_unlock(gmp_mutex *m)
{
	uint32_t s = LOCKED;

	st_rlx(&m->owner, 0);
	if (unlikely(ld_rlx(&m->state) != LOCKED))
		return unlock_slow(m);
	if (likely(sema_is_calm(m))) {
		st_rel(&m->state, 0); /* ORD(mutex): the last touch */
		fence_light();        /* ORD(calm) */
		return likely(sema_is_calm(m)) ? 0 : mend(m);
	}
	if (likely(cas_rel(&m->state, &s, 0))) /* ORD(mutex): the last touch */
		return 0;
	return unlock_slow(m);
}
