/* SPDX-License-Identifier: MIT */
/*
 * Idle Ms: stop an M without a lost wakeup, and let it acquire a P when it is woken.
 *
 * Wakeup protocol: no runnable G is left in a queue while a P is idle and no M spins.
 *
 *   submitter (ready.h)                          M that goes idle (stopm)
 *    1 publish G in a ring or the global queue    1 under sched.lock: P to the idle list, M to
 *    2 light fence                 ORD(idle)        the stopped Ms                  ORD(idle)
 *    3 if a P is idle: full fence                 2 if it was spinning: nmspinning - 1
 *    4 if nmspinning == 0: CAS it to 1; under     3 heavy fence (membarrier)
 *      sched.lock take an idle P and a stopped    4 re-check every queue; if one is not empty,
 *      M (or start one), give the P to the M;       under sched.lock take M and a P off the
 *      wake the M                                   lists, and spin
 *                                                 5 sleep
 *
 * Store-buffering (Dekker): each side writes, fences, then reads what the other side writes.  At
 * least one of them sees the other's write: the submitter sees the idle P and no spinning M, or the
 * idle M sees the G.  The fences are asymmetric because submitting is frequent and going idle is
 * rare: the light fence is no instruction, and the membarrier makes it a full fence in every
 * running thread. Without membarrier in the kernel both are full fences.
 *
 * An M that ends its spin with a G starts the next spinner if there is more work
 * (execute_found_g0).  It has a full fence between nmspinning - 1 and its re-check, and no heavy
 * one, so the submitter needs the full fence of step 3, which costs only if a P is idle.  On x86
 * the M's fence is the locked instruction itself.
 *
 * Verified by model/wake.pml, and with reordering by model/dekker.pml.  Lost wakeup if step 3 of
 * the idle M is removed: mutant NO_HEAVY_FENCE.
 *
 * Invariants
 *   IDLE-1  If a G is in a ring or in the global queue and a P is idle, then an M spins (and will
 *           find the G), or has been woken, or the submitter is about to wake one.
 *   -       Exceptions: a G in runnext alone, which its P runs at the next wait; a G that yields
 *           into a ring; the rings of a P that is not open to thieves (runq.h); and the Gs of a P
 *           with fewer than WAKE_MIN in its rings that the poller made runnable (WAKE_MIN_DUE: a
 *           timer), which run before a woken M could take them.  If that P does not reach its next
 *           wait, sysmon acts (monitor/progress.c).
 *   IDLE-2  A search begins to spin only if fewer Ms spin than half the busy Ps (may_spin); an M
 *           that was woken to spin does so.  The others stop.  One of
 *           the stopped Ms sleeps in the poller, until the earliest timer of all Ps.
 *
 * Rejected
 *   A wakeup for every runnable G (Go): a wakeup costs its caller 14 us.
 *   A condition variable per P: the same.
 */
#ifndef GMP_IDLE_H
#define GMP_IDLE_H

#include "base/os.h"
#include "types.h"

/* --- stopping --- */

/* Steps 1 to 5 of an idle M, until it is woken with a P; also returns at once if there is work.
 * Returns false if the runtime stops. */
bool stopm(struct m *m, struct p *pp);

/* Step 3.  ORD(idle): the heavy side; if no P runs, all submitters are external threads, which take
 * sched.lock. */
void idle_fence(void);

/* Wake the M in the poller if the released pp has an earlier timer, or if it must check for a
 * deadlock. */
void notify_poller(struct p *pp);

/* Between the two calls no deadlock is reported: a thread without a P has Gs that are in no queue
 * yet (SYSMON-3).  The second one calls notify_poller. */
void report_suspend(void);
void report_resume(void);

/* --- acquiring a P --- */

/* Sleep until m, a stopped M without a P, has one.  Returns false if the runtime stops. */
bool wait_for_p(struct m *m);

/*
 * Take the P that a waker gave to m, or an idle one, after a wakeup, a timer or an event; for these
 * two also that of a G in blocking code (BLOCK-5).  Returns NULL if there is none.  Then the Gs of
 * *out, which the poller made runnable, go to the global queue in the critical section in which m
 * leaves the poller: a thread that saw only one of the two would report a deadlock.
 */
struct p *acquirep(struct m *m, struct glist *out);

/* An M has a P again: wake sysmon, which sleeps while no M has one. */
void wake_sysmon(void);

/* --- the end of a run --- */

/* Make every M leave the scheduler. */
void sched_stop(void);

#endif
