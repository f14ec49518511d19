/* SPDX-License-Identifier: MIT */
/* Asks timers and the poller; see source.h. */
#include "source.h"

#include "base/emit.h"
#include "base/os.h"
#include "netpoll/netpoll.h"
#include "observe/probe.h"
#include "ready.h"
#include "runq.h"
#include "timer/timerheap.h"
#include "variant/variant.h"
#include "waiter.h"

/* --- timers --- */

/* The time for the timers of pp; keeps when it was read. */
static int64_t read_clock(struct p *pp)
{
	int64_t now = ld_rlx(&sched.virtual_now);

	if (unlikely(now)) {           /* variant_time_is_virtual */
		pp->clock_read_at = 0; /* check timers at every step, whatever the real time is */
		return now;
	}
	now = os_now();
	pp->clock_read_at = cpu_ticks();
	st_rlx(&sched.coarse_now, now);
	return now;
}

/* Fire the due timers of from's heap, until `most` Gs are runnable.  Returns these. */
static struct glist fire_timers(struct p *pp, struct p *from, int64_t now, unsigned most)
{
	struct glist out = { 0 };
	uint64_t late = time_between(timers_next(from), now);
	unsigned n = timers_run_some(from, now, most, &out);

	if (n) {
		bump(&pp->count.timers_fired, n);
		emit(EVENT_TIMER, 0, (uint64_t)pp->id, n, 0);
	}
	probe_late_timers(out.head, late);
	glist_prefetch(&out);
	return out;
}

/* Fire all due timers of from's heap; the Gs go to the tail of pp's ring. */
static void run_timers(struct p *pp, struct p *from, int64_t now)
{
	struct glist out = fire_timers(pp, from, now, UINT32_MAX);

	sched_submit_due(&out);
}

/* --- SOURCE-1 --- */

/* Are Gs that timers put in front of the ring still there?  Thieves may have taken some. */
static bool due_in_front(struct p *pp)
{
	uint32_t left = pp->due.end - (uint32_t)ld_rlx(&pp->head[LANE_EVENT]);

	return left - 1 < pp->due.n;
}

/* earned: may be negative, also since virtual time may go back. */
static void add_budget(struct p *pp, int64_t earned, uint64_t now)
{
	pp->due.budget = max_of(min_of(pp->due.budget + earned, (int64_t)QUANTUM_TICKS),
				-(int64_t)DEFICIT_TICKS);
	pp->due.since = now;
}

/*
 * Charge the time since due.since to timers: to firing them, and to the runs of n Gs.  If no timer
 * was armed meanwhile, the switch after the last of these Gs went unnoticed; then all runs since
 * count as equally long, and those after the first n are the other Gs'.
 */
static void charge_timers(struct p *pp, uint32_t n)
{
	uint32_t runs = (uint32_t)ld_rlx(&pp->count.switches) - pp->due.from;
	uint64_t now = variant_ticks(pp);
	int64_t used = (int64_t)(now - pp->due.since), theirs = runs > n ? used / runs * n : used;

	add_budget(pp, DUE_SHARE * (used - theirs) - theirs, now);
}

/* Credit the time since due.since to the other Gs.  Returns false if they must run on. */
static bool timers_may_run(struct p *pp)
{
	uint64_t now = variant_ticks(pp);

	add_budget(pp, DUE_SHARE * (int64_t)(now - pp->due.since), now);
	return pp->due.budget > 0;
}

/* Are Gs queued that no timer made runnable? */
static bool others_wait(struct p *pp)
{
	return ld_rlx(&pp->runnext) || ring_holds(pp, LANE_EVENT) || ring_holds(pp, LANE_NEW) ||
	       ring_holds(pp, LANE_YIELD) || ld_rlx(&sched.gqn);
}

/* Fire due timers of pp; their Gs go in front of its ring. */
static void run_timers_first(struct p *pp, int64_t now)
{
	struct glist out = fire_timers(pp, pp, now, DUE_BATCH);

	pp->due.from = (uint32_t)ld_rlx(&pp->count.switches);
	pp->due.n = sched_submit_first(&out, &pp->due.end);
	if (pp->due.n)
		pp->clock_read_at = 0; /* the switch after the last of them ends the charge */
	else
		charge_timers(pp, 0);
}

noinline void run_own_timers(struct p *pp)
{
	if (pp->due.n) {
		if (due_in_front(pp)) {
			if (pp->wake_deferred && variant_ticks(pp) - pp->due.since > TICKS_10US)
				sched_submit_late(pp);
			return;
		}
		charge_timers(pp, pp->due.n);
		pp->due.n = 0;
	}
	int64_t now = read_clock(pp);

	if (unlikely(pp->wake_deferred))
		sched_submit_late(pp);
	if (timers_next(pp) > now)
		return;
	if (!variant_has_runnext(pp) || !others_wait(pp)) {
		pp->due.budget = QUANTUM_TICKS;
		run_timers(pp, pp, now);
	} else if (timers_may_run(pp)) {
		run_timers_first(pp, now);
	}
}

noinline struct g *due_work(struct p *pp)
{
	run_own_timers(pp);
	return pp->due.n ? ring_get(pp, LANE_EVENT) : NULL;
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
	gmp__cancel_renew(); /* epoll_wait is a cancellation point */
	int n = netpoll_poll(ns, out);

	add_rlx(&sched.total.polls, 1);
	add_rlx(&sched.total.poll_events, (uint64_t)n);
	if (n)
		emit(EVENT_POLL, 0, (uint64_t)n, 0, 0);
	st_rlx(&sched.lastpoll, cpu_ticks());
}

void sched_poll_now(void)
{
	struct glist out = { 0 };

	sched_poll(0, &out);
	sched_submit_list(&out);
}

bool sched_should_poll(void)
{
	return ld_rlx(&sched.npollwait) > 0 && !ld_rlx(&sched.pollm);
}

/* Fairness: the kernel reports events in order, but Gs of later polls could run before those of
 * earlier ones, because a full ring moves its oldest Gs to the global queue.  So pp must first run
 * as many Gs as events had made runnable at its last poll, and the new ones between (RUNQ-5). */
void poll_if_due(struct p *pp)
{
	if ((int32_t)(pp->schedtick - pp->poll_from) < 0)
		return;
	pp->poll_from = pp->schedtick; /* so that the difference does not overflow */
	/* While Gs run for long, an M that sleeps in the poller may wait some ms for a CPU. */
	if (!(sched_should_poll() ||
	      (pp->drr.every < GLOBAL_INTERVAL && ld_rlx(&sched.npollwait))) ||
	    cpu_ticks() - ld_rlx(&sched.lastpoll) <= POLL_TICKS)
		return;
	sched_poll_now();
	uint32_t n = ring_len(pp, LANE_EVENT) + gq_len(LANE_EVENT);

	pp->poll_from += n + n / (NEW_EVERY - 1);
}
