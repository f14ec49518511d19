/* SPDX-License-Identifier: MIT */
/*
 * Where a P finds its next G: its own queues, the global queue, other Ps.
 *
 * The order in which sched.c asks these is in sched.h; an M that finds nothing stops (idle.h).
 *
 * Invariants
 *   PICK-1  The G in runnext inherits the quantum of the G that made it runnable.  The clock is
 *           read once in INHERIT_MAX such switches in a row; once about QUANTUM_TICKS have passed,
 *           the G in runnext moves to the tail of the yield lane (in replayed runs after
 *           INHERIT_MAX).  Two Gs that wake each other therefore share one quantum and cannot
 *           starve the rings.
 *   PICK-2  Contention: a spinning M probes other Ps with exponential backoff, since each probe of
 *           a ring takes cache lines from its owner.  Until the last probe it does not steal from a
 *           P that will soon have emptied its rings at its present rate.
 *   PICK-3  Fairness of the global queue and of the poller: after GLOBAL_INTERVAL switches, or
 *           about CHECK_TICKS if that is earlier, a P polls, and takes up to GLOBAL_CHECK_BATCH Gs
 *           of events and new Gs of the global queue.  Such a G reaches the tail of its lane
 *           after about two switches per G ahead of it, even if no ring ever becomes empty.  The
 *           interval, in switches, is CHECK_TICKS divided by the mean run time in the last
 *           interval; it at most doubles, up to GLOBAL_INTERVAL.
 *   -       If a check took the G that ran last, and pp has a G of an event or a new one, a check
 *           takes none: two such Gs never run in a row, nor with only Gs of timers and pinned Gs
 *           between them.  Otherwise the lanes would starve while each switch is a check: shortly
 *           before a quantum (PICK-4), or while Gs run for about CHECK_TICKS / 2 or more.
 *   -       A thread without a P that enqueues a G while no P is idle asks one P to check at its
 *           next switch outside of a quantum (ATTENTION_CHECK); sysmon asks each P that makes few
 *           switches between two polls of its own.
 *   PICK-4  Deficit round robin: the lanes of events and new Gs run before the yield lane (runq.h),
 *           and none starves.  While Gs of the yield lane (of the P or of the global queue) wait,
 *           each check of PICK-3 adds a quarter of the time of the P to their credit.  What they
 *           run while the others are empty reduces it, but not below 0.  At CHECK_TICKS / 4 a
 *           quantum of the yield lane is due: its Gs run before timers, the poller and all other
 *           Gs, until the credit is used or each has run once.
 *   -       When a quantum becomes due, the tail of LANE_NEW is marked; if runnext held a G, again
 *           at the first check that does not find that G there.  The quantum begins with the switch
 *           after the first check at which all Gs before the mark have left the ring.  So a G that
 *           spawns and yields repeatedly waits for the Gs that it has spawned: it cannot make Gs
 *           faster than they run.
 *   PICK-5  A G of an event waits for the rest of the present run, the events before it and a third
 *           of their time, and one quantum: QUANTUM_TICKS and the run in which they end.  If the
 *           yield lane becomes empty between quanta, each CHECK_TICKS of events may add one run.
 *   -       A G that has yielded waits for the new Gs when a quantum becomes due (and those of a
 *           while later, if runnext held a G), of which every 4th G is one while events come; four
 *           times the runs before it in the yield lane;
 *           CHECK_TICKS, two intervals of PICK-3 and one run; three times what the last run of the
 *           last quantum took beyond its end (20 QUANTUM_TICKS at most).  The first G after a check
 *           that found the lane empty waits for one interval, and not for the last of these.
 *   -       The credit is capped at QUANTUM_TICKS, so the yield lane has its quarter only while an
 *           interval and the run after it take up to 3 QUANTUM_TICKS.  Quanta are timed.  Between
 *           quanta each run of an interval is charged its mean run time, and no clock is read
 *           between two checks, except when an M acquires the P.  Verified by model/quantum.pml.
 *
 * Rejected
 *   Stealing single Gs: one cache miss per G.
 *   One G of the global queue per 61 switches (Go): with 0.5 ms per switch, 1,000 Gs in the global
 *   queue wait for half a minute.
 */
