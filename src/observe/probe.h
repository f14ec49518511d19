/* SPDX-License-Identifier: MIT */
/*
 * Probes: the places where the core tells latency and events what happens to a G.
 *
 *   probe                  called by                        observers
 *   probe_wants,           ready.c, each enqueue on a P     latency sample; event SPAWN or READY
 *     probe_ready
 *   probe_ready_global     ready.c, idle.c: enqueue in the  latency; event SPAWN or READY
 *                          global queue, without a P
 *   probe_yield            park.c: a G yields               latency sample
 *   probe_queued           handoff.c: a G without a P       latency
 *                          stops; runq.c: sysmon empties
 *                          the queue of a P that does not
 *                          switch
 *   probe_late_timers      source.c: the first G of a late  latency
 *                          batch of timers
 *   probe_began            sched.c: a G runs by a slow      latency, with RESUME_MEASURED
 *                          path
 *   probe_run              sched.c: a G runs                event RUN; running time
 *   probe_lose_p           handoff.c: a G without a P       event LOSE_P; running time
 *                          leaves its stack
 *   probe_block,           wait/blocking.c                  events BLOCK, UNBLOCK; running time
 *     probe_unblock
 *
 * Not here: a G that leaves its stack is observed by the leave steps (variant/leave.h).  Events
 * that are not of a G are emitted where their counter is increased (base/emit.h).  The observer of
 * GMP_DEBUG=check is called by sched.up.on_leave, on_exit and on_arrive.
 */
#ifndef GMP_PROBE_H
#define GMP_PROBE_H

#include "observe/latency.h"
#include "observe/tracing.h"

/* A G becomes runnable on pp, the caller's P.  Once for each; true: call probe_ready. */
static inline bool probe_wants(struct p *pp)
{
	return unlikely(latency_draw(pp)) || unlikely(recording());
}

/* gp, which pp's probe_wants stands for, is about to be enqueued. */
static inline void probe_ready(struct p *pp, struct g *gp, enum event_queue queue,
			       gmp_latency_cause cause)
{
	observe_ready(pp, gp, queue, cause);
}

/* gp is about to be made runnable in the global queue, by a thread without a P. */
static inline void probe_ready_global(struct g *gp, uint64_t ticks)
{
	latency_stamp_now(gp, latency_cause_of(gp), ticks);
	trace_ready(gp, QUEUE_GLOBAL, latency_cause_of(gp));
}

static inline void probe_yield(struct p *pp, struct g *gp)
{
	if (unlikely(latency_draw(pp)))
		latency_sample(pp, gp, GMP_LATENCY_YIELD);
}

/* gp, which was runnable or ran, is about to enter the global queue; cause: what it waits for. */
static inline void probe_queued(struct g *gp, gmp_latency_cause cause, uint64_t ticks)
{
	latency_stamp_now(gp, cause, ticks);
}

/* The earliest timer of a batch, whose first G is gp, was late by so many ns.  gp: or NULL. */
static inline void probe_late_timers(struct g *gp, uint64_t late)
{
	if (unlikely(late >= LATENCY_LATE_NS) && gp)
		latency_stamp(gp, GMP_LATENCY_TIMER, false);
}

/* gp is about to run on pp. */
static inline void probe_began(struct p *pp, struct g *gp)
{
	if (gp->resume & RESUME_MEASURED)
		latency_record(pp, gp);
}

/* m, which has a P, is about to switch to gp. */
static inline void probe_run(struct m *m, struct g *gp)
{
	if (unlikely(recording()))
		trace_run_event(m, m->p, gp);
}

/* gp, without a P, leaves its stack until m has one. */
static inline void probe_lose_p(struct m *m, struct g *gp)
{
	trace_leave(m, gp, EVENT_LOSE_P, 0, 0, 0);
}

/* The G of m enters blocking code; it leaves it, with or without a P. */
static inline void probe_block(struct m *m)
{
	if (unlikely(recording()))
		trace_block_event(m);
}

static inline void probe_unblock(struct m *m, bool has_p)
{
	if (unlikely(recording()))
		trace_unblock_event(m, has_p);
}

#endif
