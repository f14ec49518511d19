/* SPDX-License-Identifier: MIT */
/*
 * Hand-off: gives the P of an M that cannot run Gs to another M, and finds a P for an M that
 * returns.
 *
 * An M releases its P if its G is bound to it and stops (pin.h), or if its G is in blocking code
 * for long (wait/blocking.c).  sysmon takes the P of an M whose G computes for long, or sleeps in
 * the kernel (policy/take.h).  The story of scheduling: sched.h.
 *
 * Invariants
 *   HANDOFF-1  A released P gets another M, or becomes idle with its queue moved to the global
 *              queue.  Both are decided in one critical section of sched.lock, or after the
 *              creation of a thread failed.
 *   -          A released P becomes idle only if it has no work and an M is stopped that a later
 *              submitter can wake, or if no M is available.  The M that idles it then re-checks all
 *              queues, with the same protocol as stopm (idle.h).
 *   -          An M that returns without a P is among the stopped Ms, or is bound; in both cases a
 *              later hand-off or wakeup finds it.
 *   HANDOFF-4  A stopped M that sched_hand_off gave a P is in sched.handed until it runs
 *              (acquirep); a new M is not, and keeps the P.  Until then an M that returns from
 *              blocking code may take that P: a wakeup lasts microseconds, on busy CPUs a time
 *              slice, and the P has work.  The returning G is enqueued behind that work.  An M with
 *              pinned Gs keeps its P, since no other M can run them.
 *   HANDOFF-5  An M that lost its P that way is in sched.lostp until it runs.  It is awake
 *              already, so the next hand-off gives it a P without a wakeup.  Otherwise it stops
 *              again, and re-checks the queues once it is among the stopped Ms.
 *   HANDOFF-6  If a released P becomes idle, an M is in the poller, unless no M is stopped.  In
 *              stopm the M that releases the P becomes the poller if there is none; here it does
 *              not stop.  All stopped Ms may sleep on their futexes: when each stopped, an M was in
 *              the poller that has got this P since.  Without a new poller, no M would serve fds
 *              and timers, or detect a deadlock, once sysmon sleeps.
 *
 * BLOCK-3 of wait/blocking.c is kept here: both ends of the count sched.nblocked.  Verified by
 * model/block.pml.
 */
#ifndef GMP_HANDOFF_H
#define GMP_HANDOFF_H

#include "types.h"

/* Give pp, which the caller owns and whose M is bound, preempted or in blocking code, to a stopped
 * M or to a new one.  If an M is stopped and pp has no work, or if no M is available, idle it.
 * blocked: count the G in sched.nblocked. */
void sched_hand_off(struct p *pp, bool blocked);
/* Has pp work that another M could run now: a queued G, or a due timer?  Unlocked reads. */
bool p_has_work(struct p *pp);
/* Would sched_regain_p find a P now?  Unlocked reads. */
bool sched_p_is_free(void);
/*
 * Find a P for m, which returns from blocking code and whose P was taken.  In this order: its
 * former P if that is idle; the P of an M in a section of blocking code that is expected to be
 * long; the P of an M that does not run yet (*took_handed is true, and the caller makes its G
 * yield: HANDOFF-4); another idle P.  Returns false if there is none.
 */
bool sched_regain_p(struct m *m, bool *took_handed);
/*
 * On g0: m, which has no P, stops: it joins the stopped Ms unless it is bound.  gp, which it ran,
 * is enqueued globally; NULL: the G waits.  Returns false if the runtime stops.
 */
bool sched_stop_without_p(struct m *m, struct g *gp);

#endif
