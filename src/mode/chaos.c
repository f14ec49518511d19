/* SPDX-License-Identifier: MIT */
#include "mode/chaos.h"

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

/* Under sched.lock.  The lane by its share of all, not by R5: here all comes by the global queue, and who
 * starts others and yields, again and again, would come before them three times of four. */
static struct g *draw_one(struct p *pp)
{
	uint32_t all = sched.gqn;

	if (all == 0)
		return NULL;
	enum lane lane = chaos_draw(all) < sched.gq[LANE_RUN].n ? LANE_RUN : LANE_NEW;

	gq_to_front(lane, chaos_draw(min_of(sched.gq[lane].n, (uint32_t)DRAWN_FROM)));
	return gq_get_from(pp, lane);
}

void chaos_shuffle(struct p *pp)
{
	lock(&sched.lock, LR_SCHED);
	p_empty_locked(pp);
	struct g *gp = draw_one(pp);
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
