/* SPDX-License-Identifier: MIT */
/*
 * Slow paths of the rings, stealing, and the global queue; see runq.h.
 *
 * Reuse of slots: step 4 of take releases, so the slots were read before the owner can see them
 * as free (step 1 of put acquires) and write them again.  A tail so much newer than the head that
 * both cannot belong together is read again.
 * ABA: the upper half of head counts take-backs.  A thief that has read the old tail fails in
 * step 4, and a thief that has read the new head (acquire) finds the new tail.  Between steps 1
 * and 3 of a take-back thieves may take all; then tail is one before head, and the ring is empty.
 * Each change adds to head as one 64-bit number, so no value of head recurs.  A thief that has
 * read slots before they were overwritten in front therefore fails in step 4.  Step 1 of a put in
 * front acquires for the same reason as step 1 of a put; its step 4 releases the slots to the
 * thief's step 1.
 */
#include "runq.h"

#include <errno.h>
#include <string.h>

#include "base/emit.h"
#include "base/os.h"
#include "base/throw.h"
#include "g.h"
#include "observe/probe.h"
#include "variant/variant.h"

static enum lane lane_of(const struct g *gp);
static void *gq_new_entry(enum lane lane);
static struct g *gq_get_yielded(struct p *pp, unsigned most);

/* G-3: may gp become a compact record? */
static bool compactable(const struct g *gp)
{
	return g_can_be_compact(gp) && lane_of(gp) == LANE_NEW;
}

/* Move a batch that the caller owns to the global queue, compactable Gs as records (G-3). */
static void gq_put_batch(struct p *pp, struct g **batch, uint32_t n)
{
	uint32_t fresh = compactable(batch[0]) ? n : 0; /* new Gs come in a row */
	uint32_t most = 0, done = 0;

	for (uint32_t i = 0; i < fresh; i++)
		most += compactable(batch[i]);
	if (most)
		most = unstarted_reserve(most);
	lock(&sched.lock, LR_SCHED);
	for (uint32_t i = 0; i < n; i++) {
		struct g *gp = batch[i];

		if (done < most && compactable(gp)) {
			*(struct unstarted *)gq_new_entry(LANE_NEW) = g_compact(gp);
			batch[done++] = gp;
		} else {
			gq_put(gp);
		}
	}
	unlock(&sched.lock, LR_SCHED);
	for (uint32_t i = 0; i < done; i++)
		g_free(pp, batch[i]);
}

/* Move the oldest RUNQ_BATCH Gs to the global queue, where idle Ps find them, and gp behind them,
 * so that FIFO order is kept.  Not half of the ring: the batch may be on the stack of a G. */
noinline void runq_put_slow(struct p *pp, struct g *gp, enum lane lane)
{
	struct g *batch[RUNQ_BATCH + 1];
	uint64_t head = ld_acq(&pp->head[lane]); /* ORD(runq.take) */
	uint32_t n = min_of((pp->tail[lane] - (uint32_t)head) / 2, (uint32_t)RUNQ_BATCH);

	for (uint32_t i = 0; i < n; i++)
		batch[i] = ld_rlx(&pp->ring[lane][(head + i) % RUNQ_SIZE]);
	if (!ld_rlx(&pp->shared)) {
		st_rlx(&pp->head[lane], head + n);
	} else if (!cas_rel(&pp->head[lane], &head, head + n)) { /* ORD(runq.take) */
		runq_put(pp, gp);                                /* a thief made room */
		return;
	}
	batch[n] = gp;
	gq_put_batch(pp, batch, n + 1);
	if (pp->room) {
		bump(&pp->count.overflows, 1);
		emit(EVENT_OVERFLOW, 0, (uint64_t)pp->id, n + 1, 0);
	}
}

