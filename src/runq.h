/* SPDX-License-Identifier: MIT */
/*
 * Run queues: three lock-free FIFO rings per P with work stealing, and the global queue.
 *
 * A P, and the global queue, have three lanes: LANE_EVENT for Gs that an event made runnable,
 * LANE_NEW for Gs that have not run, LANE_YIELD for Gs that have used CPU time since: they have
 * yielded, or used the quantum that runnext inherits.  (A preempted G that yields goes to the
 * global queue.)  A P runs the first two lanes before the yield lane (bounds: PICK-5 of pick.h), so
 * the latency of an event depends neither on the number of Gs that compute nor of Gs that begin.
 *
 * A lane of a P is a ring of 2048 pointers, not links through the Gs, so looking ahead touches no
 * G.  Its owner puts at the tail; the owner and thieves take at the head.
 *
 * Invariants, RUNQ-1 to RUNQ-3 of each ring
 *   RUNQ-1  tail - head <= 2048 as the owner reads them; slots head..tail-1 hold Gs.
 *   RUNQ-2  Only the owner writes tail and slots.  Every thread may move head, by compare-and-swap.
 *   RUNQ-3  A G belongs to the thread whose compare-and-swap moved head past it.
 *   RUNQ-4  Only the owner sets runnext to a G; thieves set it to NULL, by compare-and-swap.  If
 *           the owner reads NULL, a plain store is therefore enough.                  ORD(runnext)
 *   RUNQ-5  Gs that an event made runnable go before new ones; while a P, or the global queue, has
 *           some of both, one of NEW_EVERY that are taken is new.
 *   RUNQ-6  Gs that have yielded are served round-robin.  While LANE_YIELD of the global queue
 *           holds some, each P runs its own in rounds.  At the end of a round the ring has only Gs
 *           that have yielded since its start; they move to the tail of LANE_YIELD, and the Gs of
 *           the next round are taken from its head.  While a G waits, each other G of its P runs
 *           twice at most: a G that yields while the ring is full goes to the global queue.  If the
 *           Gs of the P run for long (PICK-3), a round is one G.
 *
 * Protocol
 *   owner puts       1 read head (acquire)       2 if full: move the oldest to the global queue
 *                    3 write the slot            4 write tail (release)         ORD(runq.publish)
 *   take             1 read head                 2 read tail (acquire; the owner: plain)
 *                    3 read the slots            4 compare-and-swap head (release) ORD(runq.take)
 *   owner takes its  1 write tail - 1 (release)
 *   last put back    2 read head                 3 compare-and-swap head to the same slot, with one
 *                                                  more taken back (release); if the ring is empty:
 *                                                  write the old tail           ORD(runq.take)
 *   owner puts n     1 read head (acquire)       2 if there is no room: put nothing
 *   in front         3 write slots head-n..head-1
 *                    4 compare-and-swap head to head - n, counted as a take-back (release);
 *                      if it fails: from 1 again                                ORD(runq.take)
 *
 *   Verified by model/runq.pml, with a mutant for each order.  Reuse of slots, and ABA: runq.c.
 *
 * A P that is not `shared` (procs is 1) has no thieves, so its owner moves head by plain stores: no
 * locked instruction between two Gs.  The owner itself makes the P shared, and `open` to thieves,
 * at a step of the scheduler (ATTENTION_SHARE).  If its G computes, sysmon first gives the P to
 * another M (monitor/preempt.h).  Thieves read `open` before all else (acquire).  ORD(p.open)
 *
 * Some variants (variant/variant.h) have no runnext and only LANE_EVENT, or rings without room.
 *
 * Rejected
 *   A Chase-Lev deque: LIFO order starves yielding Gs.
 *   Every yielding G to the global queue (Go): a lock at each yield.
 *   One ring for all Gs (Go): a readable descriptor waits until all other runnable Gs have run, 50
 *   ms with 200 Gs of 0.5 ms on two Ps (bench/loaded.c).  One ring for events and new Gs: the same
 *   beside 200 new Gs.
 *   Yield lanes of slow Gs that are not shared: the Gs of the P with fewer of them run more often.
 *   A ring of 256 (Go): 1,000 yielding Gs then go through the global queue, and lose the P in whose
 *   cache they are: 23 ns a yield instead of 17, with two Ps 22 to 47 instead of 11.
 */
#ifndef GMP_RUNQ_H
#define GMP_RUNQ_H

#include "types.h"
#include "variant/variant.h"

/* One take-back, in the upper half of head; the lower half is the next slot. */
#define TAKEN_BACK (UINT64_C(1) << 32)

/* Slow path of runq_put: the ring is full. */
void runq_put_slow(struct p *pp, struct g *gp, enum lane lane);

