/* SPDX-License-Identifier: MIT */
/*
 * How do n threads wait for each other?
 *
 * Invariants, under the bucket's lock
 *  R1 Those who have arrived and wait stand in the queue, and nobody else: `arrived` counts them.
 *  R2 It falls for n at a time.  The n-th first holds all who wait (waiter_hold), so that none is
 *     cancelled meanwhile; one that has been already does not count: it is taken out, and the n-th
 *     is not the n-th.  Only with n - 1 in hand it claims them.
 *  R3 Who is cancelled takes its arrival back, when it leaves the queue or is taken out by R2.
 */
#include <errno.h>

#include "base/os.h"
#include "chaos.h"
#include "sema.h"

static void barrier_unwait(struct waiter *w)
{
	struct sudog *sg = waiter_sudog(w);

	if (!ld_acq(&sg->queued)) /* ORD(sudog.queued): R2, or it fell */
		return;
	gmp_barrier *x = (gmp_barrier *)(uintptr_t)sg->key;
	struct bucket *b = sema_lock(x);

	if (sg->queued) {
		sema_dequeue(b, sg);
		st_rlx(&x->arrived, x->arrived - 1);
	}
	sema_unlock(b);
}

static bool hold(struct waiter *w)
{
	uint32_t state;

	while ((state = waiter_hold(w)) == W_BUSY)
		cpu_relax(); /* another looks at it: microseconds */
	return state == W_ARMED;
}

/* R2: how many of those who wait are held now, and still in the queue. */
static uint32_t hold_all(struct bucket *b, gmp_barrier *x)
{
	uint32_t held = 0;

	for (struct sudog *sg = sema_first(b, x), *next; sg; sg = next) {
		next = sg->next;
		if (hold(sg->w))
			held++;
		else
			sema_dequeue(b, sg); /* W5: it has been claimed, with -ECANCELED */
	}
	return held;
}

static void release_all(struct bucket *b, gmp_barrier *x)
{
	for (struct sudog *sg = sema_first(b, x); sg; sg = sg->next)
		waiter_release(sg->w);
}

static void fall(struct bucket *b, gmp_barrier *x, struct glist *out)
{
	struct sudog *sg;

	st_rlx(&x->arrived, 0);
	while ((sg = sema_first(b, x))) {
		st_rel(&sg->w->state, CLAIMED_WITH(0)); /* ORD(waiter.claim) */
		sema_dequeue(b, sg);
		glist_claimed(out, sg);
	}
}

int gmp_barrier_wait(gmp_barrier *x)
{
	chaos_point();
	struct foreign f;
	struct glist out = { 0 };
	struct bucket *b = sema_lock(x);

	if (x->arrived + 1 >= x->n) {
		st_rlx(&x->arrived, hold_all(b, x));
		if (x->arrived + 1 >= x->n) {
			fall(b, x, &out);
			sema_unlock(b);
			ready_list(&out);
			return 1;
		}
		release_all(b, x);
	}
	struct sudog *sg = self_sudog(&f);

	st_rlx(&x->arrived, x->arrived + 1);
	sema_enqueue(b, x, sg, false);
	return sema_wait(b, sg, WAIT_BARRIER, barrier_unwait, NEVER);
}
