/* SPDX-License-Identifier: MIT */
#include "runq.h"

#include <errno.h>

#include "base/os.h"
#include "base/throw.h"

/* The ring is full: the oldest go to the global queue, where idle Ps find them, and gp with them, so
 * that it stays behind those that were ready before it.  Not half of the ring: the batch may be on the
 * stack of a green thread. */
noinline void runq_put_slow(struct p *pp, struct g *gp, uint64_t head, uint32_t tail)
{
	struct g *batch[RUNQ_BATCH];
	uint32_t n = min_of((tail - (uint32_t)head) / 2, (uint32_t)RUNQ_BATCH);

	for (uint32_t i = 0; i < n; i++)
		batch[i] = ld_rlx(&pp->runq[(head + i) % RUNQ_SIZE]);
	if (!ld_rlx(&pp->shared)) {
		st_rlx(&pp->runqhead, head + n);
	} else if (!cas_rel(&pp->runqhead, &head, head + n)) { /* ORD(runq.take) */
		runq_put(pp, gp);                              /* a thief made room */
		return;
	}
	lock(&sched.lock, LR_SCHED);
	for (uint32_t i = 0; i < n; i++)
		gq_put(batch[i]);
	gq_put(gp);
	unlock(&sched.lock, LR_SCHED);
	bump(&pp->count.overflows, pp->room != 0);
}

/* Owner only: all that have yielded; how many. */
static uint32_t take_yielded(struct p *pp, struct g **out)
{
	uint64_t head = ld_rlx(&pp->yieldhead);

	for (;;) {
		uint32_t n = pp->yieldtail - (uint32_t)head;

		for (uint32_t i = 0; i < n; i++)
			out[i] = ld_rlx(&pp->yielded[(head + i) % YIELDED]);
		if (!ld_rlx(&pp->shared)) {
			st_rlx(&pp->yieldhead, head + n);
			return n;
		}
		if (n == 0 || cas_rel(&pp->yieldhead, &head, head + n)) /* ORD(runq.take) */
			return n;
	}
}

void runq_flush_yielded_locked(struct p *pp)
{
	struct g *batch[YIELDED];
	uint32_t n = take_yielded(pp, batch);

	for (uint32_t i = 0; i < n; i++)
		gq_put(batch[i]);
}

noinline void runq_flush_yielded(struct p *pp)
{
	lock(&sched.lock, LR_SCHED);
	runq_flush_yielded_locked(pp);
	unlock(&sched.lock, LR_SCHED);
}

noinline void runq_yield_slow(struct p *pp, struct g *gp)
{
	uint32_t tail = pp->yieldtail;

	if (!pp->room) {
		runq_put(pp, gp);
		return;
	}
	st_rlx(&pp->yielded[tail % YIELDED], gp);
	st_rel(&pp->yieldtail, tail + 1); /* ORD(runq.publish) */
	/* a thief's take only makes it less */
	if (tail + 1 - (uint32_t)ld_rlx(&pp->yieldhead) == YIELDED)
		runq_flush_yielded(pp);
}

/* R3: copy the older half of a ring of that size into `out`, pp's ring, from `at` on; how many. */
static uint32_t grab(uint64_t *head_of, uint32_t *tail_of, struct g **ring, uint32_t size,
		     struct g **out, uint32_t at)
{
	for (;;) {
		uint64_t head = ld_acq(head_of); /* ORD(runq.take): a tail that is not older */
		int32_t all = (int32_t)(ld_acq(tail_of) - (uint32_t)head); /* ORD(runq.publish) */
		uint32_t n = (uint32_t)(all - all / 2);

		if (all <= 0)
			return 0;
		if (n > size / 2) /* a whole round has gone by in between */
			continue;
		for (uint32_t i = 0; i < n; i++)
			st_rlx(&out[(at + i) % RUNQ_SIZE], ld_rlx(&ring[(head + i) % size]));
		if (cas_seq(head_of, &head, head + n)) /* ORD(runq.take) */
			return n;
	}
}

struct g *runq_steal(struct p *pp, struct p *victim, bool next)
{
	if (!ld_acq(&victim->open)) /* ORD(p.open) */
		return NULL;
	/* the thief's ring is empty: the slot before its tail is as free as those behind */
	uint32_t tail = pp->runqtail;
	uint32_t n = grab(&victim->runqhead, &victim->runqtail, victim->runq, RUNQ_SIZE, pp->runq,
			  tail - 1);

	if (n == 0)
		n = grab(&victim->yieldhead, &victim->yieldtail, victim->yielded, YIELDED, pp->runq,
			 tail - 1);
	if (n == 0) {
		struct g *gp = next ? ld_rlx(&victim->runnext) : NULL;

		if (gp && cas_seq(&victim->runnext, &gp, (struct g *)NULL)) /* ORD(runnext) */
			return gp;
		return NULL;
	}
	/* the oldest runs at once, the rest are published */
	struct g *gp = ld_rlx(&pp->runq[(tail - 1) % RUNQ_SIZE]);

