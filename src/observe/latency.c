/* SPDX-License-Identifier: MIT */
/* Scheduling latency.  latency.h has the invariants. */
#include "observe/latency.h"

#include "base/os.h"
#include "g.h"
#include "timer/timerheap.h"

const char *const latency_causes[] = {
	[GMP_LATENCY_SPAWN] = "spawn",       [GMP_LATENCY_YIELD] = "yield",
	[GMP_LATENCY_TIMER] = "timer",       [GMP_LATENCY_DESCRIPTOR] = "descriptor",
	[GMP_LATENCY_BLOCKING] = "blocking", [GMP_LATENCY_WAKE] = "wake",
};

/* --- one G --- */

/* Between 33 and 96 Gs, 64.5 on average. Not from pp->rand: measuring draws must not change the
 * schedule that a seed repeats. */
static uint64_t next_sample(uint64_t ticks)
{
	return LATENCY_EVERY / 2 + 1 + (ticks * 0x9e3779b97f4a7c15u >> 58);
}

/* Converts a deadline that has passed to cpu_ticks. */
static uint64_t ticks_of(int64_t deadline, uint64_t ticks)
{
	int64_t now = os_now(), run = now - sched.start_now;
	double late = (double)time_between(deadline, now);

	if (ld_rlx(&sched.virtual_now) || run <= 0)
		return ticks;
	late *= (double)(ticks - sched.start_ticks) / (double)run;
	return late < (double)ticks ? ticks - (uint64_t)late : 0;
}

void latency_stamp(struct g *gp, gmp_latency_cause cause, bool sampled)
{
	uint64_t ticks = cpu_ticks();

	if (cause == GMP_LATENCY_TIMER)
		ticks = ticks_of((int64_t)ld_rlx(&gp->ready_at), ticks);
	st_rlx(&gp->ready_at, ticks);
	gp->measured = (uint8_t)(cause | (sampled ? LATENCY_SAMPLED : 0));
	gp->resume |= RESUME_MEASURED;
}

noinline void latency_sample(struct p *pp, struct g *gp, gmp_latency_cause cause)
{
	pp->sample_in = next_sample(cpu_ticks());
	if (!(gp->resume & RESUME_MEASURED)) /* otherwise a late timer's: stamped already */
		latency_stamp(gp, cause, true);
}

gmp_latency_cause latency_cause_of(const struct g *gp)
{
	if (!ld_rlx(&gp->stack))
		return GMP_LATENCY_SPAWN;
	return g_wait_kind(gp)->end == WAITEND_IO ? GMP_LATENCY_DESCRIPTOR : GMP_LATENCY_WAKE;
}

noinline void latency_record(struct p *pp, struct g *gp)
{
	uint64_t now = cpu_ticks(), ready_at = ld_rlx(&gp->ready_at);
	uint64_t ticks = now > ready_at ? now - ready_at : 0; /* CPUs may differ a little */
	struct latency *l = &pp->latency[gp->measured & LATENCY_CAUSE_MASK];
	unsigned weight = gp->measured & LATENCY_SAMPLED ? LATENCY_EVERY : 1;

	gp->resume &= (uint8_t)~RESUME_MEASURED;
	bump(&l->samples, 1);
	bump(&l->in[latency_bucket(ticks)], weight);
	if (ticks > l->max)
		st_rlx(&l->max, ticks);
}

uint64_t latency_bound(unsigned bucket)
{
	unsigned octave = bucket / 4 + 1;

	return bucket < 4 ? bucket : (((uint64_t)bucket % 4 + 5) << (octave - 2)) - 1;
}

/* --- one P, as sysmon sees it --- */

enum { NO_HEAD = -1 };

/* Changes whenever a G begins to run, enters blocking code, or the P is given up. */
static uint64_t run_steps(struct p *pp)
{
	return ld_rlx(&pp->count.switches) + ld_rlx(&pp->count.blocks) + ld_rlx(&pp->count.parks);
}

static bool is_running(struct p *pp)
{
	return (ld_rlx(&pp->status) & P_STATUS_MASK) == P_RUNNING;
}

static uint64_t head_if_any(struct p *pp, enum lane lane)
{
	uint64_t head = ld_rlx(&pp->head[lane]);

	return (uint32_t)head == ld_rlx(&pp->tail[lane]) ? (uint64_t)NO_HEAD : head;
}

static bool is_head(const struct watched_run *w, struct p *pp, enum lane lane)
{
	return w->heads[lane] != (uint64_t)NO_HEAD && w->heads[lane] == ld_rlx(&pp->head[lane]);
}

static void begin_queue(struct watched_run *w, struct p *pp, int64_t now)
{
	w->queued_since = now;
	for (enum lane lane = LANE_EVENT; lane < LANES; lane++)
		w->heads[lane] = head_if_any(pp, lane);
	w->next = ld_rlx(&pp->runnext);
}

/* The P has not switched since the last poll. */
static void watch_queue(struct watched_run *w, struct p *pp, int64_t now)
{
	bool same = w->next && w->next == ld_rlx(&pp->runnext);

	for (enum lane lane = LANE_EVENT; lane < LANES; lane++)
		same |= is_head(w, pp, lane);
	if (same)
		raise_rlx(&sched.longest.queued, now - w->queued_since);
	else
		begin_queue(w, pp, now);
	if (!ld_rlx(&sched.virtual_now))
		raise_rlx(&sched.longest.queued, (int64_t)time_between(timers_next(pp), now));
}

void latency_watch(struct p *pp, int64_t now)
{
	struct watched_run *w = &pp->watched;
	uint64_t steps = run_steps(pp);
	bool runs = is_running(pp);

	if (runs && steps == w->steps && w->since != NEVER) {
		raise_rlx(&sched.longest.run, now - w->since);
		watch_queue(w, pp, now);
		return;
	}
	st_rlx(&w->since, runs ? now : NEVER);
	st_rel(&w->steps, steps); /* ORD(p.watched) */
	begin_queue(w, pp, now);
}

void latency_note_running(struct p *pp, int64_t now)
{
	uint64_t steps = ld_acq(&pp->watched.steps); /* ORD(p.watched) */
	int64_t since = ld_rlx(&pp->watched.since);

	if (steps == run_steps(pp) && is_running(pp) && since <= now)
		raise_rlx(&sched.longest.run, now - since);
}