#ifndef GMP_PICK_H
#define GMP_PICK_H

#include "runq.h"
#include "source.h"
#include "types.h"
#include "variant/variant.h"

/*
 * PICK-1, when runnext has inherited the slice INHERIT_MAX times.  Returns true if the slice lasts.
 * An end that is left over from an earlier slice makes one slice short, which does no harm.  Not
 * inline, since it is rare; not external, since the compiler then saves fewer registers in
 * schedule_g0 (5 instructions).
 */
static noinline bool pick_slice_continues(struct p *pp)
{
	uint64_t now = cpu_ticks();

	if (variant_ignores_clock())
		return false;
	if (!pp->slice_end)
		pp->slice_end = now + QUANTUM_TICKS;
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

/* PICK-1: the slice is over.  Not inline, as above. */
static noinline void runnext_expire(struct p *pp)
{
	struct g *gp = runnext_take(pp);

	if (gp)
		runq_yield(pp, gp);
}

/* Take the next G of pp that has not yielded: runnext, then of an event or new.  Owner only. */
static inline struct g *first_work(struct p *pp)
{
	struct g *gp;

	if (ld_rlx(&pp->runnext)) {
		if (likely(pp->inherited < INHERIT_MAX || pick_slice_continues(pp)) &&
		    (gp = runnext_take(pp))) {
			pp->inherited++;
			return gp;
		}
		runnext_expire(pp);
	}
	pp->inherited = 0;
	bump(&pp->schedtick, 1);
	return runq_get(pp);
}

/* Take the next G that a busy P runs: then of the yield lane.  Owner only. */
static inline struct g *local_work(struct p *pp)
{
	struct g *gp = first_work(pp);

	return gp ? gp : runq_get_yielded(pp);
}

/* Take one G of the global queue that has not yielded, and move up to most - 1 more to pp's
 * lanes.  Owner only. */
struct g *from_global(struct p *pp, unsigned most);

/* PICK-3: is the next check due?  Owner only. */
static inline bool check_is_due(struct p *pp)
{
	return (int32_t)((uint32_t)pp->count.switches - pp->drr.check_at) >= 0;
}

/* PICK-3: must a G of pp run before another one of the global queue? */
static inline bool pick_alternates(struct p *pp)
{
	return (uint32_t)pp->count.switches - pp->drr.took <= 1 &&
	       (runq_ready_len(pp) || ld_rlx(&pp->runnext));
}

/* PICK-3: a G of a timer, or a pinned one, runs next, and none of the P's lanes. */
static inline void pick_passes_by(struct p *pp)
{
	if (pick_alternates(pp))
		pp->drr.took = (uint32_t)pp->count.switches;
}

/* PICK-3: the check.  Accounts for the interval, and may set ATTENTION_YIELDED (PICK-4); polls if
 * that is due.  Returns a G of the global queue to run, or NULL. */
struct g *check_global(struct p *pp);
/* An M has acquired pp: outside of a quantum, the time before counts only as far as Gs ran. */
void pick_begin(struct p *pp);
/* PICK-4, for ATTENTION_YIELDED: the next G of the quantum; NULL: it is over. */
struct g *quantum_next(struct p *pp);

/* May m spin?  At most half as many Ms as there are busy Ps do (IDLE-2). */
bool may_spin(struct m *m);
/*
 * Search other Ps and all sources for up to m->spin_ticks.  The M counts as spinning from here on.
 * Returns NULL if there is no work, or if pp has to attend.  *from_source: the G, and what lies on
 * pp now, comes from a timer or the poller.
 */
struct g *spin_for_work(struct m *m, struct p *pp, bool *from_source);

#endif