bool runq_put_first(struct p *pp, struct glist *list, uint32_t *end)
{
	uint64_t *head_of = &pp->head[LANE_EVENT];

	for (;;) {
		uint64_t head = ld_acq(head_of); /* ORD(runq.take) */
		uint64_t first = head + TAKEN_BACK - list->n;
		uint32_t at = (uint32_t)first;

		if (pp->tail[LANE_EVENT] - (uint32_t)head + list->n > pp->room)
			return false;
		for (struct g *gp = list->head; gp; gp = gp->schedlink)
			st_rlx(&pp->ring[LANE_EVENT][at++ % RUNQ_SIZE], gp);
		if (!ld_rlx(&pp->shared))
			st_rlx(head_of, first);
		else if (!cas_rel(head_of, &head, first)) /* ORD(runq.take) */
			continue; /* a thief has taken some, so the slots differ */
		*end = at;
		*list = (struct glist){ .external = list->external };
		return true;
	}
}

/* --- Gs that have yielded --- */

/* Take up to RUNQ_BATCH of the oldest Gs of LANE_YIELD.  Returns how many.  Owner only. */
static uint32_t take_yielded(struct p *pp, struct g **out)
{
	uint64_t *head_of = &pp->head[LANE_YIELD];
	uint64_t head = ld_rlx(head_of);

	for (;;) {
		uint32_t n = min_of(pp->tail[LANE_YIELD] - (uint32_t)head, (uint32_t)RUNQ_BATCH);

		for (uint32_t i = 0; i < n; i++)
			out[i] = ld_rlx(&pp->ring[LANE_YIELD][(head + i) % RUNQ_SIZE]);
		if (!ld_rlx(&pp->shared))
			st_rlx(head_of, head + n);
		else if (n && !cas_rel(head_of, &head, head + n)) /* ORD(runq.take) */
			continue;
		pp->drr.head += n; /* they have not run */
		return n;
	}
}

/* Move up to RUNQ_BATCH of the oldest Gs of LANE_YIELD to the global queue.  Returns how many. */
static uint32_t spill_yielded_locked(struct p *pp)
{
	struct g *batch[RUNQ_BATCH];
	uint32_t n = take_yielded(pp, batch);

	for (uint32_t i = 0; i < n; i++)
		gq_put_yielded(batch[i]);
	return n;
}

void runq_flush_yielded_locked(struct p *pp)
{
	while (spill_yielded_locked(pp))
		;
}

/* RUNQ-6: are Gs of the present round in LANE_YIELD?  An end that is left over from an earlier
 * round is behind the head. */
static bool in_round(struct p *pp)
{
	return pp->round_end - (uint32_t)ld_rlx(&pp->head[LANE_YIELD]) - 1 < RUNQ_SIZE;
}

noinline void runq_yield_slow(struct p *pp, struct g *gp)
{
	if (pp->in_order) {
		runq_put(pp, gp);
		return;
	}
	lock(&sched.lock, LR_SCHED);
	if (pp->yield_room && !in_round(pp)) { /* the ring is full */
		spill_yielded_locked(pp);
	} else {
		/* RUNQ-6: the Gs of a round must not go back each time before they run.  Of a slow
		 * P, a round is one G. */
		gq_put_yielded(gp);
		gp = NULL;
	}
	unlock(&sched.lock, LR_SCHED);
	if (gp)
		runq_yield(pp, gp);
}

noinline struct g *runq_get_round(struct p *pp)
{
	struct g *gp = NULL;

	if (in_round(pp) && (gp = ring_get(pp, LANE_YIELD)))
		return gp;
	lock(&sched.lock, LR_SCHED);
	runq_flush_yielded_locked(pp);
	if (gq_len(LANE_YIELD))
		gp = gq_get_yielded(pp, pp->slow ? 1 : RUNQ_SIZE);
	unlock(&sched.lock, LR_SCHED);
	pp->round_end = pp->tail[LANE_YIELD];
	return gp;
}

/* --- stealing --- */