/* Put gp at the tail of LANE_EVENT or LANE_NEW.  Owner only. */
static inline void runq_put(struct p *pp, struct g *gp)
{
	enum lane lane = variant_lane(pp, gp);
	uint64_t head = ld_acq(&pp->head[lane]); /* ORD(runq.take) */
	uint32_t tail = pp->tail[lane];

	if (unlikely(tail - (uint32_t)head >= pp->room)) { /* RUNQ_SIZE or 0 */
		runq_put_slow(pp, gp, lane);
		return;
	}
	st_rlx(&pp->ring[lane][tail % RUNQ_SIZE], gp);
	st_rel(&pp->tail[lane], tail + 1); /* ORD(runq.publish) */
}

/* Slow path of runq_yield: the ring is full, or pp does not use it.  Owner only. */
void runq_yield_slow(struct p *pp, struct g *gp);
/* Move the Gs of LANE_YIELD to the global queue.  Owner of pp, under sched.lock. */
void runq_flush_yielded_locked(struct p *pp);

/* Put gp, which has used CPU time, behind all Gs that have yielded.  Owner only. */
static inline void runq_yield(struct p *pp, struct g *gp)
{
	uint64_t head = ld_acq(&pp->head[LANE_YIELD]); /* ORD(runq.take) */
	uint32_t tail = pp->tail[LANE_YIELD];

	if (unlikely(tail - (uint32_t)head >= pp->yield_room)) {
		runq_yield_slow(pp, gp);
		return;
	}
	st_rlx(&pp->ring[LANE_YIELD][tail % RUNQ_SIZE], gp);
	st_rel(&pp->tail[LANE_YIELD], tail + 1); /* ORD(runq.publish) */
}

/* Prefetch the g struct of the 7th G of a ring and the stack top of the 4th: the cache misses are
 * over when they run. */
static inline void ring_prefetch(struct g **ring, uint64_t head)
{
	__builtin_prefetch(ld_rlx(&ring[(head + 7) % RUNQ_SIZE]));
	char *sp = ld_rlx(&ring[(head + 4) % RUNQ_SIZE])->ctx.sp;

	__builtin_prefetch(sp);
	__builtin_prefetch(sp + 64);
	__builtin_prefetch(sp + 128);
	__builtin_prefetch(sp + 192);
}

/* Take the G at the head of a lane of pp; NULL: it is empty.  Owner only. */
static inline struct g *ring_get(struct p *pp, enum lane lane)
{
	uint64_t head = ld_rlx(&pp->head[lane]); /* no acquire: it wrote the slots */

	for (;;) {
		uint32_t n = pp->tail[lane] - (uint32_t)head;

		if (n == 0)
			return NULL;
		struct g *gp = ld_rlx(&pp->ring[lane][head % RUNQ_SIZE]);

		if (!ld_rlx(&pp->shared))
			st_rlx(&pp->head[lane], head + 1);
		else if (!cas_rel(&pp->head[lane], &head, head + 1)) /* ORD(runq.take) */
			continue;
		if (n > 7) /* after the locked instruction, which would wait for the load */
			ring_prefetch(pp->ring[lane], head);
		return gp;
	}
}

/* Is a lane of pp not empty?  Owner only; a thief may empty it at any time. */
static inline bool ring_holds(const struct p *pp, enum lane lane)
{
	return (uint32_t)ld_rlx(&pp->head[lane]) != pp->tail[lane];
}

/* Take the next G that has not yielded, of LANE_EVENT and LANE_NEW (RUNQ-5); NULL: both are empty.
 * Owner only. */
static inline struct g *runq_get(struct p *pp)
{
	struct g *gp;

	if (likely(!ring_holds(pp, LANE_NEW)))
		return ring_get(pp, LANE_EVENT);
	if (ring_holds(pp, LANE_EVENT) && ++pp->takes % NEW_EVERY &&
	    (gp = ring_get(pp, LANE_EVENT)))
		return gp;
	gp = ring_get(pp, LANE_NEW);
	return gp ? gp : ring_get(pp, LANE_EVENT); /* a thief may have taken the new one */
}

/* Gs in a lane of the global queue.  Also without sched.lock, possibly outdated. */
static inline uint32_t gq_len(enum lane lane)
{
	return ld_rlx(&sched.gqlen[lane]);
}
/* The same, of Gs that have not yielded. */
static inline uint32_t gq_ready_len(void)
{
	return gq_len(LANE_EVENT) + gq_len(LANE_NEW);
}

/* RUNQ-6: runq_get_yielded while the global queue holds Gs that have yielded. */
struct g *runq_get_round(struct p *pp);

