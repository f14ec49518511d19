/* SPDX-License-Identifier: MIT */
/*
 * Barrier: n threads wait until all n have arrived, then one call returns 1 and the others 0.
 *
 * State: `n` is constant, `arrived` is the number of queued waiters, written under the bucket lock.
 *
 * Invariants, all under the bucket lock
 *   -          The queue holds exactly the waiters that have arrived; `arrived` is its length.
 *   BARRIER-2  The n-th arrival first holds every queued waiter (waiter_hold), so that none can be
 *              cancelled and none can time out during the release.  A waiter that was claimed
 *              before, with -ECANCELED or -ETIMEDOUT, is dequeued and not counted; the barrier then
 *              does not trip, and the caller waits like any other.  Only with n - 1 waiters held
 *              does the caller claim them all.
 *   BARRIER-3  A wait that ends by cancellation or timeout takes its arrival back: in
 *              barrier_unwait, or when BARRIER-2 dequeues its waiter.  A call whose deadline has
 *              passed before it has to wait never arrives.
 */
#include "variant/variant.h"
#include "wait/parkinglot.h"
#include "waiter.h"

/* Take back the arrival of a waiter that was cancelled, has timed out or is killed at shutdown. */
static void barrier_unwait(struct waiter *w)
{
	gmp_barrier *x = (gmp_barrier *)(uintptr_t)waiter_sudog(w)->key;
	struct bucket *b = lot_leave(w);

	if (!b) /* BARRIER-2, or tripped */
		return;
	st_rlx(&x->arrived, x->arrived - 1);
	lot_unlock(b);
}

/*
 * Hold w so that it can be neither cancelled nor woken.  Spins while another thread inspects it,
 * for microseconds.  Returns false if it was already claimed.
 */
static bool barrier_hold(struct waiter *w)
{
	uint32_t state;

	while ((state = waiter_hold(w)) == WAITER_BUSY)
		cpu_relax();
	return state == WAITER_ARMED;
}

/* BARRIER-2: hold each waiter, or dequeue it if it was claimed.  Returns the number held. */
static uint32_t barrier_hold_all(struct bucket *b, gmp_barrier *x)
{
	uint32_t held = 0;

	for (struct sudog *sg = lot_first(b, x), *next; sg; sg = next) {
		next = sg->next;
		if (barrier_hold(sg->w))
			held++;
		else
			lot_dequeue(b, sg); /* claimed with -ECANCELED or -ETIMEDOUT */
	}
	return held;
}

/* Let go of all waiters held by barrier_hold_all. */
static void barrier_release_all(struct bucket *b, gmp_barrier *x)
{
	for (struct sudog *sg = lot_first(b, x); sg; sg = sg->next)
		waiter_release(sg->w);
}

/* Claim and dequeue all waiters, which are held, and append them to out. */
static void barrier_trip(struct bucket *b, gmp_barrier *x, struct glist *out)
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
		st_rlx(&x->arrived, barrier_hold_all(b, x));
		if (x->arrived + 1 >= x->n) {
			barrier_trip(b, x, &out);
			lot_unlock_ready(b, &out);
			return 1;
		}
		barrier_release_all(b, x);
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
