/* SPDX-License-Identifier: MIT */
/*
 * How does a thread stop until another says "go on"?
 *
 * One protocol for all waits of floor 4, green or external.  w is the waiter, X the object it waits
 * for (a channel, a bucket of the parking table, a side of a descriptor; none for a sleep).
 *
 *  the waiter                                      a waker
 *   1 lock X                                        1 lock X
 *   2 it must wait: put its sudog into X's queue    2 waiter_claim(w, result) the first in X's queue
 *   3 wait_on(w, ..., commit): leave the stack      3 take its sudog out; if another had won the
 *   4 on g0: arm the timer, if a deadline is set,     claim, the next sudog
 *     under w = BUSY                                4 unlock X
 *   5 on g0: w = ARMED                              5 ready(w)
 *   6 on g0: if it is cancelled, claim it
 *   7 on g0: commit: unlock X                       the timer (and the end)
 *   8 another G runs                                1 waiter_claim(w, -ETIMEDOUT): if another has
 *   9 resumed: the timer is disarmed, and if the      won, nothing
 *     result is not 0, unwait(w) has taken the      2 ready(w)
 *     sudog out of X
 *  10 wait_on returns the result
 *
 * Cancellation is a flag of the G that stays, and a claim of the wait that it finds:
 *
 *  the G                                           the one who cancels
 *   1 w = ARMED (step 5)                            1 cancelled = true
 *   2 light fence              ORD(cancel)          2 heavy fence (membarrier)     ORD(cancel)
 *   3 cancelled (step 6)? cut it short              3 cut it short
 *
 *  Whichever comes first in the order of the fences, the G sees the flag or the other sees it armed.
 *  Both may; to cut short is to hold the waiter (ARMED -> BUSY), to look whether this wait, which
 *  may be a later one than the one meant, can be cut short, and to claim it or let it go.
 *
 * Invariants
 *  W1 Nobody claims a waiter that is still on its stack: ARMED is set in step 5.  From there on the
 *     G may run elsewhere, and steps 6 and 7 touch nothing of it but `cancelled` and its waiter.
 *  W2 Exactly one claim wins; so the wait has one result, and an element moves if and only if the
 *     result says so.
 *  W3 When wait_on returns, no trace of the wait is left: not in X, not in a heap.
 *  W4 A waker touches X no more once it has dropped X's lock; it touches w only through the claim
 *     and ready.  So X may be freed as soon as the wait has returned.
 *  W5 A waker claims before it takes the sudog out (before `queued` is false): a waiter that has
 *     been claimed otherwise and sees itself out of the queue knows that no claim is under way, and
 *     need not lock X, which may be gone.  The other way round a late claim could hit its next wait.
 *
 * An external thread does the same with its sudog on its own stack: steps 4 to 8 are ARMED, unlock,
 * and a futex on w->state.  Nobody can cancel it.  It goes on only when ready has set WAITER_DONE, so that a waker may use its
 * sudog after the claim (copy an element, link it into a list).
 *
 * Rejected: a retry loop around every wait (a lost race costs a scheduling turn, and hides
 * faults); cleaning up on the waiter's own stack (a frame more between every call and the switch).
 */
#ifndef GMP_PARK_H
#define GMP_PARK_H

#include <errno.h>

#include "mode/thread.h"
#include "types.h"

/* What a wait needs on the stack of an external thread. */
struct external {
	struct waiter w;
	struct sudog sudog;
};

/* The sudog of an external thread, which is to lie on its stack, ready for a queue. */
static inline struct sudog *external_sudog(struct external *f)
{
	f->w.state = WAITER_IDLE;
	f->w.gp = NULL;
	f->sudog.w = &f->w;
	f->sudog.queued = false;
	return &f->sudog;
}

/* The caller's sudog, ready for a queue; f serves an external caller.  A green caller's is its own:
 * it has one wait at a time.  Where wait_on is to be a jump there is no place for f: see wait_in of
 * chan.c. */
static inline struct sudog *self_sudog(struct external *f)
{
	struct m *m = getm();

	return likely(m != NULL) ? &m->curg->sudog : external_sudog(f);
}

/* The sudog of a waiter's own. */
static inline struct sudog *waiter_sudog(struct waiter *w)
{
	return w->gp ? &w->gp->sudog : &container_of(w, struct external, w)->sudog;
}

/*
 * Steps 3 to 10.  Returns the result: 0, what the waker gave, -ETIMEDOUT, -ECANCELED.
 * Green: called in tail position, so that resuming jumps straight back to the caller's caller.
 */
int wait_on(struct waiter *w, unsigned why, unwait_fn unwait, commit_fn commit, void *arg,
	    int64_t deadline);

/* The caller is cancelled, and has not masked that. */
static inline bool self_cancelled(void)
{
	struct g *gp = self_green();

	return gp && ld_rlx(&gp->cancelled) && !gp->masked;
}

/* Before anything runs: which steps a wait, a yield and an end take on g0. */
void park_init(void);

/* The heart of gmp_yield, and of ending. */
int park_yield(void);

/* Yield if the scheduler has asked for it: for calls that may go on for ever without a wait. */
static inline void self_checkpoint(void)
{
	struct m *m = getm();

	if (unlikely(!m))
		thread_checkpoint();
	else if (unlikely(ld_rlx(&m->p->attention)))
		park_yield();
}

/* What a call returns in place of a wait whose deadline has passed already; 0: it may wait. */
static inline int too_late(int64_t deadline)
{
	if (likely(deadline == NEVER) || gmp_now() < deadline)
		return 0;
	return self_cancelled() ? -ECANCELED : -ETIMEDOUT;
}

/* End gp's present wait with -ECANCELED, if it has been cancelled and its wait can be cut short. */
bool cancel_wait(struct g *gp);

/* The last step of a waker: let one it has claimed go on.  A green one runs next on this P (from a
 * external thread: soon). */
void ready(struct waiter *w);
/* The same for all of a list, which is empty then: one alone runs next, several in order, after
 * what is ready already. */
void ready_list(struct glist *list);

/* The M has no P: until there is one. */
void park_without_p(void);

/* A commit step that has nothing to unlock. */
void commit_none(void *arg);

#endif
