/* SPDX-License-Identifier: MIT */
/*
 * Run queues: two lock-free FIFO rings per P with work stealing, and the global queue.
 *
 * The first ring holds Gs that an event or a spawn made runnable.  The second ring holds Gs that
 * have used CPU time since: they have yielded, or have used the quantum that runnext inherits.
 * (A preempted G that yields goes to the global queue.)  A P runs the first ring before the second
 * one (PICK-5 of pick.h has the bounds), so the latency of an event does not depend on the number
 * of Gs that compute.
 *
 * A ring has 2048 pointers.  Its owner puts at the tail; the owner and thieves take at the head.
 * Pointers in an array, not links through the Gs, so looking ahead touches no G.
 *
 * Invariants, RUNQ-1 to RUNQ-3 of each ring
 *   RUNQ-1  tail - head <= 2048 as the owner reads them; slots head..tail-1 hold Gs.
 *   RUNQ-2  Only the owner writes tail and slots.  Every thread may move head, by compare-and-swap.
 *   RUNQ-3  A G belongs to the thread whose compare-and-swap moved head past it.
 *   RUNQ-4  Only the owner sets runnext to a G; thieves set it to NULL, by compare-and-swap.  If
 *           the owner reads NULL, a plain store is therefore enough.                  ORD(runnext)
 *   RUNQ-5  In the global queue Gs that an event made runnable go before new ones; while both lanes
 *           hold some, one of NEW_EVERY that are taken is new.
 *   RUNQ-6  Gs that have yielded are served round-robin.  While LANE_YIELD of the global queue
 *           holds some, each P runs its second ring in rounds.  At the end of a round the ring
 *           holds only Gs that have yielded since its start; they move to the tail of LANE_YIELD,
 *           and the Gs of the next round are taken from its head.  While a G waits, each other G of
 *           its P runs twice at most: a G that yields while the ring is full goes to the global
 *           queue.  If the Gs of the P run for long (PICK-3), a round is one G.
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
 * Some variants (variant/variant.h) have no runnext and no second ring, or a ring without room:
 * then every G goes through the global queue.
 *
 * Rejected
 *   A Chase-Lev deque: LIFO order starves yielding Gs.
 *   Every yielding G to the global queue (Go): a lock at each yield.
 *   One ring for all Gs (Go): a readable descriptor waits until all other runnable Gs have run, 50
 *   ms with 200 Gs of 0.5 ms on two Ps (bench/loaded.c).
 *   Second rings of slow Gs that are not shared: the Gs of the P with fewer of them run more often.
 *   A ring of 256 (Go): 1,000 yielding Gs then go through the global queue, and lose the P in whose
 *   cache they are: 23 ns a yield instead of 17, with two Ps 22 to 47 instead of 11.
 */
#ifndef GMP_RUNQ_H
#define GMP_RUNQ_H

#include "types.h"

/* One take-back, in the upper half of head; the lower half is the next slot. */
#define TAKEN_BACK (UINT64_C(1) << 32)

/* Slow path of runq_put: the ring is full. */
void runq_put_slow(struct p *pp, struct g *gp, uint64_t head, uint32_t tail);

/* Put gp at the tail.  Owner only. */
static inline void runq_put(struct p *pp, struct g *gp)
{
	uint64_t head = ld_acq(&pp->runqhead); /* ORD(runq.take) */
	uint32_t tail = pp->runqtail;

	if (unlikely(tail - (uint32_t)head >= pp->room)) { /* RUNQ_SIZE or 0 */
		runq_put_slow(pp, gp, head, tail);
		return;
	}
	st_rlx(&pp->runq[tail % RUNQ_SIZE], gp);
	st_rel(&pp->runqtail, tail + 1); /* ORD(runq.publish) */
}

/* Slow path of runq_yield: the second ring is full, or pp does not use it.  Owner only. */
void runq_yield_slow(struct p *pp, struct g *gp);
/* Move the Gs of the second ring to the global queue.  Owner of pp, under sched.lock. */
void runq_flush_yielded_locked(struct p *pp);

/* Put gp, which has used CPU time, behind all Gs that have yielded.  Owner only. */
static inline void runq_yield(struct p *pp, struct g *gp)
{
	uint64_t head = ld_acq(&pp->yieldhead); /* ORD(runq.take) */
	uint32_t tail = pp->yieldtail;

	if (unlikely(tail - (uint32_t)head >= pp->yield_room)) {
		runq_yield_slow(pp, gp);
		return;
	}
	st_rlx(&pp->yielded[tail % RUNQ_SIZE], gp);
	st_rel(&pp->yieldtail, tail + 1); /* ORD(runq.publish) */
}

