/* SPDX-License-Identifier: MIT */
#include "source.h"

#include "base/os.h"
#include "mode/latency.h"
#include "netpoll.h"
#include "ready.h"
#include "runq.h"
#include "timerheap.h"

enum {
	POLL_TICKS = 5 * TICKS_10US,
	/* SOURCE-1 */
	DUE_BATCH = 8,
	DUE_DEBT = 5 * SLICE_TICKS,
	/* To start a G that sleeps takes less time than to resume and end it.  At equal shares, of
	 * 10,000,000 tasks that sleep for 10 ms 700,000 slept at a time, with a stack each: 3.8 GB; now
	 * 32,000, 0.7 GB (bench/experiments/tasks.c, 2 Ps). */
	DUE_SHARE = 3,
};

/* --- timers --- */

static int64_t read_clock(struct p *pp)
{
	int64_t now = ld_rlx(&sched.virtual_now);

	if (unlikely(now)) {
		pp->clock_read_at = 0; /* it looks at every turn: real time is not to decide when */
		return now;
	}
	now = os_now();
	pp->clock_read_at = cpu_ticks();
	st_rlx(&sched.coarse_now, now);
	return now;
}

/* Fire what is due in from's heap, until `most` Gs are ready. */
static struct glist fire_timers(struct p *pp, struct p *from, int64_t now, unsigned most)
{
	struct glist out = { 0 };
	uint64_t late = time_between(timers_next(from), now);
	unsigned n = timers_run_some(from, now, most, &out);

	if (n)
		bump(&pp->count.timers_fired, n);
	if (unlikely(late >= LATENCY_LATE_NS) && out.head)
		latency_stamp(out.head, LATENCY_TIMER, false);
	glist_prefetch(&out);
	return out;
}

/* Fire all that is due in from's heap; the ready ones go to the tail of pp's ring. */
static void run_timers(struct p *pp, struct p *from, int64_t now)
{
	struct glist out = fire_timers(pp, from, now, UINT32_MAX);

	sched_submit_due(&out);
}

/* --- SOURCE-1 --- */

static uint64_t due_clock(struct p *pp)
{
	return rt_replays() ? ld_rlx(&pp->count.switches) * TICKS_10US : cpu_ticks();
}

/* Gs that timers put in front of the ring are there; thieves may have taken some. */
static bool due_in_front(struct p *pp)
{
	uint32_t left = pp->due_end - (uint32_t)ld_rlx(&pp->runqhead);

	return left - 1 < pp->due;
}

/*
 * The time since due_since was used by firing timers and by the runs of n Gs that they made ready.  If no
 * timer was armed, the switch after the last of these went unnoticed; then each run since counts as equally
 * long, and the rest of the time as the others'.
 */
static void charge_timers(struct p *pp, uint32_t n)
{
	uint32_t runs = (uint32_t)ld_rlx(&pp->count.switches) - pp->due_from;
	uint64_t now = due_clock(pp);
	int64_t used = (int64_t)(now - pp->due_since), theirs = runs > n ? used / runs * n : used;
	int64_t budget = pp->due_budget - theirs + DUE_SHARE * (used - theirs);

	pp->due_budget = max_of(min_of(budget, (int64_t)SLICE_TICKS), -(int64_t)DUE_DEBT);
	pp->due_since = now;
}

/* The others have used the time since due_since.  Returns false if they run on. */
static bool timers_may_run(struct p *pp)
{
	uint64_t now = due_clock(pp);

	int64_t earned = DUE_SHARE * (int64_t)(now - pp->due_since);

	pp->due_budget = min_of(pp->due_budget + earned, (int64_t)SLICE_TICKS);
	pp->due_since = now;
	return pp->due_budget > 0;
}

/* Gs that no timer made runnable wait on pp. */
static bool others_wait(struct p *pp)
{
	return pp->runqtail != (uint32_t)ld_rlx(&pp->runqhead) || ld_rlx(&pp->runnext) ||
	       ld_rlx(&sched.gqn) || pp->yieldtail != (uint32_t)ld_rlx(&pp->yieldhead);
}

static void run_timers_first(struct p *pp, int64_t now)
{
	struct glist out = fire_timers(pp, pp, now, DUE_BATCH);

	pp->due_from = (uint32_t)ld_rlx(&pp->count.switches);
	pp->due = sched_submit_first(&out, &pp->due_end);
	if (pp->due)
		pp->clock_read_at = 0; /* the next switch ends the charge, if the last of them has run */
	else
		charge_timers(pp, 0);
}

noinline void run_own_timers(struct p *pp)
{
	if (pp->due) {
		if (due_in_front(pp)) {
			if (pp->wake_deferred && due_clock(pp) - pp->due_since > TICKS_10US)
				sched_submit_late(pp);
			return;
		}
		charge_timers(pp, pp->due);
		pp->due = 0;
	}
	int64_t now = read_clock(pp);

	if (unlikely(pp->wake_deferred))
		sched_submit_late(pp);
	if (timers_next(pp) > now)
		return;
	if (pp->in_order || !others_wait(pp)) {
		pp->due_budget = SLICE_TICKS;
		run_timers(pp, pp, now);
	} else if (timers_may_run(pp)) {
		run_timers_first(pp, now);
	}
}

noinline struct g *due_work(struct p *pp)
{
	run_own_timers(pp);
	return pp->due ? runq_get(pp) : NULL;
}

void steal_timers(struct p *pp)
{
	int n = ld_acq(&sched.nallp); /* ORD(allp) */
	int64_t now = 0;

	for (int i = 0; i < n; i++) {
		struct p *other = sched.allp[i];
		int64_t next = timers_next(other);

		if (other == pp || next == NEVER)
			continue;
		if (!now)
			now = read_clock(pp);
		if (next <= now)
			run_timers(pp, other, now);
	}
}

/* --- the poller --- */

void sched_poll(int64_t ns, struct glist *out)
{
	int n = netpoll_poll(ns, out);

	add_rlx(&sched.polls, 1);
	add_rlx(&sched.poll_events, (uint64_t)n);
	st_rlx(&sched.lastpoll, cpu_ticks());
}

void sched_poll_now(void)
{
	struct glist out = { 0 };
	bool bare = !getp(); /* the watcher: what it wakes stands nowhere until it is submitted */

	if (bare) /* so that nobody takes that for a deadlock */
		add_rlx(&sched.npollwait, 1);
	sched_poll(0, &out);
	sched_submit_list(&out);
	if (bare)
		add_rlx(&sched.npollwait, -1u);
}

bool sched_should_poll(void)
{
	return ld_rlx(&sched.npollwait) > 0 && !ld_rlx(&sched.pollm);
}

/* The kernel keeps events in order; here they would overtake, for a full ring drives the first of its
 * Gs to the global queue, and who is there waits until the ring runs dry.  So this P has to run as many
 * as were ready at its last look before the next. */
void poll_if_due(struct p *pp)
{
	if ((int32_t)(pp->schedtick - pp->poll_from) < 0)
		return;
	pp->poll_from = pp->schedtick; /* never far behind, for the sake of the sign */
	if (!sched_should_poll() || cpu_ticks() - ld_rlx(&sched.lastpoll) <= POLL_TICKS)
		return;
	sched_poll_now();
	pp->poll_from += runq_len(pp) + ld_rlx(&sched.gqn);
}
