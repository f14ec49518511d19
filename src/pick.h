/* SPDX-License-Identifier: MIT */
/*
 * Where a P finds its next G: its own queues, the global queue, other Ps.
 *
 * The order in which these are asked is in sched.h; spinning ends in idle.h.
 *
 * Invariants
 *   PICK-1  The G in runnext inherits the time slice of the G that made it runnable, at most
 *           INHERIT_MAX times in a row; after about SLICE_TICKS it moves to the tail of the ring.
 *           Two Gs that wake each other therefore share one time slice and cannot starve the ring.
 *   PICK-2  Contention: a spinning M backs off from a P that makes progress.  Each probe of a ring
 *           takes cache lines from its owner, so the interval between probes doubles after each
 *           failed one. Gs that the owner is about to run are stolen only in the last probe.
 *   PICK-3  Fairness of the global queue: a G in it reaches the tail of a ring after about two
 *           switches per G ahead of it, even if no ring ever becomes empty.  At every
 *           GLOBAL_INTERVAL-th switch a P takes half as many Gs as it has run since the last time,
 *           and polls.  If a P makes fewer switches than that between two polls of sysmon, sysmon
 *           asks for it (ATTENTION_TURN): so also long runs delay it by a few ms only.
 *
 * Rejected
 *   Stealing single Gs: one cache miss per G.
 *   One G of the global queue per 61 switches (Go): with 0.5 ms per switch, 1,000 Gs in the global
 *   queue wait for half a minute.
 */
#ifndef GMP_PICK_H
#define GMP_PICK_H

#include "mode/hooks.h"
#include "runq.h"
#include "source.h"
#include "types.h"

enum {
	INHERIT_MAX = 64,          /* PICK-1: the clock is read once in so many switches */
	GLOBAL_INTERVAL = 61,      /* PICK-3; a prime: no beat with a rhythm of the program */
	GLOBAL_CHECK_BATCH = 32,   /* PICK-3: about half of GLOBAL_INTERVAL */
	GLOBAL_BATCH = RUNQ_BATCH, /* for a P without other work */
};

/*
 * PICK-1, when runnext has inherited the slice INHERIT_MAX times.  Returns true if the slice lasts.
 * An end that is left over from an earlier slice makes one slice short, which does no harm.  Not
 * inline, since it is rare; not external, since the compiler then saves fewer registers in
 * schedule_g0 (5 instructions).
 */
static noinline bool pick_slice_continues(struct p *pp)
{
	uint64_t now = cpu_ticks();

	if (mode_ignores_clock())
		return false;
	if (!pp->slice_end)
		pp->slice_end = now + SLICE_TICKS;
	if (now < pp->slice_end) {
		pp->inherited = 0;
		return true;
	}
	pp->slice_end = 0;
	return false;
}

static inline struct g *runnext_take(struct p *pp)
{
	return ld_rlx(&pp->runnext) ? runnext_swap(pp, NULL) : NULL;
}

/* Take the next G of pp's own queues: runnext, then the ring.  Owner only. */
static inline struct g *local_work(struct p *pp)
{
	struct g *gp;

	if (ld_rlx(&pp->runnext)) {
		if (likely(pp->inherited < INHERIT_MAX || pick_slice_continues(pp)) &&
		    (gp = runnext_take(pp))) {
			pp->inherited++;
			return gp;
		}
		if ((gp = runnext_take(pp)))
			runq_put(pp, gp); /* PICK-1 */
	}
	pp->inherited = 0;
	bump(&pp->schedtick, 1);
	return runq_get(pp);
}

/* Take one G of the global queue, and move up to most - 1 more to pp's ring.  Owner only. */
struct g *from_global(struct p *pp, unsigned most);
/* PICK-3: the same at every GLOBAL_INTERVAL-th switch, after the poller if that is due. */
struct g *check_global(struct p *pp);

/* May m spin?  At most half as many Ms as there are busy Ps do (IDLE-2). */
bool may_spin(struct m *m);
/*
 * Search other Ps and all sources for up to m->patience.  The M counts as spinning from here on.
 * Returns NULL if there is no work, or if pp has to attend.  *from_source: the G, and what lies on
 * pp now, comes from a timer or the poller.
 */
struct g *spin_for_work(struct m *m, struct p *pp, bool *from_source);

#endif
