/* SPDX-License-Identifier: MIT */
/*
 * Sources of runnable Gs: the timers and the poller, asked on behalf of a P.
 *
 * Invariant
 *  SOURCE-1 Gs that timers made ready run before runnext and before the ring, earliest deadline first, within a
 *     budget.  While other Gs wait, firing timers and running these Gs takes at most SLICE_TICKS, plus the
 *     runs of DUE_BATCH Gs, plus DUE_SHARE times the time that the others have had since.  Then the others run
 *     until DUE_SHARE times their time makes up for what timers have used in excess, DUE_DEBT at most; timers
 *     that are due meanwhile stay in the heap.  So timers take at most three quarters of a P's time from Gs that
 *     wait, unless a single run of a G that a timer made ready takes longer than DUE_DEBT / DUE_BATCH.  In
 *     replayed runs a switch counts as 10 us.
 */
#ifndef GMP_SOURCE_H
#define GMP_SOURCE_H

#include "types.h"

enum { SLICE_TICKS = 200 * TICKS_10US };

/* Fire the due timers of the caller's P (SOURCE-1). */
void run_own_timers(struct p *pp);
/* The same.  Returns the G of a timer that runs before all others; NULL: there is none. */
struct g *due_work(struct p *pp);
/* Fire the timers of other Ps that are due: their owners are busy, or have no M. */
void steal_timers(struct p *pp);

/* A G or an external thread waits for a descriptor, and no M sleeps in the poller. */
bool sched_should_poll(void);
/* Ask the kernel without waiting. */
void sched_poll_now(void);
/* Ask the kernel, and wait for ns at most. */
void sched_poll(int64_t ns, struct glist *out);
/* sched_poll_now, if this P has run as many Gs as were ready at its last poll. */
void poll_if_due(struct p *pp);

#endif
