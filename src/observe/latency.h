/* SPDX-License-Identifier: MIT */
/*
 * Scheduling latency: how long a G is runnable before it runs, and how long a P runs without a
 * switch.
 *
 * Three sources fill the histograms of a P, one for each cause:
 *   1. sampling: of the Gs that become runnable on a P, one in LATENCY_EVERY on average. The
 *      distance between two samples varies, so that it does not beat with a program's own rhythm.
 *      Weight: LATENCY_EVERY.
 *   2. rare paths, where each G is measured: made runnable by a thread without a P, or taken by
 *      sysmon from a P that does not switch (runq_spill). Weight: 1.
 *   3. the first of a batch of timers, if it is later than LATENCY_LATE_NS. Weight: 1.
 * A quantile is taken over the weights, so it estimates the share of all wakeups.
 *
 * sysmon adds what a sample may miss (latency_watch): each time it polls a P, it notes since when
 * the P runs without a switch, and since when the same G is first in its queue. Both are too short
 * by up to two intervals of sysmon (1 ms to 10 ms), and never too long.
 *
 * Invariants
 *  - RESUME_MEASURED, ready_at and measured belong to the thread that makes the G
 *    runnable, until it publishes the G in a queue; then to the P that runs it, or to the
 *    thief or the sysmon that has taken it.
 *  - The fast path pays one decrement and one branch for each G that becomes runnable, and
 *    nothing for each run: RESUME_MEASURED is one of the bits that are tested there
 *    anyway.
 *  - `watched.since` is no older than the run that `watched.steps` stands for: since is
 *    written first.                                                   ORD(p.watched)
 *
 * Rejected: a coarse stamp in every G (two more instructions for each yield, 1.2 %).
 */
#ifndef GMP_LATENCY_H
#define GMP_LATENCY_H

#include "types.h"

enum {
	LATENCY_EVERY = 64,
	LATENCY_LATE_NS = MS, /* far above what a timer is late on an idle machine (0.1 ms) */
	/* g.measured: gmp_latency_cause, and whether the weight is LATENCY_EVERY in place of 1 */
	LATENCY_CAUSE_MASK = 15,
	LATENCY_SAMPLED = 16,
};

/* Four buckets an octave: the bounds are exact to a fifth. */
static inline unsigned latency_bucket(uint64_t ticks)
{
	unsigned octave = 63 - (unsigned)__builtin_clzll(ticks | 4);
	unsigned bucket = (octave - 1) * 4 + (unsigned)(ticks >> (octave - 2) & 3);

	return ticks < 4 ? (unsigned)ticks : min_of(bucket, (unsigned)LATENCY_BUCKETS - 1);
}

extern const char *const latency_causes[GMP_LATENCY_CAUSES]; /* their names */

/* Returns the largest value of a bucket. */
uint64_t latency_bound(unsigned bucket);

/* One G becomes runnable on the caller's P.  Returns true if it must be measured. */
static inline bool latency_draw(struct p *pp)
{
	return --pp->sample_in == 0;
}

/* Measures gp, before it is published.  For GMP_LATENCY_TIMER, gp->ready_at is its deadline. */
void latency_sample(struct p *pp, struct g *gp, gmp_latency_cause cause);
/* The same without a draw. */
void latency_stamp(struct g *gp, gmp_latency_cause cause, bool sampled);

/* The same, called by a thread without a P. */
static inline void latency_stamp_now(struct g *gp, gmp_latency_cause cause, uint64_t ticks)
{
	st_rlx(&gp->ready_at, ticks);
	gp->measured = (uint8_t)cause;
	gp->resume |= RESUME_MEASURED;
}

/* Returns what made gp runnable, if it was neither a timer nor a yield. */
gmp_latency_cause latency_cause_of(const struct g *gp);

/* Records the latency of gp, which has RESUME_MEASURED and runs now on the caller's P.  Clears the
 * bit. */
void latency_record(struct p *pp, struct g *gp);

/* Called by sysmon at each poll of pp. */
void latency_watch(struct p *pp, int64_t now);
/* Adds the present run of pp, as far as sysmon knows it, to sched.longest.run.  So a later reading
 * is not smaller, even if the run ends between two polls of sysmon.  From any thread. */
void latency_note_running(struct p *pp, int64_t now);

#endif
