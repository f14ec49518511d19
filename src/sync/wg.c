/* SPDX-License-Identifier: MIT */
/*
 * Wait group: a counter, and a queue in the parking table of threads that wait until it is 0.
 *
 * The word: the counter in the upper half, WAITERS in the lowest bit.
 *
 * Invariants
 *  G1 WAITERS is set under the bucket's lock, by a thread that finds the counter above 0 there.
 *  G2 The counter becomes 0 by one compare-and-swap that clears WAITERS too.  If WAITERS was set, this
 *     happens under the bucket's lock, and all waiters are dequeued.  Lifetime: it is the last access, so a
 *     waiter that reads 0 may free the object at once.
 *  G3 While the counter is 0 WAITERS is clear (G2), so an addition need not read the word first.
 *
 * Rejected: counting down by an addition too, as Go does.  The counter would be 0 with WAITERS still set,
 * and clearing it would be an access after the last.
 */
#include <errno.h>

#include "base/os.h"
#include "base/throw.h"
#include "mode/chaos.h"
#include "parkinglot.h"

enum { WAITERS = 1 };

static int32_t counter(uint64_t s)
{
	return (int32_t)(s >> 32);
}

/* n <= 0 */
static uint64_t add(uint64_t s, int n)
{
	int64_t c = (int64_t)counter(s) + n;

	if (unlikely(c < 0))
		gmp__fatal("negative wait group counter");
	return c == 0 ? 0 : (uint64_t)c << 32 | (s & WAITERS);
}

/* G2, under the bucket's lock, if this addition brings the counter to 0 and there are waiters. */
static noinline int add_slow(gmp_wg *w, int n)
{
	struct glist out = { 0 };
	struct bucket *b = lot_lock(w);
	uint64_t s = ld_rlx(&w->state), to;

	do
		to = add(s, n);
	while (!cas_seq(&w->state, &s, to)); /* ORD(wg) */
	if (to == 0 && s & WAITERS)
		lot_wake_all(b, w, &out);
	lot_unlock(b);
	ready_list(&out);
	return 0;
}

/* An addition upwards needs no decision: one exchange, whatever other threads do to the word meanwhile. */
static inline int add_more(gmp_wg *w, int n)
{
	uint64_t s = add_rel(&w->state, (uint64_t)n << 32); /* ORD(wg) */

	if (unlikely((int64_t)counter(s) + n > INT32_MAX))
		gmp__fatal("wait group counter over %d", INT32_MAX);
	return 0;
}

int gmp_wg_add(gmp_wg *w, int n)
{
	if (n > 0)
		return add_more(w, n);
	fetch_own(&w->state);
	uint64_t s = ld_rlx(&w->state), to;

	do {
		to = add(s, n);
		if (unlikely(to == 0 && s & WAITERS))
			return add_slow(w, n);
	} while (!cas_rel(&w->state, &s, to)); /* ORD(wg): what was done is seen by the waiter */
	return 0;
}

int gmp_wg_done(gmp_wg *w)
{
	return gmp_wg_add(w, -1);
}

static inline int wait_with(struct sudog *sg, struct bucket *b, gmp_wg *w, int64_t deadline)
{
	lot_enqueue(b, w, sg, false);
	return lot_wait(b, sg, WAIT_WG, lot_unwait, deadline);
}

static noinline int wait_external(struct bucket *b, gmp_wg *w, int64_t deadline)
{
	struct external f;

	return wait_with(external_sudog(&f), b, w, deadline);
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
		s = ld_acq(&w->state); /* ORD(wg): also after a failed exchange */
		if (counter(s) == 0) {
			lot_unlock(b);
			return 0;
		}
	} while (!cas_acq(&w->state, &s, s | WAITERS)); /* ORD(wg) */
	struct m *m = getm();

	if (unlikely(!m))
		return wait_external(b, w, deadline);
	return wait_with(&m->curg->sudog, b, w, deadline);
}

int gmp_wg_wait(gmp_wg *w)
{
	return gmp_wg_wait_until(w, NEVER);
}