/* Take the first G that has yielded, on pp or in the global queue.  Owner only, without
 * sched.lock. */
static inline struct g *runq_get_yielded(struct p *pp)
{
	if (unlikely(gq_len(LANE_YIELD)))
		return runq_get_round(pp);
	return ring_get(pp, LANE_YIELD);
}

/* Take back gp, which is new, if it was put last and no thief has taken it.  Owner only. */
static inline bool runq_take_back(struct p *pp, const struct g *gp)
{
	uint64_t *head_of = &pp->head[LANE_NEW];
	uint32_t *tail_of = &pp->tail[LANE_NEW];
	uint64_t head = ld_rlx(head_of);
	uint32_t last = *tail_of - 1;

	if ((uint32_t)head == last + 1 || ld_rlx(&pp->ring[LANE_NEW][last % RUNQ_SIZE]) != gp)
		return false;
	st_rel(tail_of, last); /* ORD(runq.publish): the slots before it */
	if (!ld_rlx(&pp->shared))
		return true;
	while ((uint32_t)head != last + 1)
		if (cas_rel(head_of, &head, head + TAKEN_BACK)) /* ORD(runq.take) */
			return true;
	st_rlx(tail_of, last + 1); /* the ring is empty */
	return false;
}

/* Put all Gs of a list, in its order, in front of those in the ring; *end is the place behind them.
 * Returns false, with the list unchanged, if the ring has no room.  Owner only. */
bool runq_put_first(struct p *pp, struct glist *list, uint32_t *end);

/* Make gp (or NULL) runnext.  Returns the former one, or NULL.  Owner only. */
static inline struct g *runnext_swap(struct p *pp, struct g *gp)
{
	if (!ld_rlx(&pp->shared)) {
		struct g *old = ld_rlx(&pp->runnext);

		st_rlx(&pp->runnext, gp); /* no thief: the owner opens the P */
		return old;
	}
	if (!ld_rlx(&pp->runnext)) {      /* RUNQ-4: it stays NULL */
		st_rel(&pp->runnext, gp); /* ORD(runnext): the fields of G first */
		return NULL;
	}
	return xchg_seq(&pp->runnext, gp); /* ORD(runnext) */
}

/* Length of a lane of pp, possibly outdated; 0 only if it was empty at some moment. */
static inline uint32_t ring_len(struct p *pp, enum lane lane)
{
	for (;;) {
		uint32_t head = (uint32_t)ld_acq(&pp->head[lane]); /* ORD(runq.take): a tail
								      not older */
		int32_t n = (int32_t)(ld_rlx(&pp->tail[lane]) - head);

		if (likely(n <= RUNQ_SIZE)) /* otherwise read again: the head is old */
			return (uint32_t)max_of(n, 0);
	}
}

/* Gs of pp that have not yielded, without runnext. */
static inline uint32_t runq_ready_len(struct p *pp)
{
	return ring_len(pp, LANE_EVENT) + ring_len(pp, LANE_NEW);
}

/* How many Gs runq_put puts without the slow path, whatever their lane.  Owner only. */
static inline uint32_t runq_room(struct p *pp)
{
	return pp->room ? pp->room - max_of(ring_len(pp, LANE_EVENT), ring_len(pp, LANE_NEW)) : 0;
}

/* Gs of all lanes of pp. */
static inline uint32_t runq_len(struct p *pp)
{
	return runq_ready_len(pp) + ring_len(pp, LANE_YIELD);
}

/* Steal for pp, whose lanes are empty: move half of the first lane of victim that is not empty to
 * the same lane of pp, and return one of those Gs to run.  If all are empty, and next is set: take
 * runnext.  NULL: there is nothing to take. */
struct g *runq_steal(struct p *pp, struct p *victim, bool next);

/* For sysmon: move all that is queued on a P that makes no progress to the global queue. */
void runq_spill(struct p *victim);

/* --- the global queue: all under sched.lock --- */

int gq_init(uint32_t limit);
void gq_fini(void);
void gq_put(struct g *gp);
/* Put gp, which has used CPU time, behind all Gs that have yielded. */
void gq_put_yielded(struct g *gp);
/* Take one G that has not yielded to run, and move more, up to `most` in all, a fair share and the
 * room of the rings, to pp's lanes.  NULL: there is none.  Owner of pp. */
struct g *gq_get(struct p *pp, unsigned most);
/* Take the first G of a lane that is not empty.  Owner of pp. */
struct g *gq_get_from(struct p *pp, enum lane lane);
/* Exchange the first entry of a lane and the one `at` entries behind it. */
void gq_to_front(enum lane lane, uint32_t at);

#endif