/* RUNQ-3: take the older half of a lane of victim into `out`, a ring of the thief, from `at` on.
 * Returns how many. */
static uint32_t ring_grab(struct p *victim, enum lane lane, struct g **out, uint32_t at)
{
	uint64_t *head_of = &victim->head[lane];
	uint32_t *tail_of = &victim->tail[lane];

	for (;;) {
		uint64_t head = ld_acq(head_of); /* ORD(runq.take): a tail that is not older */
		int32_t all = (int32_t)(ld_acq(tail_of) - (uint32_t)head); /* ORD(runq.publish) */
		uint32_t n = (uint32_t)(all - all / 2);

		if (all <= 0)
			return 0;
		if (n > RUNQ_SIZE / 2) /* the tail is a whole round newer */
			continue;
		for (uint32_t i = 0; i < n; i++)
			st_rlx(&out[(at + i) % RUNQ_SIZE],
			       ld_rlx(&victim->ring[lane][(head + i) % RUNQ_SIZE]));
		if (cas_seq(head_of, &head, head + n)) /* ORD(runq.take) */
			return n;
	}
}

/* Move the older half of a lane of victim to the same lane of pp, which is empty.  Returns the
 * oldest G, to run at once; the others are published. */
static struct g *ring_steal(struct p *pp, struct p *victim, enum lane lane)
{
	/* pp's ring is empty, so the slot before its tail is free too */
	uint32_t tail = pp->tail[lane];
	uint32_t n = ring_grab(victim, lane, pp->ring[lane], tail - 1);

	if (n == 0)
		return NULL;
	struct g *gp = ld_rlx(&pp->ring[lane][(tail - 1) % RUNQ_SIZE]);

	st_rel(&pp->tail[lane], tail + n - 1); /* ORD(runq.publish) */
	bump(&pp->count.stolen, n - 1);
	return gp;
}

struct g *runq_steal(struct p *pp, struct p *victim, bool next)
{
	struct g *gp;

	if (!ld_acq(&victim->open)) /* ORD(p.open) */
		return NULL;
	if ((gp = ring_steal(pp, victim, LANE_EVENT)) || (gp = ring_steal(pp, victim, LANE_NEW)))
		return gp;
	if ((gp = ring_steal(pp, victim, LANE_YIELD))) {
		/* RUNQ-6: they run before Gs that yield now */
		pp->round_end = pp->tail[LANE_YIELD];
		return gp;
	}
	gp = next ? ld_rlx(&victim->runnext) : NULL;
	if (gp && cas_seq(&victim->runnext, &gp, (struct g *)NULL)) /* ORD(runnext) */
		return gp;
	return NULL;
}

/* Gs of a P that does not reach its next wait: the latency of each is measured from here on. */
static void gq_put_late(struct g **batch, uint32_t n, bool yielded)
{
	uint64_t ticks = cpu_ticks();

	for (uint32_t i = 0; i < n; i++) {
		struct g *gp = batch[i];

		if (!(gp->resume & RESUME_MEASURED))
			probe_queued(gp, yielded ? GMP_LATENCY_YIELD : latency_cause_of(gp), ticks);
		if (yielded)
			gq_put_yielded(gp);
		else
			gq_put(gp);
	}
}

/* All under the lock: the victim's M may find its ring empty and stop, and sched_stalled_locked
 * must not miss the Gs that sysmon holds. */
void runq_spill(struct p *victim)
{
	static struct g *batch[RUNQ_SIZE]; /* under the lock */
	struct g *next;
	uint32_t n;

	if (!ld_acq(&victim->open)) /* ORD(p.open) */
		return;
	lock(&sched.lock, LR_SCHED);
	for (enum lane lane = LANE_EVENT; lane < LANES; lane++)
		while ((n = ring_grab(victim, lane, batch, 0)))
			gq_put_late(batch, n, lane == LANE_YIELD);
	next = ld_rlx(&victim->runnext);
	if (next && cas_seq(&victim->runnext, &next, (struct g *)NULL)) /* ORD(runnext) */
		gq_put_late(&next, 1, false);
	unlock(&sched.lock, LR_SCHED);
}

