/* SPDX-License-Identifier: MIT */
/*
 * Condition variable: FIFO queue in the parking table, and a word that says whether it is empty.
 *
 * State word `waiters`: 0 or 1, written under the bucket lock.  May be 1 although no waiter is
 * queued (the waiter timed out or was cancelled); must be 1 if one is.
 *
 *   waiter                                          signaller
 *    1 lock the bucket; enqueue; waiters = 1         1 waiters == 0?  nothing to do
 *    2 wait_on: armed                                2 lock the bucket; claim the first waiter (all
 *    3 commit: unlock the bucket, then the mutex       waiters); waiters = a waiter is left
 *    4 resumed: lock the mutex, whatever the result  3 unlock the bucket, ready
 *
 * Invariants
 *   COND-1  The mutex is unlocked after the waiter is enqueued and armed.  So a thread that changes
 *           the condition under the mutex and signals after that finds the waiter.
 *   -       A signal is consumed by exactly one claim.  If the first waiter has timed out or was
 *           cancelled, the signal goes to the next one.  No waiter returns 0 without a claim: there
 *           are no spurious wakeups.
 *   COND-3  Step 3 copies what it needs from the waiter's stack before it unlocks the bucket.  A
 *           waiter that is cancelled before that dequeues itself under the bucket lock, so its
 *           stack is valid until then.
 */
#include "base/throw.h"
#include "variant/variant.h"
#include "wait/mutex.h"
#include "wait/parkinglot.h"

struct cond_release {
	struct bucket *b;
	gmp_mutex *m;
};

/* Commit step of the wait: runs on g0 for a G. */
static void cond_commit(void *arg)
{
	struct cond_release r = *(struct cond_release *)arg; /* COND-3 */

	lot_unlock(r.b);
	gmp_mutex_unlock(r.m);
}

int gmp_cond_wait_until(gmp_cond *c, gmp_mutex *m, int64_t deadline)
{
	chaos_point();
	struct external f;
	struct cond_release r = { .m = m };

	if (unlikely(!(ld_rlx(&m->state) & MUTEX_LOCKED)))
		gmp__fatal("wait on condition variable %p with an unlocked mutex %p (lock it "
			   "before the wait)",
			   (void *)c, (void *)m);
	int result = too_late(deadline);

	if (result)
		return result;
	r.b = lot_lock(c);
	struct sudog *sg = self_sudog(&f);

	lot_enqueue(r.b, c, sg, false);
	st_rlx(&c->waiters, 1);
	result = wait_on(sg->w, WAIT_COND, lot_unwait, cond_commit, &r, deadline);
	gmp_mutex_lock(m);
	return result;
}

int gmp_cond_wait(gmp_cond *c, gmp_mutex *m)
{
	chaos_point();
	return gmp_cond_wait_until(c, m, NEVER);
}

/* Steps 2 and 3 of a signaller. */
static noinline void cond_wake(gmp_cond *c, bool all)
{
	struct glist out = { 0 };
	struct bucket *b = lot_lock(c);

	if (all)
		lot_wake_all(b, c, &out);
	else
		lot_wake_first(b, c, 0, &out);
	st_rlx(&c->waiters, lot_first(b, c) != NULL);
	lot_unlock_ready(b, &out);
}

int gmp_cond_signal(gmp_cond *c)
{
	if (ld_rlx(&c->waiters))
		cond_wake(c, false);
	return 0;
}

int gmp_cond_broadcast(gmp_cond *c)
{
	if (ld_rlx(&c->waiters))
		cond_wake(c, true);
	return 0;
}
