/* SPDX-License-Identifier: MIT */
/*
 * Wait group: a counter, and a queue in the parking table of threads that wait until it is 0.
 *
 * State word
 *   bit  0       WAITERS: must be set if a waiter is queued; may be set although none is (the
 *                waiter gave up); clear while the counter is 0
 *   bits 1..31   0
 *   bits 32..63  counter, 0 to INT32_MAX
 *
 * Invariants
 *   -     WAITERS is set under the bucket lock, by a thread that reads the counter as above 0.
 *   WG-2  The counter becomes 0 by one compare-and-swap that clears WAITERS too.  If WAITERS was
 *         set, this happens under the bucket lock, and all waiters are dequeued.  Lifetime: it is
 *         the last access to the object, so a waiter that reads 0 may free it at once.
 *   WG-3  While the counter is 0, WAITERS is clear (WG-2), so an addition need not read the word
 *         first.
 *
 * Rejected: counting down by an addition too, as Go does.  The counter would be 0 with WAITERS
 * still set, and clearing WAITERS would be an access after the last.
 */
#include "base/throw.h"
#include "variant/variant.h"
#include "wait/parkinglot.h"

enum { WAITERS = 1 };

static int32_t counter(uint64_t s)
{
	return (int32_t)(s >> 32);
}

/* The word s after an addition of n, which is at most 0. */
static uint64_t wg_add(const gmp_wg *w, uint64_t s, int n)
{
	int64_t c = (int64_t)counter(s) + n;

	if (unlikely(c < 0))
		gmp__fatal("negative counter of wait group %p (gmp_wg_done called too often, or "
			   "before gmp_wg_add?)",
			   (const void *)w);
	return c == 0 ? 0 : (uint64_t)c << 32 | (s & WAITERS);
}

/* Add n under the bucket lock.  If the counter becomes 0, wake all waiters (WG-2). */
static noinline int wg_add_slow(gmp_wg *w, int n)
{
	struct glist out = { 0 };
	struct bucket *b = lot_lock(w);
	uint64_t s = ld_rlx(&w->state), to;

	do
		to = wg_add(w, s, n);
	while (!cas_seq(&w->state, &s, to)); /* ORD(wg) */
	if (to == 0 && s & WAITERS)
		lot_wake_all(b, w, &out);
	lot_unlock_ready(b, &out);
	return 0;
}

/* Add n, which is positive.  One locked addition without a retry loop (WG-3). */
static inline int wg_add_positive(gmp_wg *w, int n)
{
	uint64_t s = add_rel(&w->state, (uint64_t)n << 32); /* ORD(wg) */

	if (unlikely((int64_t)counter(s) + n > INT32_MAX))
		gmp__fatal("counter of wait group %p exceeds %d (missing gmp_wg_done?)", (void *)w,
			   INT32_MAX);
	return 0;
}

int gmp_wg_add(gmp_wg *w, int n)
{
	if (n > 0)
		return wg_add_positive(w, n);
	fetch_own(&w->state);
	uint64_t s = ld_rlx(&w->state), to;

	do {
		to = wg_add(w, s, n);
		if (unlikely(to == 0 && s & WAITERS))
			return wg_add_slow(w, n);
	} while (!cas_rel(&w->state, &s, to)); /* ORD(wg): makes the work visible to the waiter */
	return 0;
}

int gmp_wg_done(gmp_wg *w)
{
	return gmp_wg_add(w, -1);
}

/* Enqueue sg and wait.  The bucket is locked; this unlocks it. */
static inline int wg_wait_with(struct sudog *sg, struct bucket *b, gmp_wg *w, int64_t deadline)
{
	lot_enqueue(b, w, sg, false);
	return lot_wait(b, sg, WAIT_WG, lot_unwait, deadline);
}

/* A function of its own, so that the wait of a green caller can be a tail call. */
static noinline int wg_wait_external(struct bucket *b, gmp_wg *w, int64_t deadline)
{
	struct external f;

	return wg_wait_with(external_sudog(&f), b, w, deadline);
}

int gmp_wg_wait_until(gmp_wg *w, int64_t deadline)
{
	chaos_point();
	if (counter(ld_acq(&w->state)) == 0) /* ORD(wg) */
		return 0;
	int late = too_late(deadline);

	if (late)
		return late;
	struct bucket *b = lot_lock(w);
	uint64_t s;

	do {
		s = ld_acq(&w->state); /* ORD(wg): also after a failed compare-and-swap */
		if (counter(s) == 0) {
			lot_unlock(b);
			return 0;
		}
	} while (!cas_acq(&w->state, &s, s | WAITERS)); /* ORD(wg) */
	struct m *m = getm();

	if (unlikely(!m))
		return wg_wait_external(b, w, deadline);
	return wg_wait_with(&m->curg->sudog, b, w, deadline);
}

int gmp_wg_wait(gmp_wg *w)
{
	return gmp_wg_wait_until(w, NEVER);
}
