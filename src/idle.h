/* SPDX-License-Identifier: MIT */
/*
 * Wakeups: submitters wake an idle M when there is work, and Ms go to sleep without a lost wakeup.
 *
 * Invariants
 *  D2 If a G is in a ring or in the global queue and a P is idle, then an M spins (and will find
 *     it), or has been woken, or the submitter is about to wake one (see "waking").
 *     A G in a runnext alone causes no wakeup: its P will run it at the next wait.  If the P does not
 *     reach its next wait, sysmon acts (sysmon.c).
 *     The same holds for a few Gs (WAKE_FROM of ready.h) that the poller or a timer made ready together: they
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

/* --- waking --- */

/* There is work that another P could take: start a spinner, if none spins and a P is idle. */
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

/* Fast path of wakep, for a P that has just enqueued a G that thieves may take. */
static inline void wake_if_idle(void)
{
	sched_light_fence(); /* ORD(idle): see "waking" */
	if (likely(ld_rlx(&sched.npidle) == 0))
		return;
	fence_seq(); /* ORD(idle): an M that ends its spin has no heavy fence */
	if (ld_rlx(&sched.nmspinning) == 0)
		wakep();
}

/* Step 4 of the sleeper: is there work that a thief could take?  Except Gs on `few` that a timer or the
 * poller made ready there, if they are too few for a wakeup (D2). */
bool has_work_except(struct p *few);
static inline bool has_work(void)
{
	return has_work_except(NULL);
}

/* Re-check for an M that has joined the idle Ms without steps 1 to 4 of the sleeper: a submitter may have
 * found no M to wake, in a critical section of sched.lock before this M's. */
void wake_for_queued(void);

static inline void stop_spinning(struct m *m)
{
	m->spinning = false;
	sub_seq(&sched.nmspinning, 1); /* ORD(idle) */
}

/* A new M for pp, since no M sleeps; pp NULL: one that sleeps at once. */
bool start_m(struct p *pp, bool spinning);

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

/* The M leaves the scheduler and ends. */
leaves_by_jump int leave_g0(struct m *m);

/* --- has everything come to an end? --- */

/* No M runs a P.  A P that is to be removed and still runs counts as run, and so does one whose M may
 * return from blocking code at any time. */
bool sched_all_idle(void);
/* No G runs, waits for a file descriptor or is in blocking code: only a timer can make one ready. */
bool sched_only_time(void);
/* Nothing can run, as far as the scheduler knows: looked at under its lock. */
bool sched_stalled_locked(void);

/* --- the end --- */

/* Tell every M to leave. */
void sched_stop(void);

#endif
