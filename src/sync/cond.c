/* SPDX-License-Identifier: MIT */
/*
 * Condition variable: a FIFO queue in the parking table, and a word that says whether it has waiters.
 *
 *  the waiter                                      the signaller
 *   1 lock the bucket; enqueue; waiters = 1         1 waiters == 0? then there is nothing to do
 *   2 wait_on: armed                                2 lock the bucket; claim the first (all);
 *   3 commit: unlock the bucket, then the mutex       waiters = (a waiter is left)
 *   4 resumed: lock the mutex again, in any case    3 unlock, ready
 *
 * Invariants
 *  V1 The mutex is unlocked after the waiter is enqueued and armed.  So a thread that changes the condition
 *     under the mutex and signals after that finds the waiter.
 *  V2 A signal is consumed by exactly one claim: if the first waiter has timed out or was cancelled, the
 *     signal goes to the next.  No waiter wakes without a claim: there are no spurious wakeups.
 *  V3 Step 3 reads what it needs from the waiter's stack before it unlocks: the waiter may have been
 *     cancelled already, but then it has to leave the queue, under the bucket's lock.
 */
#include <errno.h>

#include "base/os.h"
#include "base/throw.h"
#include "mode/chaos.h"
#include "parkinglot.h"
#include "sync/mutex.h"
#include "sync/sync.h"

struct release {
	struct bucket *b;
	gmp_mutex *m;
};

static void commit_release(void *arg)
{
	struct release r = *(struct release *)arg; /* V3 */

	lot_unlock(r.b);
	gmp_mutex_unlock(r.m);
}

int gmp_cond_wait_until(gmp_cond *c, gmp_mutex *m, int64_t deadline)
{
	chaos_point();
	struct external f;
	struct release r = { .m = m };

	if (unlikely(!(ld_rlx(&m->state) & MUTEX_LOCKED)))
		gmp__fatal("wait on a condition variable with an unlocked mutex");
	int result = too_late(deadline);

	if (result)
		return result;
	r.b = lot_lock(c);
	struct sudog *sg = self_sudog(&f);

	lot_enqueue(r.b, c, sg, false);
	st_rlx(&c->waiters, 1);
	result = wait_on(sg->w, WAIT_COND, lot_unwait, commit_release, &r, deadline);
	gmp_mutex_lock(m);
	return result;
}

int gmp_cond_wait(gmp_cond *c, gmp_mutex *m)
{
	chaos_point();
	return gmp_cond_wait_until(c, m, NEVER);
}

static noinline void wake(gmp_cond *c, bool all)
{
	struct glist out = { 0 };
	struct bucket *b = lot_lock(c);

	if (all)
		lot_wake_all(b, c, &out);
	else
		lot_wake_first(b, c, 0, &out);
	st_rlx(&c->waiters, lot_first(b, c) != NULL);
	lot_unlock(b);
	ready_list(&out);
}

int gmp_cond_signal(gmp_cond *c)
{
	if (ld_rlx(&c->waiters))
		wake(c, false);
	return 0;
}

int gmp_cond_broadcast(gmp_cond *c)
{
	if (ld_rlx(&c->waiters))
		wake(c, true);
	return 0;
}