/* Take the G at the head of a ring of pp; NULL: the ring is empty.  Owner only. */
static inline struct g *ring_get(struct p *pp, uint64_t *head_of, uint32_t tail, struct g **ring)
{
	uint64_t head = ld_rlx(head_of); /* no acquire: it wrote the slots */

	for (;;) {
		if ((uint32_t)head == tail)
			return NULL;
		struct g *gp = ld_rlx(&ring[head % RUNQ_SIZE]);

		if (!ld_rlx(&pp->shared)) {
			st_rlx(head_of, head + 1);
			return gp;
		}
		if (cas_rel(head_of, &head, head + 1)) /* ORD(runq.take) */
			return gp;
	}
}

/* Take the G at the head of the first ring; NULL: the ring is empty.  Owner only. */
static inline struct g *runq_get(struct p *pp)
{
	return ring_get(pp, &pp->runqhead, pp->runqtail, pp->runq);
}

/* RUNQ-6: runq_get_yielded while the global queue holds Gs that have yielded. */
struct g *runq_get_round(struct p *pp);

/* Take the first G that has yielded, on pp or in the global queue.  Owner only, without
 * sched.lock. */
static inline struct g *runq_get_yielded(struct p *pp)
{
	if (unlikely(ld_rlx(&sched.gqyields)))
		return runq_get_round(pp);
	return ring_get(pp, &pp->yieldhead, pp->yieldtail, pp->yielded);
}

/* Take gp back, if it was put last and no thief has taken it.  Owner only. */
static inline bool runq_take_back(struct p *pp, const struct g *gp)
{
	uint64_t head = ld_rlx(&pp->runqhead);
	uint32_t last = pp->runqtail - 1;

	if ((uint32_t)head == last + 1 || ld_rlx(&pp->runq[last % RUNQ_SIZE]) != gp)
		return false;
	st_rel(&pp->runqtail, last); /* ORD(runq.publish): the slots before it */
	if (!ld_rlx(&pp->shared))
		return true;
	while ((uint32_t)head != last + 1)
		if (cas_rel(&pp->runqhead, &head, head + TAKEN_BACK)) /* ORD(runq.take) */
			return true;
	st_rlx(&pp->runqtail, last + 1); /* the ring is empty */
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

/* Length of a ring, possibly outdated. */
static inline uint32_t ring_len(uint64_t *head_of, uint32_t *tail_of)
{
	for (;;) {
		uint32_t head = (uint32_t)ld_acq(head_of); /* ORD(runq.take): a tail not older */
		int32_t n = (int32_t)(ld_rlx(tail_of) - head);

		if (likely(n <= RUNQ_SIZE)) /* otherwise read again: the head is old */
			return (uint32_t)max_of(n, 0);
	}
}

/* How many Gs runq_put puts without the slow path.  Owner only. */
static inline uint32_t runq_room(struct p *pp)
{
	return pp->room ? pp->room - ring_len(&pp->runqhead, &pp->runqtail) : 0;
}

/* Length of the first ring.  This and runq_second_len return 0 only if the ring was empty at some
 * moment. */
static inline uint32_t runq_first_len(struct p *pp)
{
	return ring_len(&pp->runqhead, &pp->runqtail);
}

/* Length of the second ring. */
static inline uint32_t runq_second_len(struct p *pp)
{
	return ring_len(&pp->yieldhead, &pp->yieldtail);
}

/* Length of both rings. */
static inline uint32_t runq_len(struct p *pp)
{
	return runq_first_len(pp) + runq_second_len(pp);
}

/* Steal for pp, whose rings are empty: move half of victim's first ring to pp's, and return one of
 * those Gs to run.  If the ring is empty: the same of the second ring.  If that is empty too, and
 * next is set: take runnext.  NULL: there is nothing to take. */
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
 * room of the ring, to the tail of pp's first ring.  NULL: there is none.  Owner of pp. */
struct g *gq_get(struct p *pp, unsigned most);
/* Gs in the global queue that have not yielded.  Also without sched.lock, possibly outdated. */
static inline uint32_t gq_events(void)
{
	uint32_t yields = ld_rlx(&sched.gqyields), all = ld_rlx(&sched.gqn);

	return all > yields ? all - yields : 0;
}
/* Take the first G of a lane that is not empty.  Owner of pp. */
struct g *gq_get_from(struct p *pp, enum lane lane);
/* Exchange the first entry of a lane and the one `at` entries behind it. */
void gq_to_front(enum lane lane, uint32_t at);

#endif
