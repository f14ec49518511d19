/* SPDX-License-Identifier: MIT */
/* Chaos in the scheduler: each step of a P draws the G that runs next, and a call that may wait
 * sometimes yields; see variant/chaos.h. */
#include "base/os.h"
#include "park.h"
#include "proc.h"
#include "ready.h"
#include "runq.h"
#include "source.h"
#include "variant/variant.h"

enum { DRAWN_FROM = 64 };

/* With sched.lock held: takes one of the first DRAWN_FROM Gs of a lane.  A lane is drawn by its
 * share of all Gs, not by the ratio of runq.h: here every G passes through the global queue, and a
 * G that repeatedly spawns and yields would run before its children three times of four. */
static struct g *draw_one(struct p *pp)
{
	uint32_t all = sched.gqn;

	if (all == 0)
		return NULL;
	uint32_t drawn = chaos_draw(all);
	enum lane lane = LANE_EVENT;

	while (drawn >= gq_len(lane))
		drawn -= gq_len(lane++);
	gq_to_front(lane, chaos_draw(min_of(gq_len(lane), (uint32_t)DRAWN_FROM)));
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

#ifdef GMP_DEBUG_CHECKS
noinline void gmp__chaos_point(void)
{
	if (chaos_draw(3))
		return;
	if (getm())
		park_yield();
	else
		os_yield();
}
#endif
