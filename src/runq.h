/* SPDX-License-Identifier: MIT */
/*
 * In which order do the ready green threads of one P run, and how do others take some of them?
 *
 * A ring of 2048 pointers, filled at the tail by its owner, emptied at the head by the owner and by
 * thieves.  Pointers in an array, not links through the Gs: looking ahead touches no G.
 *
 * Invariants
 *  R1 tail - head <= 2048 for whoever owns the tail; slots head..tail-1 hold Gs.
 *  R2 Only the owner writes tail and slots.  head moves by compare-and-swap, by anybody.
 *  R3 A G is taken by the one whose compare-and-swap moved head past it, and by nobody else.
 *  R4 Only the owner sets runnext to a G; thieves set it to NULL, by compare-and-swap.  So where the
 *     owner finds NULL a plain store does.                                     ORD(runnext)
 *
 * Protocol
 *  owner puts:   1 read head (acquire)  2 if full: move the oldest to the global queue
 *                3 write the slot       4 write tail (release)               ORD(runq.publish)
 *  one takes:    1 read head            2 read tail (acquire; the owner: plain)
 *                3 read the slots       4 compare-and-swap head (release)    ORD(runq.take)
 *  owner takes   1 write tail - 1 (release)
 *  back its last 2 read head            3 compare-and-swap head to the same slot, taken back once
 *  put:            more (release); if all is gone: write the old tail         ORD(runq.take)
 *  owner puts n  1 read head (acquire)  2 if there is no room: nothing is put
 *  in front:     3 write slots head-n..head-1
 *                4 compare-and-swap head to head - n, counted as a taking back (release)
 *                                       lost: from 1 again                    ORD(runq.take)
 *  Step 4 of taking releases: the slots were read before the owner may see them as free (step 1 of
 *  putting acquires) and write them anew.  A tail so much newer than the head that it cannot belong to
 *  it is not used: read again.
 *  The upper half of head counts what was taken back: a thief that has read the tail from before fails
 *  in step 4, and one that has read the head from after (acquire) finds the new tail.  Between 1 and 3
 *  thieves may take all: then the tail lies one before the head, and the ring is empty.
 *  Each change of head adds to it as one number of 64 bits, so no value of head comes twice.  A thief that
 *  has read slots before they were written anew in front therefore fails in step 4.  Step 1 of putting in
 *  front acquires for the same reason as step 1 of putting; its step 4 releases the slots to the thief's
 *  step 1.
 *  model/runq.pml has each of these orders, and what becomes of it without.
 *
 * While the P is not `shared` (one P only) nobody else ever looks at the ring, and the owner moves
 * head by plain stores: no locked instruction from one green thread to the next.  A P becomes
 * shared, and `open` to thieves, by its owner's own hand, at a turn of the scheduler
 * (ATTENTION_SHARE); or, when its thread sleeps in the kernel and will not come to a turn, by the
 * watcher's (proc.c:p_open_asleep).  Thieves read `open` before anything else (acquire).
 *                                                                            ORD(p.open)
 *
 * More ready Gs than the ring holds: those who yield go to the global queue, in batches, so that
 * all have their turn.  A batch is a ring of the same kind, of 64: it moves on when it is full, when
 * its owner runs dry or looks round, and thieves who find the other ring empty take from it.
 *
 * The global queue has two lanes, each in order: of those that have run, and of those that are new.
 *  R5 Who has run goes first; while some do, every fourth that is taken is new.
 * A new G is a descriptor only; one that has run keeps its stack until it ends.  So when a million are
 * made that sleep for a while, those that have slept end before many more begin, and leave them warm
 * stacks; behind the flood they would be half a million, each with a stack that nobody has touched.
 * A new G that has to move from a full ring becomes a compact record in that lane if gmp_go made it
 * (g.c, B3): ten million that wait for their first run take 32 bytes each in place of 264.
 *
 * Earlier generations (enum gmp_sched) are cases of this one, chosen for each P when it is made.
 * GMP_SCHED_LOCAL: in_order, nothing becomes runnext.  GMP_SCHED_GLOBAL: so, and a ring without room is
 * always full, so that all goes to the global queue, and comes from there one by one.
 *
 * Rejected: a Chase-Lev deque (last-in-first-out order starves yielding threads); Go's moving of
 * every yielder to the global queue (a lock at each); Go's ring of 256 (a thousand that yield go by the
 * global queue, two sections of its lock for every batch, and lose the P in whose cache they are: 23 ns a
 * yield in place of 17, with two Ps 22 to 47 in place of 11).
 */
#ifndef GMP_RUNQ_H
#define GMP_RUNQ_H

#include "types.h"

/* Of a head: the upper half counts these, the lower one says which slot is next. */
#define TAKEN_BACK (UINT64_C(1) << 32)

/* The owner's slow way: the ring is full. */
void runq_put_slow(struct p *pp, struct g *gp, uint64_t head, uint32_t tail);

/* Owner only: at the tail. */
static inline void runq_put(struct p *pp, struct g *gp)
{
	uint64_t head = ld_acq(&pp->runqhead); /* ORD(runq.take) */
	uint32_t tail = pp->runqtail;

	if (unlikely(tail - (uint32_t)head >= pp->room)) { /* RUNQ_SIZE, but for GMP_SCHED_GLOBAL */
		runq_put_slow(pp, gp, head, tail);
		return;
	}
	st_rlx(&pp->runq[tail % RUNQ_SIZE], gp);
	st_rel(&pp->runqtail, tail + 1); /* ORD(runq.publish) */
}

