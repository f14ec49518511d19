/* SPDX-License-Identifier: MIT */
#include "chaos.h"

#include "base/os.h"
#include "base/rand.h"
#include "proc.h"
#include "runq.h"

enum { DRAWN_FROM = 64, LATE_NS = 100000 };

uint32_t chaos_draw(uint32_t n)
{
	static uint64_t shared; /* (a) for threads that have no P */
	struct p *pp = getp();

	if (pp)
		return rand_below(&pp->rand, n);
	uint64_t state = add_rlx(&shared, RAND_STEP) + cpu_ticks();

	return rand_below(&state, n);
}

void chaos_shuffle(struct p *pp)
{
	struct gqueue *q = &sched.gq[chaos_draw(LANES)];
	struct g *gp = NULL;

	lock(&sched.lock, LR_SCHED);
	p_empty_locked(pp);
	if (q->n) {
		uint32_t at = chaos_draw(min_of(q->n, (uint32_t)DRAWN_FROM));
		struct g **first = &q->slot[q->head],
			 **other = &q->slot[(q->head + at) & (q->cap - 1)];

		gp = *other;
		*other = *first;
		*first = gp;
	}
	gp = gq_get(pp, 1);
	unlock(&sched.lock, LR_SCHED);
	if (gp)
		runnext_swap(pp, gp);
	chaos_late();
}

void chaos_late(void)
{
	if (!rt_replays() && chaos_draw(64) == 0)
		os_nap(chaos_draw(LATE_NS));
}

size_t chaos_short(size_t n)
{
	if (n < 2 || chaos_draw(2))
		return n;
	return 1 + chaos_draw((uint32_t)min_of(n, (size_t)UINT32_MAX));
}
