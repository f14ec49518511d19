/* SPDX-License-Identifier: MIT */
#include "mode/chaos_step.h"

#include "mode/chaos.h"
#include "proc.h"
#include "ready.h"
#include "runq.h"
#include "source.h"

enum { DRAWN_FROM = 64 };

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

static void chaos_shuffle(struct p *pp)
{
	lock(&sched.lock, LR_SCHED);
	p_empty_locked(pp);
	struct g *gp = draw_one(pp);
	unlock(&sched.lock, LR_SCHED);
	if (gp)
		runnext_swap(pp, gp);
	chaos_delay();
}

void chaos_step(struct p *pp)
{
	chaos_shuffle(pp);
	wake_if_idle(); /* for what is in the global queue now */
	if (sched_should_poll() && chaos_draw(8) == 0)
		sched_poll_now();
}
