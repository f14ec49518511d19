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
 *  X3 While LOCKED and PARKED, only the holder, in unlock, under the bucket's lock, changes LOCKED.
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

/* A little patience pays only if the holder can run meanwhile. */
static bool may_spin(int spins)
{
	return spins < SPINS && sched.cpus > 1 && ld_rlx(&sched.procs) > 1;
}

/* Under the bucket's lock, with one claimed to compete: the word says so, and who else waits. */
static void add_woken(struct bucket *b, gmp_mutex *m)
{
	uint32_t s = ld_rlx(&m->state), bits = WOKEN | (sema_first(b, m) ? PARKED : 0);

	while (!cas_rlx(&m->state, &s, (s & ~(uint32_t)PARKED) | bits))
		;
}

/* Set PARKED and queue up; false if the lock has come free meanwhile. */
static bool enqueue(struct bucket *b, gmp_mutex *m, struct sudog *sg, bool woken)
{
	uint32_t s = ld_rlx(&m->state);

	do {
		if (!(s & LOCKED))
			return false;
	} while (!cas_rlx(&m->state, &s, (s | PARKED) & ~(woken ? (uint32_t)WOKEN : 0)));
	sema_enqueue(b, m, sg, woken);
	return true;
}

/* The wait is over without the lock.  One that was woken to compete, and is dropped before it could,
 * gives its turn to the next. */
static void mutex_unwait(struct waiter *w)
{
	struct sudog *sg = waiter_sudog(w);
	gmp_mutex *m = (gmp_mutex *)(uintptr_t)sg->key;

	if (ld_acq(&sg->queued)) { /* ORD(sudog.queued) */
		sema_unwait(w);
		return;
	}
	if (waiter_result(ld_rlx(&w->state)) != 0)
		return;
	struct glist out = { 0 };
	struct bucket *b = sema_lock(m);
	uint32_t s = ld_rlx(&m->state);

	while (!cas_rlx(&m->state, &s, s & ~(uint32_t)WOKEN))
		;
	if (!(s & LOCKED) && sema_wake_first(b, m, 0, &out))
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

	while ((sg = sema_first(b, m))) {
		bool starving = rt_now() - sg->since > STARVING_NS;
		bool won = waiter_claim(sg->w, starving ? HANDED_OVER : 0);

		sema_dequeue(b, sg); /* W5 */
		if (!won)
			continue;
		uint32_t rest = (starving ? LOCKED : WOKEN) | (sema_first(b, m) ? PARKED : 0);

		st_rel(&m->state, rest); /* ORD(mutex); X3: nobody else changes it here */
		sema_unlock(b);
		ready(sg->w);
		return 0;
	}
	st_rel(&m->state, 0); /* ORD(mutex): those who waited have given up */
	sema_unlock(b);
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
	if (likely(ld_rlx(&m->state) == LOCKED) &&
	    likely(cas_rel(&m->state, &s, 0))) /* ORD(mutex): the last touch */
		return 0;
	return unlock_slow(m);
}
