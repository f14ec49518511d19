/* SPDX-License-Identifier: MIT */
/*
 * Park: one wait protocol for all objects, for Gs and for external threads.
 *
 * w is the waiter (its states: waiter_state.h), X the object (a channel, a bucket of the
 * parking table, a side of an fd; none for a sleep).  The story of scheduling: sched.h.
 *
 *   waiter                                         waker
 *    1 lock X                                       1 lock X
 *    2 it must wait: enqueue its sudog in X         2 waiter_claim(w, result) of the first in X
 *    3 wait_on(w, ..., commit): leave the stack     3 dequeue its sudog; if the claim failed, take
 *    4 on g0: arm the timer, if there is a            the next sudog
 *      deadline, under w = BUSY                     4 unlock X
 *    5 on g0: w = ARMED                             5 ready(w)
 *    6 on g0: if the G is cancelled, claim w
 *    7 on g0: commit: unlock X; if step 6 has      timer (timeout), or end of the run
 *      claimed w: ready it                          1 waiter_claim(w, -ETIMEDOUT or -ESRCH); if
 *    8 on g0: another G runs                          that fails, return
 *    9 on g0 of the M that resumes it: disarm       2 ready(w); shutdown kills a G instead
 *      the timer; if the result is not 0,
 *      unwait(w) dequeues the sudog
 *   10 on its stack: wait_on returns the result
 *
 * Cancellation sets a flag of the G, which stays, and claims the wait that it finds:
 *
 *   the G                                          canceller
 *    1 w = ARMED (step 5)                           1 cancelled = true
 *    2 light fence              ORD(cancel)         2 heavy fence (membarrier)    ORD(cancel)
 *    3 if cancelled (step 6): cancel_wait           3 cancel_wait
 *
 * Store-buffering (Dekker): at least one side sees the other's write, so no cancellation is lost.
 * Both may see it.  cancel_wait holds the waiter (ARMED -> BUSY; other claimers spin), checks
 * whether the present wait, which may be a later one, can be cancelled, and claims or releases it.
 *
 * Invariants
 *   PARK-1  No waker claims a G that is still on its stack: X is locked from step 1 to step 7, and
 *           ARMED is set in step 5.  From there on a timer or a canceller may claim w; then another
 *           M may run the G, on the G's stack, while this M is still in steps 6 and 7, on its g0.
 *           So steps 6 and 7 access only its `cancelled`, `masked` and `uncancellable`, its waiter
 *           and, while X is locked, the argument of commit.  The argument may be on the G's stack,
 *           since unwait must lock X first (COND-3, SELECT-3).
 *   PARK-2  Exactly one claim wins: the compare-and-swap of waiter_claim or cancel_wait.  So the
 *           wait has one result, and an element moves if and only if the result says so.
 *   PARK-3  When wait_on returns, no trace of the wait is left, neither in X nor in a timer heap.
 *   PARK-4  Lifetime: a waker does not touch X after it has unlocked X; it touches w only by the
 *           claim and ready.  So X may be freed as soon as the wait has returned.
 *   PARK-5  Use-after-free: a waker claims first, and then dequeues the sudog (`queued` is false).
 *           So if unwait, after a timeout or a cancellation, reads `queued` as false, a waker has
 *           lost its claim before and no longer uses the sudog; unwait need not lock X, which may
 *           have been freed.  In the other order a late claim could hit the waiter's next wait.
 *
 * An external thread has its sudog on its own stack.  For it steps 4 to 8 are: ARMED, commit, futex
 * on w->state.  It claims itself at its deadline.  It cannot be cancelled, except a G that runs as
 * an OS thread (variant/thread.h).  If it is claimed, it returns only after ready: WAITER_DONE.
 *
 * Verified by model/park.pml.
 *
 * Rejected
 *   A retry loop around every wait: a lost race costs a switch, and hides faults.
 *   Cleanup on the waiter's own stack: one more frame between every call and the switch.
 */
#ifndef GMP_PARK_H
#define GMP_PARK_H

#include <errno.h>

#include "enter.h"
#include "types.h"
#include "variant/variant.h"

/* The waiter of an external thread, on its stack. */
struct external {
	struct waiter w;
	struct sudog sudog;
};

/* Prepare f, on the stack of the calling external thread, for a wait.  Returns its sudog. */
static inline struct sudog *external_sudog(struct external *f)
{
	f->w.state = WAITER_IDLE;
	f->w.gp = NULL;
	f->sudog.w = &f->w;
	f->sudog.queued = false;
	return &f->sudog;
}

/* The caller's sudog, ready for a queue: that of the G, which has one wait at a time, or f.  Code
 * whose call of wait_on must be a jump has no place for f: see chan.c:chan_wait. */
static inline struct sudog *self_sudog(struct external *f)
{
	struct m *m = getm();

	return likely(m != NULL) ? &m->curg->sudog : external_sudog(f);
}

/* The sudog that is embedded beside w. */
static inline struct sudog *waiter_sudog(struct waiter *w)
{
	return w->gp ? &w->gp->sudog : &container_of(w, struct external, w)->sudog;
}

/*
 * Steps 3 to 10: X is locked, and commit(arg) unlocks it.  why: enum waitreason, or-ed with
 * UNCANCELLABLE.  commit and unwait: see waiter_state.h.
 * Returns the waker's result (0 or a negative errno), -ETIMEDOUT or -ECANCELED.
 * For a G: call it in tail position, so that resuming jumps straight to the caller's caller.
 */
int wait_on(struct waiter *w, unsigned why, unwait_fn unwait, commit_fn commit, void *arg,
	    int64_t deadline);

/* The calling G is cancelled, and has not masked cancellation. */
static inline bool self_cancelled(void)
{
	struct g *gp = self_green();

	return gp && ld_rlx(&gp->cancelled) && !gp->masked;
}

/* Yield: move the calling G behind the other runnable Gs. */
int park_yield(void);

/* Leave steps of a wait (steps 4 to 8) and of a yield: variant/leave.h. */
int park_g0(void *m);
int yield_g0(void *m);

/* self_checkpoint, if the scheduler has asked for it: yields, but see PREEMPT-6 (policy/take.c). */
void park_checkpoint(void);

/* Yield if the scheduler has asked for it: for calls that may loop indefinitely without a wait. */
static inline void self_checkpoint(void)
{
	struct m *m = getm();

	if (unlikely(!m))
		variant_checkpoint();
	else if (unlikely((ld_rlx(&m->p->attention) & ~(uint32_t)ATTENTION_AT_SWITCH) |
			  ld_rlx(&m->taken)))
		park_checkpoint();
}

/* The result of a wait whose deadline has passed already; 0: the caller may wait. */
static inline int too_late(int64_t deadline)
{
	if (likely(deadline == NEVER) || gmp_now() < deadline)
		return 0;
	return self_cancelled() ? -ECANCELED : -ETIMEDOUT;
}

/* Claim gp's present wait with -ECANCELED if gp is cancelled and the wait is cancellable.  Returns
 * true if it did: the caller readies gp.  gp may have been reused: both concern the same wait. */
bool cancel_wait(struct g *gp);

/* Make w runnable, which the caller has claimed; X is unlocked.  A G becomes runnext of this P (a
 * thread without a P enqueues it globally); the M that takes it from a queue resumes it. */
void ready(struct waiter *w);
/* The same for all of a list, which is empty then: a single G becomes runnext, several go to the
 * tail of the ring in order. */
void ready_list(struct glist *list);

/* On the stack of a G that runs without a P, in a P section, which ends: wait for a P. */
void park_without_p(void);

/* A commit step that does nothing. */
void commit_none(void *arg);

#endif