/* --- the global queue --- */

/*
 * It has three lanes, each FIFO: Gs that an event made runnable, new Gs (RUNQ-5), and
 * Gs that have yielded (RUNQ-6).  A new G is a g struct only; a G that has run keeps its stack
 * until it ends.  If a program makes a million Gs that sleep for a while, the first of them end
 * before many more begin, and leave warm stacks; in one lane half a million Gs would have a stack
 * each.  A new G made by gmp_go that leaves a full ring becomes a compact record of 32 bytes
 * instead of 264 (G-3 of g.h).
 */

static uint32_t gq_takes; /* (l) counts takes while LANE_EVENT and LANE_NEW hold Gs */

static size_t lane_bytes[LANES];

int gq_init(uint32_t limit)
{
	static const uint32_t sizes[LANES] = {
		[LANE_EVENT] = sizeof(struct g *),
		[LANE_NEW] = sizeof(struct unstarted),
		[LANE_YIELD] = sizeof(struct g *),
	};

	for (int i = 0; i < LANES; i++) {
		struct gqueue *q = &sched.gq[i];

		lane_bytes[i] = round_up(((size_t)1 << log2_ceil(limit)) * sizes[i], PAGE);
		*q = (struct gqueue){ .slot = os_reserve(lane_bytes[i]),
				      .size = sizes[i],
				      .cap = GQ_CAP_MIN };
		st_rlx(&sched.gqlen[i], 0);
		if (!q->slot) {
			gq_fini();
			return -ENOMEM;
		}
	}
	st_rlx(&sched.gqn, 0);
	gq_takes = 0;
	return 0;
}

void gq_fini(void)
{
	for (int i = 0; i < LANES; i++) {
		os_release(sched.gq[i].slot, lane_bytes[i]);
		sched.gq[i] = (struct gqueue){ 0 };
		st_rlx(&sched.gqlen[i], 0);
	}
}

static void *gq_entry(const struct gqueue *q, uint32_t i)
{
	return (char *)q->slot + (size_t)((q->head + i) & (q->cap - 1)) * q->size;
}

/* Double the ring in place: the wrapped part moves behind the rest. */
static void gq_grow(struct gqueue *q)
{
	size_t cap = (size_t)q->cap * q->size;

	gmp_assert(cap * 2 <= lane_bytes[q - sched.gq]);
	memcpy((char *)q->slot + cap, q->slot, (size_t)q->head * q->size);
	q->cap *= 2;
}

static enum lane lane_of(const struct g *gp)
{
	return ld_rlx(&gp->stack) || variant_has_one_lane() ? LANE_EVENT : LANE_NEW;
}

/* Append an entry, which the caller fills. */
static void *gq_new_entry(enum lane lane)
{
	struct gqueue *q = &sched.gq[lane];
	uint32_t n = gq_len(lane);

	if (n == q->cap)
		gq_grow(q);
	st_rlx(&sched.gqn, sched.gqn + 1);
	st_rlx(&sched.gqlen[lane], n + 1);
	return gq_entry(q, n);
}

void gq_put(struct g *gp)
{
	enum lane lane = lane_of(gp);
	void *entry = gq_new_entry(lane);

	if (lane == LANE_EVENT)
		*(struct g **)entry = gp;
	else
		*(struct unstarted *)entry = (struct unstarted){ .arg = gp };
}

void gq_put_yielded(struct g *gp)
{
	if (!variant_has_yield_lane()) {
		gq_put(gp);
		return;
	}
	*(struct g **)gq_new_entry(LANE_YIELD) = gp;
}

