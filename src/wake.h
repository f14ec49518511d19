/* SPDX-License-Identifier: MIT */
/*
 * Who gets up when there is work, and how does an M go to sleep without missing any?
 *
 * Invariants
 *  D2 If a G is in a ring or in the global queue and a P is idle, then an M spins (and will find
 *     it), or has been woken, or the submitter is just about to (see "waking").
 *     A G in a runnext alone wakes nobody: its P will run it at the next wait.  The watcher
 *     (sysmon.c) sees to a P that does not come to its next wait.
 *     Likewise a few Gs (WAKE_FROM of submit.h) that the poller or a timer made ready together: they are run
 *     sooner than a thread wakes, or else the watcher sees to them.
 *  D3 Of the Ms without work at most half as many as there are busy Ps spin; the others sleep.  One
 *     of the sleepers sleeps in the poller, until the earliest timer of all.
 *
 * Waking: who submits work, and who goes to sleep
 *  submitter                                     sleeper (under D3, or after spinning in vain)
 *   1 put the G where thieves look                1 under sched.lock: P to the idle list, M to the
 *   2 light fence                    ORD(idle)      list of sleepers               ORD(idle)
 *   3 a P idle?  then a full fence; and           2 it spun: one spinning less
 *     nobody spinning?                            3 heavy fence (membarrier)
 *     then make one spin: nmspinning 0 -> 1,      4 look at every queue once more; if there is
 *     take an idle P and a sleeping M               work: take itself and a P out of the lists,
 *     under sched.lock, give the one to the         and spin
 *     other, wake it                              5 sleep
 *  Whichever of step 1 of the submitter and steps 1, 2 of the sleeper comes first in the order of
 *  the fences, either the submitter sees the idle P and no spinner, or the sleeper sees the G.  The
 *  light fence is no instruction; membarrier makes it one in every running thread when the sleeper,
 *  who has the time, asks.  Where the kernel has no membarrier both are full fences.
 *  Who spins and finds work stops spinning and, if there is more, makes the next one spin.  It has
 *  no heavy fence between: hence the full one of step 3, which is needed only where a P is idle.
 *  That none of this loses work is checked by model/wake.pml.
 *
 * Rejected: waking a thread for every ready G (a wake costs its caller 14 us; Go does it); a
 * condition variable per P (the same).
 */
#ifndef GMP_WAKE_H
#define GMP_WAKE_H

#include "base/os.h"
#include "runtime.h"

/* --- waking --- */

/* There is work that another P could take: see that one looks for it. */
void wakep(void);

/* The cheap side of a pair whose other side is os_membarrier: no instruction, where that works. */
static inline void sched_light_fence(void)
{
	if (likely(sched.asymmetric))
		fence_light();
	else
		fence_seq(); /* ORD(idle), ORD(cancel) */
}

/* The other side. */
static inline void sched_heavy_fence(void)
{
	if (likely(sched.asymmetric))
		os_membarrier();
	else
		fence_seq(); /* ORD(idle), ORD(cancel) */
}

/* Cheap guard of wakep, for a P that has just put something where thieves may take it. */
static inline void wake_if_idle(void)
{
	sched_light_fence(); /* ORD(idle): see "waking" */
	if (likely(ld_rlx(&sched.npidle) == 0))
		return;
	fence_seq(); /* ORD(idle): who ends its search has no heavy fence for us */
	if (ld_rlx(&sched.nmspinning) == 0)
		wakep();
}

/* Work that a thief could take: step 4 of the sleeper.  But for what has been found on `few`, if a timer
 * or the poller made it ready there and it is little enough to wake nobody (D2). */
bool work_in_sight_but(struct p *few);
static inline bool work_in_sight(void)
{
	return work_in_sight_but(NULL);
}

/* An M has joined the sleepers that did not come from its last look: who had work for one before
 * may have found none to wake, in a section of sched.lock before this M's. */
void wake_for_what_waited(void);

static inline void stop_spinning(struct m *m)
{
	m->spinning = false;
	sub_seq(&sched.nmspinning, 1); /* ORD(idle) */
}

/* A thread for a P, since no M sleeps; without one, a thread that sleeps. */
bool start_m(struct p *pp, bool spinning);

/* --- sleeping and getting up --- */

/* Steps 1 to 5 of the sleeper, and getting up.  False: the runtime stops. */
bool m_rest(struct m *m, struct p *pp);

/* Step 3 of the sleeper.  ORD(idle): the heavy side; where no P runs, all submitters are foreign,
 * and go by the lock. */
void after_giving_up(void);

/* The M in the poller fell asleep before this M did.  The timers of the P that it has given up are
 * the poller's business now, and so is it to find that nothing can run any more. */
void tell_poller(struct p *pp);

/* From no P to a P.  False: the runtime stops. */
bool sleep_until_p(struct m *m);

/* A wake, a timer or an event has ended the sleep: take the P that was given, or an idle one.
 * Without one, what the poller gave goes to the global queue in the same critical section in which
 * this M stops being the one who polls: nobody sees the one without the other, and takes it for a
 * deadlock. */
struct p *take_p(struct m *m, struct glist *out);

/* The M has a P again: the watcher, who sleeps while none has, is to look. */
void rouse_sysmon(void);

/* Out of the scheduler, for good. */
leaves_by_jump int leave_g0(struct m *m);

/* --- has everything come to an end? --- */

/* No P is run by an M; those that are to go, and are still at it, count too, and so do those whose M
 * may come back from blocking code at any time. */
bool sched_all_idle(void);
/* Nothing runs, and nobody waits for a descriptor or is in blocking code: only time can go on. */
bool sched_only_time(void);
/* Nothing can run, as far as the scheduler knows: looked at under its lock. */
bool sched_stalled_locked(void);

/* --- the end --- */

/* Tell every M to leave. */
void sched_stop(void);

#endif
