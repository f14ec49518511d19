/* SPDX-License-Identifier: MIT */
/*
 * Wakeups: submitters wake an idle M when there is work, and Ms go to sleep without a lost wakeup.
 *
 * Invariants
 *  D2 If a G is in a ring or in the global queue and a P is idle, then an M spins (and will find
 *     it), or has been woken, or the submitter is about to wake one (see "waking").
 *     A G in a runnext alone causes no wakeup: its P will run it at the next wait.  If the P does not
 *     reach its next wait, sysmon acts (sysmon.c).
 *     The same holds for a few Gs (WAKE_MIN of ready.h) that the poller or a timer made ready together: they
 *     run before a woken thread could, or sysmon acts.
 *  D3 Of the Ms without work at most half as many as there are busy Ps spin; the others sleep.  One
 *     of the sleepers sleeps in the poller, until the earliest timer of all.
 *
 * Waking: the submitter of work, and an M that goes to sleep
 *  submitter                                     sleeper (under D3, or after an unsuccessful spin)
 *   1 put the G where thieves look                1 under sched.lock: P to the idle list, M to the
 *   2 light fence                    ORD(idle)      list of sleepers               ORD(idle)
 *   3 a P idle?  then a full fence; and           2 if it spun: decrement nmspinning
 *     no M spinning?                              3 heavy fence (membarrier)
 *     then start a spinner: nmspinning 0 -> 1,    4 re-check every queue; if there is work:
 *     under sched.lock take an idle P and a         remove itself and a P from the lists,
 *     sleeping M, give the P to the M,              and spin
 *     wake the M                                  5 sleep
 *  Whichever of step 1 of the submitter and steps 1, 2 of the sleeper comes first in the order of
 *  the fences, either the submitter sees the idle P and no spinner, or the sleeper sees the G.  The
 *  light fence is no instruction; the membarrier of the sleeper, which is off the hot path, turns it into a
 *  full fence in every running thread.  Without membarrier in the kernel both are full fences.
 *  A spinning M that finds work stops spinning and, if there is more, starts the next spinner.  It has
 *  no heavy fence in between: hence the full fence of step 3, which is needed only if a P is idle.
 *  That none of this loses work is checked by model/wake.pml.
 *
 * Rejected: waking a thread for every ready G (a wake costs its caller 14 us; Go does it); a
 * condition variable per P (the same).
 */
#ifndef GMP_IDLE_H
#define GMP_IDLE_H

#include "base/os.h"
#include "types.h"

/* --- sleeping and waking up --- */

/* Steps 1 to 5 of the sleeper, until it is woken.  False: the runtime stops. */
bool stopm(struct m *m, struct p *pp);

/* Step 3 of the sleeper.  ORD(idle): the heavy side; if no P runs, all submitters are external threads,
 * which use the lock. */
void idle_fence(void);

/* Wakes the M that sleeps in the poller if the released pp has an earlier timer, or if it has to check
 * for a deadlock. */
void notify_poller(struct p *pp);

/* From no P to a P.  False: the runtime stops. */
bool wait_for_p(struct m *m);

/* A wake, a timer or an event has ended the sleep: take the P that was given, or an idle one.
 * Without one, the Gs that the poller made ready go to the global queue in the critical section in which
 * this M stops polling: a thread that saw only one of the two would report a deadlock. */
struct p *acquirep(struct m *m, struct glist *out);

/* The M has a P again: wake sysmon, which sleeps while no M has one. */
void wake_sysmon(void);

/* --- the end --- */

/* Tell every M to leave. */
void sched_stop(void);

#endif
