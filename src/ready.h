/* SPDX-License-Identifier: MIT */
/*
 * A green thread has become ready: where does it wait for its turn, and is an M woken for it (idle.h)?
 *
 *   made ready by                     goes                        is an M woken, where a P is idle?
 *    a green thread, one alone         to this P's runnext         no; but for the former runnext, which
 *                                                                  goes to the ring
 *    a green thread, several           to the ring, in order       yes
 *    the poller                        to the ring, in order       from WAKE_MIN on
 *    a timer                           before the ring, in order   from WAKE_MIN_DUE on; from WAKE_MIN on if
 *                                                                  some are there at the next look at
 *                                                                  the clock, 10 us later
 *    a thread without a P              to the global queue         yes
 *
 * A P that is in_order (types.h) has no runnext: one alone goes to the ring, too.  What a timer makes ready
 * goes to the ring's tail there, and where the ring is empty or has no room.
 */
#ifndef GMP_READY_H
#define GMP_READY_H

#include "base/os.h"
#include "types.h"

/* Gs that became ready together: fewer are sooner run than shared. */
enum { WAKE_MIN = 8, WAKE_MIN_DUE = 32 };

/* Make it runnable: as this P's next, at its ring's tail, or, from a external thread, globally. */
void sched_submit(struct g *gp, bool next);
/* The caller is about to wait for the end of gp: it runs at once, if it is what this P has last made
 * ready.  So a tree of calls that fork and join is gone through in depth, on stacks that are warm, and
 * not in breadth; thieves take its large branches from the other end. */
void sched_run_next(struct g *gp);
/* All of a list, external threads too: at the tail. */
void sched_submit_list(struct glist *list);
/* The same for what timers have made ready. */
void sched_submit_due(struct glist *list);
/* The same, before the Gs in the ring.  Returns how many are there, up to the place *end; 0 if the ring has no
 * room and all are at the tail. */
uint32_t sched_submit_first(struct glist *list, uint32_t *end);
/* The next look at the clock, if wake_deferred. */
void sched_submit_late(struct p *pp);
void sched_wake_external(struct waiter *w);

/* --- waking an M --- */

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

#endif