void gq_to_front(enum lane lane, uint32_t at)
{
	struct gqueue *q = &sched.gq[lane];
	struct unstarted first, other; /* the larger of the two kinds of entries */

	memcpy(&first, gq_entry(q, 0), q->size);
	memcpy(&other, gq_entry(q, at), q->size);
	memcpy(gq_entry(q, 0), &other, q->size);
	memcpy(gq_entry(q, at), &first, q->size);
}

/* Take the first G of a lane that is not empty; the caller counts gqn.  *unused: see g_expand. */
static struct g *lane_take(struct p *pp, enum lane lane, uint32_t *unused)
{
	struct gqueue *q = &sched.gq[lane];
	const void *entry = gq_entry(q, 0);
	const struct unstarted *u = entry;
	struct g *gp;

	if (lane != LANE_NEW)
		gp = *(struct g *const *)entry;
	else
		gp = u->fn ? g_expand(pp, u, unused) : u->arg;
	q->head = (q->head + 1) & (q->cap - 1);
	st_rlx(&sched.gqlen[lane], gq_len(lane) - 1);
	return gp;
}

/* RUNQ-5.  gq_ready_len is not 0. */
static struct g *gq_take(struct p *pp, uint32_t *unused)
{
	bool new = gq_len(LANE_NEW) && (!gq_len(LANE_EVENT) || ++gq_takes % NEW_EVERY == 0);

	return lane_take(pp, new ? LANE_NEW : LANE_EVENT, unused);
}

/* After a burst: discard the pages of an empty large ring. */
static void gq_shrink(enum lane lane)
{
	struct gqueue *q = &sched.gq[lane];

	if (gq_len(lane) == 0 && q->cap > 64 * 1024) {
		os_discard(q->slot, (size_t)q->cap * q->size);
		q->cap = GQ_CAP_MIN;
		q->head = 0;
	}
}

struct g *gq_get(struct p *pp, unsigned most)
{
	uint32_t all = gq_ready_len(), unused = 0;

	if (all == 0)
		return NULL;
	uint32_t share = all / (uint32_t)max_of(ld_rlx(&sched.procs), 1) + 1;
	uint32_t n = min_of(min_of(min_of(share, all), most), runq_room(pp) + 1);
	struct g *gp = gq_take(pp, &unused);

	st_rlx(&sched.gqn, sched.gqn - n);
	while (--n > 0)
		runq_put(pp, gq_take(pp, &unused));
	for (enum lane lane = LANE_EVENT; lane < LANES; lane++)
		gq_shrink(lane);
	unstarted_unreserve(unused);
	return gp;
}

/* Take one G of LANE_YIELD, which is not empty, to run, and move more, up to `most` in all and a
 * fair share, to the same lane of pp, which is empty. */
static struct g *gq_get_yielded(struct p *pp, unsigned most)
{
	uint32_t all = gq_len(LANE_YIELD), unused = 0;
	uint32_t share = all / (uint32_t)max_of(ld_rlx(&sched.procs), 1) + 1;
	uint32_t n = min_of(min_of(share, all), most);
	struct g *gp = lane_take(pp, LANE_YIELD, &unused);

	st_rlx(&sched.gqn, sched.gqn - n);
	pp->drr.head--; /* it runs without having been in the ring */
	while (--n > 0) {
		uint32_t tail = pp->tail[LANE_YIELD];

		st_rlx(&pp->ring[LANE_YIELD][tail % RUNQ_SIZE], lane_take(pp, LANE_YIELD, &unused));
		st_rel(&pp->tail[LANE_YIELD], tail + 1); /* ORD(runq.publish) */
	}
	gq_shrink(LANE_YIELD);
	return gp;
}

struct g *gq_get_from(struct p *pp, enum lane lane)
{
	uint32_t unused = 0;
	struct g *gp = lane_take(pp, lane, &unused);

	st_rlx(&sched.gqn, sched.gqn - 1);
	gq_shrink(lane);
	unstarted_unreserve(unused);
	return gp;
}