	st_rel(&pp->runqtail, tail + n - 1); /* ORD(runq.publish) */
	bump(&pp->count.stolen, n - 1);
	return gp;
}

static void gq_put_all(struct g **batch, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		gq_put(batch[i]);
}

/* All under the lock: the victim's M may find its ring empty and go to sleep, and whoever asks under the
 * lock whether all is at an end (sched_stalled_locked) must see what the watcher has in its hands. */
void runq_spill(struct p *victim)
{
	struct g *batch[RUNQ_SIZE], *next; /* on the watcher's stack */
	uint32_t n;

	if (!ld_acq(&victim->open)) /* ORD(p.open) */
		return;
	lock(&sched.lock, LR_SCHED);
	while ((n = grab(&victim->runqhead, &victim->runqtail, victim->runq, RUNQ_SIZE, batch, 0)))
		gq_put_all(batch, n);
	while ((n = grab(&victim->yieldhead, &victim->yieldtail, victim->yielded, YIELDED, batch,
			 0)))
		gq_put_all(batch, n);
	next = ld_rlx(&victim->runnext);
	if (next && cas_seq(&victim->runnext, &next, (struct g *)NULL)) /* ORD(runnext) */
		gq_put(next);
	unlock(&sched.lock, LR_SCHED);
}

/* --- the global queue --- */

enum { NEW_EVERY = 4 };

static size_t gq_bytes; /* of each lane */

int gq_init(uint32_t limit)
{
	gq_bytes = round_up(((size_t)1 << log2_ceil(limit)) * sizeof(struct g *), PAGE);
	for (int i = 0; i < LANES; i++) {
		sched.gq[i] = (struct gqueue){ .slot = os_reserve(gq_bytes), .cap = GQ_LEAST };
		if (!sched.gq[i].slot) {
			gq_fini();
			return -ENOMEM;
		}
	}
	st_rlx(&sched.gqn, 0);
	sched.gqturn = 0;
	return 0;
}

void gq_fini(void)
{
	for (int i = 0; i < LANES; i++) {
		if (sched.gq[i].slot)
			os_release(sched.gq[i].slot, gq_bytes);
		sched.gq[i] = (struct gqueue){ 0 };
	}
}

/* Double the ring in place: the part that had wrapped round moves behind the rest. */
static void gq_grow(struct gqueue *q)
{
	gmp_assert((size_t)q->cap * 2 * sizeof(*q->slot) <= gq_bytes);
	for (uint32_t i = 0; i < q->head; i++)
		q->slot[q->cap + i] = q->slot[i];
	q->cap *= 2;
}

/* GMP_SCHED_GLOBAL's is one queue. */
static enum lane lane_of(const struct g *gp)
{
	return ld_rlx(&gp->stack) || sched.options.c.sched == GMP_SCHED_GLOBAL ? LANE_RUN
									       : LANE_NEW;
}

void gq_put(struct g *gp)
{
	struct gqueue *q = &sched.gq[lane_of(gp)];

	if (q->n == q->cap)
		gq_grow(q);
	q->slot[(q->head + q->n) & (q->cap - 1)] = gp;
	q->n++;
	st_rlx(&sched.gqn, sched.gqn + 1);
}

static struct g *lane_take(struct gqueue *q)
{
	struct g *gp = q->slot[q->head];

	q->head = (q->head + 1) & (q->cap - 1);
	q->n--;
	return gp;
}

/* R5 */
static struct g *gq_take(void)
{
	bool new =
		sched.gq[LANE_NEW].n && (!sched.gq[LANE_RUN].n || ++sched.gqturn % NEW_EVERY == 0);

	return lane_take(&sched.gq[new ? LANE_NEW : LANE_RUN]);
}

/* A burst has passed: begin again with a small ring, and give the pages back. */
static void gq_shrink(struct gqueue *q)
{
	if (q->n == 0 && q->cap > 64 * 1024) {
		os_discard(q->slot, (size_t)q->cap * sizeof(*q->slot));
		q->cap = GQ_LEAST;
		q->head = 0;
	}
}

struct g *gq_get(struct p *pp, unsigned most)
{
	uint32_t all = sched.gqn;

	if (all == 0)
		return NULL;
	uint32_t share = all / (uint32_t)max_of(ld_rlx(&sched.procs), 1) + 1;
	uint32_t n = min_of(min_of(min_of(share, all), most), runq_room(pp) + 1);
	struct g *gp = gq_take();

	st_rlx(&sched.gqn, all - n);
	while (--n > 0)
		runq_put(pp, gq_take());
	for (int i = 0; i < LANES; i++)
		gq_shrink(&sched.gq[i]);
	return gp;
}

struct g *gq_get_from(enum lane lane)
{
	struct g *gp = lane_take(&sched.gq[lane]);

	st_rlx(&sched.gqn, sched.gqn - 1);
	gq_shrink(&sched.gq[lane]);
	return gp;
}
