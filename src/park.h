/* SPDX-License-Identifier: MIT */
/*
 * How does a thread stop until another says "go on"?
 *
 * One protocol for all waits of floor 4, green or foreign.  w is the waiter, X the object it waits
 * for (a channel, a bucket of the parking table, a side of a descriptor; none for a sleep).
 *
 *  the waiter                                      a waker
 *   1 lock X                                        1 lock X
 *   2 it must wait: put its sudog into X's queue    2 waiter_claim(w, result) the first in X's queue
 *   3 wait_on(w, ..., commit): leave the stack      3 take its sudog out; if another had won the
 *   4 on g0: w = ARMED                                claim, the next sudog
 *   5 on g0: arm the timer, if a deadline is set    4 unlock X
 *   6 on g0: commit: unlock X                       5 ready(w)
 *   7 another G runs
 *   8 resumed: the timer is disarmed, and if the    the timer (and cancellation, and the end)
 *     result is not 0, unwait(w) has taken the      1 waiter_claim(w, -ETIMEDOUT): if another has
 *     sudog out of X                                  won, nothing
 *   9 wait_on returns the result                    2 ready(w)
 *
 * Invariants
 *  W1 Nobody claims a waiter that is still on its stack: ARMED is set in step 4, and X's lock, or
 *     the timer heap's, lies between it and any claim.
 *  W2 Exactly one claim wins; so the wait has one result, and an element moves if and only if the
 *     result says so.
 *  W3 When wait_on returns, no trace of the wait is left: not in X, not in a heap.
 *  W4 A waker touches X no more once it has dropped X's lock; it touches w only through the claim
 *     and ready.  So X may be freed as soon as the wait has returned.
 *  W5 A waker claims before it takes the sudog out (before `queued` is false): a waiter that has
 *     been claimed otherwise and sees itself out of the queue knows that no claim is under way, and
 *     need not lock X, which may be gone.  The other way round a late claim could hit its next wait.
 *
 * A foreign thread does the same with its sudog on its own stack: steps 4 to 7 are ARMED, unlock,
 * and a futex on w->state.  It goes on only when ready has set W_DONE, so that a waker may use its
 * sudog after the claim (copy an element, link it into a list).
 *
 * Rejected: a retry loop around every wait (a lost race costs a scheduling turn, and hides
 * faults); cleaning up on the waiter's own stack (a frame more between every call and the switch).
 */
#ifndef GMP_PARK_H
#define GMP_PARK_H

#include "runtime.h"

/* What a wait needs on the stack of a foreign thread. */
struct foreign {
	struct waiter w;
	struct sudog sudog;
};

/* The sudog of a foreign thread, which is to lie on its stack, ready for a queue. */
static inline struct sudog *foreign_sudog(struct foreign *f)
{
	f->w.state = W_IDLE;
	f->w.gp = NULL;
	f->sudog.w = &f->w;
	f->sudog.queued = false;
	return &f->sudog;
}

/* The caller's sudog, ready for a queue; f serves a foreign caller.  A green caller's is its own:
 * it has one wait at a time.  Where wait_on is to be a jump there is no place for f: see wait_in of
 * chan.c. */
static inline struct sudog *self_sudog(struct foreign *f)
{
	struct m *m = getm();

	return likely(m != NULL) ? &m->curg->sudog : foreign_sudog(f);
}

/* The sudog of a waiter's own. */
static inline struct sudog *waiter_sudog(struct waiter *w)
{
	return w->gp ? &w->gp->sudog : &container_of(w, struct foreign, w)->sudog;
}

/*
 * Steps 3 to 9.  Returns the result: 0, what the waker gave, -ETIMEDOUT.
 * Green: called in tail position, so that resuming jumps straight back to the caller's caller.
 */
int wait_on(struct waiter *w, enum waitreason why, unwait_fn unwait, commit_fn commit, void *arg,
	    int64_t deadline);

/* The last step of a waker: let one it has claimed go on.  A green one runs next on this P (from a
 * foreign thread: soon). */
void ready(struct waiter *w);
/* The same for all of a list, which is empty then: one alone runs next, several in order, after
 * what is ready already. */
void ready_list(struct glist *list);

/* The heart of gmp_yield, and of ending. */
int park_yield(void);
void park_exit(void) __attribute__((noreturn));

/* A commit step that has nothing to unlock. */
void commit_none(void *arg);

#endif
