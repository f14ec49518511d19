/* SPDX-License-Identifier: MIT */
/*
 * Hand-off: gives the P of an M that cannot run Gs to another M, and finds a P for an M that returns.
 *
 * An M releases its P when its G is bound to it and stops (pin.c), or when its G is in blocking code
 * for long (blocking.c).
 *
 * Invariants
 *  HO1 A released P gets another M, or becomes idle with its queue moved to the global queue.  Both are
 *      decided in one critical section of sched.lock, or after the creation of a thread has failed.
 *  HO2 A released P becomes idle only if it has no work and an M sleeps that a later submitter can wake,
 *      or if no M is available.  The M that idles it then re-checks all queues, as a sleeper does (idle.h).
 *  HO3 An M that returns without a P is in the list of idle Ms, or is bound; in both cases a later
 *      hand-off or wakeup finds it.
 *  HO4 An M to which sched_hand_off gave a P stands in sched.handed until it runs (acquirep).  Until then
 *      an M that returns from blocking code may take that P: a wakeup lasts microseconds, on busy
 *      CPUs a time slice, and the P has work.  The returning G is enqueued behind that work.  An M with
 *      pinned Gs keeps its P: no other M can run them.
 *  HO5 An M that lost its P that way stands in sched.overtaken until it runs.  It is awake already, so
 *      the next hand-off gives it a P without a wakeup.  Otherwise it sleeps again, and re-checks the
 *      queues once it is in the list of idle Ms.
 *
 * BLOCK-3 of blocking.c is kept here: both ends of the count sched.nblocked.
 */
#ifndef GMP_HANDOFF_H
#define GMP_HANDOFF_H

#include "types.h"

/* Gives pp, which the caller owns and whose M is bound or in blocking code, to an idle M or to a new
 * one.  Idles pp if it has no work, or if no M is available.  blocked: count the G in sched.nblocked. */
void sched_hand_off(struct p *pp, bool blocked);
/* Whether pp has work that another M could run now: a queued G, or a timer that is due. */
bool p_has_work(struct p *pp);
/* Unlocked read: would sched_regain_p find a P now? */
bool sched_p_is_free(void);
/* A P for m, which returns from blocking code and whose P was taken: in this order its former P if it is
 * idle, the P of an M in a section that is expected to be long, the P of an M that does not run yet
 * (*overtook is true, and the caller has its G yield: HO4), another idle P.  False: there is none. */
bool sched_regain_p(struct m *m, bool *overtook);
/* On g0: gp, which m has run in blocking code without a P, goes to the global queue, and m to the idle Ms
 * unless it is bound.  False: the runtime stops. */
bool sched_queue_without_p(struct m *m, struct g *gp);

#endif
