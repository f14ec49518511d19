/* SPDX-License-Identifier: MIT */
/*
 * Sources of runnable Gs: asks the timers and the poller on behalf of a P.
 *
 * A source returns the Gs as a struct glist; this file enqueues them.  When a source is asked:
 * sched.h.
 *
 * Invariant
 *   SOURCE-1  Gs of timers run before runnext and before the ring, earliest deadline first, within
 *             a budget.  While other Gs are queued, timers (firing them, and the runs of their Gs)
 *             use a token bucket of CPU time: its depth is QUANTUM_TICKS, and it is refilled with
 *             DUE_SHARE times the time that the other Gs run.  It is charged after each batch of
 *             DUE_BATCH Gs, so a batch may overdraw it, by a deficit of DEFICIT_TICKS at most.
 *             While it is empty the others run, and timers that are due stay in the heap.
 *   -         Bounded starvation: timers take at most three quarters of a P's time, unless a single
 *             run of a G of a timer takes longer than DEFICIT_TICKS / DUE_BATCH.  In replayed runs
 *             a switch counts as 10 us.
 */
#ifndef GMP_SOURCE_H
#define GMP_SOURCE_H

#include "types.h"

/* Fire the due timers of pp, and enqueue their Gs (SOURCE-1).  Owner only, on g0. */
void run_own_timers(struct p *pp);
/* The same.  Returns a G of a timer, to run before all others; NULL: there is none. */
struct g *due_work(struct p *pp);
/* Fire the due timers of other Ps, which are busy or idle; the Gs go to pp. */
void steal_timers(struct p *pp);

/* A G or an external thread waits for an fd, and no M sleeps in the poller.  Unlocked reads. */
bool sched_should_poll(void);
/* Poll without waiting, and make the Gs runnable.  sysmon calls report_suspend before it. */
void sched_poll_now(void);
/* Poll, waiting for ns at most (NEVER: indefinitely).  Runnable Gs are appended to out. */
void sched_poll(int64_t ns, struct glist *out);
/* sched_poll_now, if schedtick has grown by the number of Gs of events that waited for pp after its
 * last poll. */
void poll_if_due(struct p *pp);

#endif
