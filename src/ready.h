/* SPDX-License-Identifier: MIT */
/*
 * Ready: enqueues a G that has become runnable, and wakes an M for it.
 *
 *   made runnable by          goes to                        is an M woken, if a P is idle?
 *    a G, a single G           runnext of this P              no, except for the former runnext,
 *                                                             which moves to the ring
 *    a G, several Gs           the event lane, in order       yes
 *    the poller                the event lane, in order       from WAKE_MIN Gs on
 *    a timer                   its front, in order            from WAKE_MIN_DUE Gs; from WAKE_MIN,
 *                                                             if some are there 10 us later
 *    a thread without a P      the global queue               yes; otherwise a P is asked to check
 *                                                             that queue (PICK-3)
 *    itself: it yields         the yield lane                 no
 *
 * A G that has not run goes to the lane of new Gs instead, unless a timer made it.  A P without
 * runnext (variant/variant.h) has only the event lane, and puts a single G at its tail too.  Gs of
 * timers go to the tail there, and on any P if no other G waits or the ring is full.
 *
 * The story of scheduling: sched.h.  The wakeup protocol, of which wake_if_idle and wakep are the
 * submitter's side, is in idle.h.
 */
#ifndef GMP_READY_H
#define GMP_READY_H

#include "base/os.h"
#include "types.h"

/* Make gp runnable: as runnext of this P (next), at its ring's tail, or, without a P, globally. */
void sched_submit(struct g *gp, bool next);
/* The same for a caller in a P section, whose P is pp. */
void sched_submit_here(struct p *pp, struct g *gp, bool next);
/*
 * The caller is about to join gp: make gp runnext, if it is the G that this P has enqueued last.  A
 * tree of calls that fork and join is thus traversed depth first, on warm stacks; thieves take its
 * large branches from the head of the ring.
 */
void sched_run_next(struct g *gp);
/* Make all of a list runnable, also external threads; Gs go to the tail.  The list is empty
 * then. */
void sched_submit_list(struct glist *list);
/* The same for Gs that timers made runnable. */
void sched_submit_due(struct glist *list);
/* The same, but in front of the Gs in the ring.  Returns how many are there, up to the place *end;
 * 0 if the ring has no room, and all are at the tail. */
uint32_t sched_submit_first(struct glist *list, uint32_t *end);
/* Wake an M for Gs of timers that are still queued (pp->wake_deferred). */
void sched_submit_late(struct p *pp);
/* Make pp check the global queue and the poller at its next switch (PICK-3). */
void sched_ask_check(struct p *pp);
/* A G is in the global queue, and a full fence came after it: if no P is idle, ask one to check
 * (PICK-3).  Any thread. */
void sched_ask_one(void);
/* The last access to the waiter of an external thread: WAITER_DONE, and a wakeup. */
void sched_wake_external(struct waiter *w);

/* --- waking an M --- */

/* Wake or start an M that spins, if no M spins and a P is idle. */
void wakep(void);

/* The cheap side of a Dekker pair whose other side is sched_heavy_fence: no instruction, if
 * membarrier works. */
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
	sched_light_fence(); /* ORD(idle): step 2 of the submitter */
	if (likely(ld_rlx(&sched.npidle) == 0))
		return;
	fence_seq(); /* ORD(idle): step 3; an M that stops spinning has no heavy fence */
	if (ld_rlx(&sched.nmspinning) == 0)
		wakep();
}

/*
 * Step 4 of an M that goes idle: can a thief take a G?  Ignores Gs on `few` that a timer or the
 * poller made runnable there, if they are too few for a wakeup (IDLE-1); NULL: none are ignored.
 */
bool has_work_except(struct p *few);
static inline bool has_work(void)
{
	return has_work_except(NULL);
}

/* Re-check the queues for an M that has joined the stopped Ms without steps 1 to 4 of an idle M: a
 * submitter may have found no M to wake in an earlier critical section of sched.lock. */
void wake_for_queued(void);

static inline void stop_spinning(struct m *m)
{
	st_rlx(&m->spinning, false);
	sub_seq(&sched.nmspinning, 1); /* ORD(idle) */
	fence_after_rmw_seq();         /* ORD(idle): before the queues are re-checked */
}

/* Start a new M, reserved before (m_reserve_locked), with pp; NULL: the M stops at once.
 * for_blocked: pp is of an M in blocking code.  Returns false without memory or an OS thread. */
bool start_m(struct p *pp, bool spinning, bool for_blocked);

#endif
