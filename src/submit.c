/* SPDX-License-Identifier: MIT */
#include "submit.h"

#include "base/os.h"
#include "runq.h"
#include "timer.h"
#include "wake.h"

enum {
	LATENCY_EVERY = 64, /* one ready in so many is timed */
};

static inline void sample(struct p *pp, struct g *gp)
{
	uint64_t n = pp->count.readies + 1;

	st_rlx(&pp->count.readies, n);
	if (unlikely(n % LATENCY_EVERY == 0))
		gp->ready_at = (uint32_t)cpu_ticks() | 1;
}

static noinline void submit_foreign(struct glist *list)
{
	struct g *gp;

	/* ORD(foreign): before a G can be seen runnable, so that a run's end waits for the wake too */
	add_seq(&sched.foreign, 1);
	lock(&sched.lock, LR_SCHED);
	/* under the lock: who sees it runnable, and then gets the lock, knows that this is over */
	while ((gp = glist_pop(list))) {
		g_set_status(gp, G_RUNNABLE);
		gq_put(gp);
	}
	unlock(&sched.lock, LR_SCHED);
	fence_seq(); /* ORD(idle) */
	wakep();
	sub_seq(&sched.foreign, 1); /* ORD(foreign) */
}

static noinline void submit_one_foreign(struct g *gp)
{
	struct glist one = { 0 };

	glist_push(&one, gp);
	submit_foreign(&one);
}

void sched_submit(struct g *gp, bool next)
{
	struct p *pp = getp();

	if (unlikely(!pp)) {
		submit_one_foreign(gp);
		return;
	}
	g_set_status(gp, G_RUNNABLE);
	sample(pp, gp);
	if (next > pp->in_order)
		gp = runnext_swap(pp, gp);
	if (gp) {
		runq_put(pp, gp);
		wake_if_idle();
	}
}

void sched_hurry(struct g *gp)
{
	struct p *pp = getp();

	/* a former next goes first, whatever it is */
	if (pp && !pp->in_order && !ld_rlx(&pp->runnext) && runq_take_back(pp, gp))
		runnext_swap(pp, gp);
}

void sched_wake_foreign(struct waiter *w)
{
	/* ORD(waiter.done): the last touch of what lies on the thread's stack */
	st_rel(&w->state, ld_rlx(&w->state) | W_DONE);
	os_futex_wake(&w->state, 1);
}

/* On the caller's P, or globally. */
static void submit_list(struct glist *list, bool due)
{
	struct p *pp = getp();
	struct g *gp;

	for (struct sudog *sg = list->foreign, *next; unlikely(sg != NULL); sg = next) {
		next = sg->next;
		sched_wake_foreign(sg->w);
	}
	list->foreign = NULL;
	if (!list->head)
		return;
	if (unlikely(!pp)) {
		submit_foreign(list);
		return;
	}
	while ((gp = glist_pop(list))) {
		g_set_status(gp, G_RUNNABLE);
		sample(pp, gp);
		runq_put(pp, gp);
	}
	/* curg: a green thread released them, and goes on running itself */
	uint32_t n = getm()->curg || !pp->room ? RUNQ_SIZE : runq_len(pp);

	if (n < WAKE_FROM)
		return;
	if (due && n < WAKE_FROM_DUE && timers_next(pp) != NEVER)
		pp->put_off = true;
	else
		wake_if_idle();
}

void sched_submit_list(struct glist *list)
{
	submit_list(list, false);
}

void sched_submit_due(struct glist *list)
{
	submit_list(list, true);
}

void sched_submit_late(struct p *pp)
{
	pp->put_off = false;
	if (runq_len(pp))
		wake_if_idle();
}
