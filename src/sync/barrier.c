/* SPDX-License-Identifier: MIT */
/*
 * Barrier: n threads wait until all n have arrived, then one call returns 1 and the others 0.
 *
 * Invariants, under the bucket lock
 *  R1 The queue holds exactly the waiters that have arrived; `arrived` is its length.
 *  R2 The n-th arrival first holds every queued waiter (waiter_hold), so that none can be cancelled and
 *     none can time out during the release.  A waiter that was claimed before, with -ECANCELED or
 *     -ETIMEDOUT, is dequeued and not counted; the barrier then does not trip, and the caller waits like
 *     any other.  Only with n - 1 waiters held does the caller claim them all.
 *  R3 A wait that ends by cancellation or at its deadline takes its arrival back: in barrier_unwait, or
 *     when R2 dequeues its waiter.  A call whose deadline has passed before it has to wait never
 *     arrives.
 */
#include <errno.h>

#include "base/os.h"
#include "mode/chaos.h"
#include "parkinglot.h"

static void barrier_unwait(struct waiter *w)
{
	struct sudog *sg = waiter_sudog(w);

	if (!ld_acq(&sg->queued)) /* ORD(sudog.queued): R2, or it fell */
		return;
	gmp_barrier *x = (gmp_barrier *)(uintptr_t)sg->key;
	struct bucket *b = lot_lock(x);

	if (sg->queued) {
		lot_dequeue(b, sg);
		st_rlx(&x->arrived, x->arrived - 1);
	}
	lot_unlock(b);
}

static bool hold(struct waiter *w)
{
	uint32_t state;

	while ((state = waiter_hold(w)) == WAITER_BUSY)
		cpu_relax(); /* another looks at it: microseconds */
	return state == WAITER_ARMED;
}

/* R2: how many of those who wait are held now, and still in the queue. */
static uint32_t hold_all(struct bucket *b, gmp_barrier *x)
{
	uint32_t held = 0;

	for (struct sudog *sg = lot_first(b, x), *next; sg; sg = next) {
		next = sg->next;
		if (hold(sg->w))
			held++;
		else
			lot_dequeue(b, sg); /* W5: it has been claimed otherwise */
	}
	return held;
}

static void release_all(struct bucket *b, gmp_barrier *x)
{
	for (struct sudog *sg = lot_first(b, x); sg; sg = sg->next)
		waiter_release(sg->w);
}

static void fall(struct bucket *b, gmp_barrier *x, struct glist *out)
{
	struct sudog *sg;

	st_rlx(&x->arrived, 0);
	while ((sg = lot_first(b, x))) {
		st_rel(&sg->w->state, CLAIMED_WITH(0)); /* ORD(waiter.claim) */
		lot_dequeue(b, sg);
		glist_claimed(out, sg);
	}
}

int gmp_barrier_wait_until(gmp_barrier *x, int64_t deadline)
{
	chaos_point();
	struct external f;
	struct glist out = { 0 };
	int late = too_late(deadline);
	struct bucket *b = lot_lock(x);

	if (x->arrived + 1 >= x->n) {
		st_rlx(&x->arrived, hold_all(b, x));
		if (x->arrived + 1 >= x->n) {
			fall(b, x, &out);
			lot_unlock(b);
			ready_list(&out);
			return 1;
		}
		release_all(b, x);
	}
	if (late) {
		lot_unlock(b);
		return late;
	}
	struct sudog *sg = self_sudog(&f);

	st_rlx(&x->arrived, x->arrived + 1);
	lot_enqueue(b, x, sg, false);
	return lot_wait(b, sg, WAIT_BARRIER, barrier_unwait, deadline);
}

int gmp_barrier_wait(gmp_barrier *x)
{
	return gmp_barrier_wait_until(x, NEVER);
}