/* Owner only: what has yielded while the global queue holds some goes behind those, in batches. */
void runq_yield_slow(struct p *pp, struct g *gp);
void runq_flush_yielded(struct p *pp);
/* The same under sched.lock. */
void runq_flush_yielded_locked(struct p *pp);

/* Owner only: one that yields; behind all that is ready. */
static inline void runq_yield(struct p *pp, struct g *gp)
{
	if (unlikely(ld_rlx(&sched.gqn) | (pp->yieldtail - (uint32_t)ld_rlx(&pp->yieldhead))))
		runq_yield_slow(pp, gp);
	else
		runq_put(pp, gp);
}

/* Owner only: from the head; NULL when empty. */
static inline struct g *runq_get(struct p *pp)
{
	uint64_t head = ld_rlx(&pp->runqhead); /* the slots are its own */

	for (;;) {
		if ((uint32_t)head == pp->runqtail)
			return NULL;
		struct g *gp = ld_rlx(&pp->runq[head % RUNQ_SIZE]);

		if (!ld_rlx(&pp->shared)) {
			st_rlx(&pp->runqhead, head + 1);
			return gp;
		}
		if (cas_rel(&pp->runqhead, &head, head + 1)) /* ORD(runq.take) */
			return gp;
	}
}

/* Owner only: take gp back, if it is the last that was put and nobody has taken it. */
static inline bool runq_take_back(struct p *pp, const struct g *gp)
{
	uint64_t head = ld_rlx(&pp->runqhead);
	uint32_t last = pp->runqtail - 1;

	if ((uint32_t)head == last + 1 || ld_rlx(&pp->runq[last % RUNQ_SIZE]) != gp)
		return false;
	st_rel(&pp->runqtail, last); /* ORD(runq.publish): of those before it */
	if (!ld_rlx(&pp->shared))
		return true;
	while ((uint32_t)head != last + 1)
		if (cas_rel(&pp->runqhead, &head, head + TAKEN_BACK)) /* ORD(runq.take) */
			return true;
	st_rlx(&pp->runqtail, last + 1); /* the ring is empty */
	return false;
}

/* Owner only: put all Gs of a list, in its order, before those in the ring; *end is the place behind them.
 * Returns false, with the list unchanged, if the ring has no room. */
bool runq_put_first(struct p *pp, struct glist *list, uint32_t *end);

/* Owner only: make gp the next; the former next, or NULL, comes back. */
static inline struct g *runnext_swap(struct p *pp, struct g *gp)
{
	if (!ld_rlx(&pp->shared)) {
		struct g *old = ld_rlx(&pp->runnext);

		/* ORD(runnext): for a thief, should the watcher open the P */
		st_rel(&pp->runnext, gp);
		return old;
	}
	if (!ld_rlx(&pp->runnext)) {      /* R4: and it stays so */
		st_rel(&pp->runnext, gp); /* ORD(runnext): G's fields before the pointer */
		return NULL;
	}
	return xchg_seq(&pp->runnext, gp); /* ORD(runnext) */
}

/* How many a ring holds, or held a moment ago. */
static inline uint32_t ring_len(uint64_t *head_of, uint32_t *tail_of, uint32_t size)
{
	for (;;) {
		uint32_t head = (uint32_t)ld_acq(head_of); /* ORD(runq.take): a tail not older */
		int32_t n = (int32_t)(ld_rlx(tail_of) - head);

		if (likely(n <= (int32_t)size)) /* else a whole round has gone by: no number */
			return (uint32_t)max_of(n, 0);
	}
}

/* Owner only: so many can be put before a put is the slow one. */
static inline uint32_t runq_room(struct p *pp)
{
	return pp->room ? pp->room - ring_len(&pp->runqhead, &pp->runqtail, RUNQ_SIZE) : 0;
}

/* Snapshots, for statistics and thieves' looks: 0 only if there was a moment with nothing. */
static inline uint32_t runq_yielded(struct p *pp)
{
	return ring_len(&pp->yieldhead, &pp->yieldtail, YIELD_RING);
}

/* Both rings. */
static inline uint32_t runq_len(struct p *pp)
{
	return ring_len(&pp->runqhead, &pp->runqtail, RUNQ_SIZE) + runq_yielded(pp);
}

/* A thief's: move half of victim's ring to pp's (the thief's own, empty) and return one more of
 * them to run; if that is empty, of those that have yielded; with `next`, else its runnext.  NULL: nothing to take. */
struct g *runq_steal(struct p *pp, struct p *victim, bool next);

/* The watcher's: all that waits on a P that does not move goes to the global queue. */
void runq_spill(struct p *victim);

/* --- the global queue: all under sched.lock --- */

int gq_init(uint32_t limit);
void gq_fini(void);
void gq_put(struct g *gp);
/* One to run; more of them, at most a fair share and what there is room for, to the tail of pp's ring;
 * pp's owner. */
struct g *gq_get(struct p *pp, unsigned most);
/* The first of a lane that is not empty; pp's owner. */
struct g *gq_get_from(struct p *pp, enum lane lane);
/* Exchange the first entry of a lane and the one `at` entries behind it. */
void gq_to_front(enum lane lane, uint32_t at);

#endif
