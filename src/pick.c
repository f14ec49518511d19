/* SPDX-License-Identifier: MIT */
#include "pick.h"

#include "base/emit.h"
#include "base/rand.h"
#include "ready.h"
#include "source.h"

/* --- the own queues and the global queue --- */

struct g *from_global(struct p *pp, unsigned most)
{
	if (gq_ready_len() == 0)
		return NULL;
	lock(&sched.lock, LR_SCHED);
	struct g *gp = gq_get(pp, most);
	unlock(&sched.lock, LR_SCHED);
	return gp;
}

/* --- PICK-3 and PICK-4 --- */

/* Begin an interval at `now`. */
static void begin_interval(struct p *pp, uint64_t now)
{
	struct drr *t = &pp->drr;

	t->since = now;
	t->from = (uint32_t)pp->count.switches;
	t->head = (uint32_t)ld_rlx(&pp->head[LANE_YIELD]);
	t->check_at = t->from + t->every;
	if (t->due) /* earlier, if LANE_NEW reaches the mark */
		t->check_at =
			t->from +
			max_of(min_of(t->mark - (uint32_t)ld_rlx(&pp->head[LANE_NEW]), t->every),
			       1u);
}

/* Do Gs of the yield lane wait that a quantum of pp would run?  With chaos every step draws from
 * all Gs, and a quantum would prefer some. */
static bool yielded_wait(struct p *pp)
{
	return !chaos_on() && (ring_len(pp, LANE_YIELD) || gq_len(LANE_YIELD));
}

/* If a quantum is due, begin it once the Gs have run that were new then. */
static void begin_if_due(struct p *pp)
{
	struct drr *t = &pp->drr;
	const struct g *next = ld_rlx(&pp->runnext);

	if (t->credit < CHECK_TICKS / YIELD_SHARE || ld_rlx(&pp->attention) & ATTENTION_YIELDED) {
		t->due = false;
		return;
	}
	if (!t->due) {
		t->next = next;
		t->mark = pp->tail[LANE_NEW];
	} else if (t->next && t->next != next) { /* it has run, or another G has moved it */
		t->next = NULL;
		t->mark = pp->tail[LANE_NEW];
	}
	if ((int32_t)(pp->tail[LANE_NEW] - t->mark) < 0) /* a joiner has taken the last one back */
		t->mark = pp->tail[LANE_NEW];
	t->due = t->next || (int32_t)((uint32_t)ld_rlx(&pp->head[LANE_NEW]) - t->mark) < 0;
	if (t->due)
		return;
	t->began = 0; /* quantum_next reads the clock */
	or_rlx(&pp->attention, ATTENTION_YIELDED);
}

/* PICK-4: the Gs of the yield lane, of which some wait, have run `theirs` of `runs` times in an
 * interval of `used`.  They ran while the other lanes were empty, so that leaves no negative
 * credit. */
static void add_credit(struct p *pp, int64_t used, uint32_t theirs, uint32_t runs)
{
	int64_t *credit = &pp->drr.credit;
	int64_t least = min_of(*credit, INT64_C(0));
	int64_t sum = *credit + used / YIELD_SHARE - used / runs * theirs;

	*credit = max_of(min_of(sum, (int64_t)QUANTUM_TICKS), least);
	begin_if_due(pp);
}

/* PICK-3: the Gs of the last interval ran for `each` on average.  An interval of a few runs may be
 * a short run of an event between long ones, so an interval has at most twice the switches of the
 * last one, and Gs count as slow until GLOBAL_INTERVAL is reached again. */
static void set_pace(struct p *pp, int64_t each)
{
	struct drr *t = &pp->drr;
	int64_t most = t->every ? 2 * (int64_t)t->every : GLOBAL_INTERVAL; /* 0: a new P */

	most = min_of(most, (int64_t)GLOBAL_INTERVAL);
	t->every = (uint32_t)max_of(min_of(CHECK_TICKS / (each + 1), most), INT64_C(1));
	bool slow = each > SLOW_TICKS || (pp->slow && t->every < GLOBAL_INTERVAL);

	slow &= ld_rlx(&sched.procs) > 1;
	/* RUNQ-6: the Gs in the ring are older than all that go to the global queue now */
	if (slow && !pp->slow && !gq_len(LANE_YIELD))
		pp->round_end = pp->tail[LANE_YIELD];
	pp->slow = slow;
	pp->yield_room = pp->in_order || pp->slow ? 0 : RUNQ_SIZE;
}

/* A quantum has used so much time, which adds a quarter of it to the credit as well. */
static void use_credit(struct drr *t, uint64_t used)
{
	t->credit =
		max_of(t->credit - (int64_t)(used - used / YIELD_SHARE), -(int64_t)DEFICIT_TICKS);
}

/* How long the Gs of an interval ran which the P spent partly without an M, or in blocking code: at
 * most as long as it lasted, and at the pace of the last one, or for 1 us each if they were
 * fast. */
static int64_t estimate(const struct p *pp, int64_t lasted, uint32_t runs)
{
	uint32_t every = pp->drr.every;
	int64_t each = every && every < GLOBAL_INTERVAL ? CHECK_TICKS / every : TICKS_10US / 10;

	return min_of(lasted, each * runs);
}

void pick_begin(struct p *pp)
{
	struct drr *t = &pp->drr;
	uint32_t check_at = t->check_at, runs = (uint32_t)pp->count.switches - t->from;
	uint64_t now = variant_ticks(pp);

	if (ld_rlx(&pp->attention) & ATTENTION_YIELDED) {
		if (t->began)
			use_credit(t, now - t->began);
		t->began = 0; /* the quantum continues with what is left */
		if (t->credit < CHECK_TICKS / YIELD_SHARE)
			and_rlx(&pp->attention, ~(uint32_t)ATTENTION_YIELDED);
	} else if (runs && yielded_wait(pp)) {
		add_credit(pp, estimate(pp, max_of((int64_t)(now - t->since), INT64_C(0)), runs),
			   min_of((uint32_t)ld_rlx(&pp->head[LANE_YIELD]) - t->head, runs), runs);
	}
	begin_interval(pp, now);
	/* no later, or frequent hand-offs would postpone it indefinitely */
	if ((int32_t)(check_at - t->check_at) < 0)
		t->check_at = check_at;
}

/* End an interval at `now`.  whole: it is long enough to show a pace. */
static void end_interval(struct p *pp, uint64_t now, bool whole)
{
	struct drr *t = &pp->drr;
	int64_t used = max_of((int64_t)(now - t->since), INT64_C(0));
	uint32_t runs = max_of((uint32_t)pp->count.switches - t->from, 1u);

	/* no division while Gs run for a short time, as before */
	if (whole && (used > CHECK_TICKS || t->every < GLOBAL_INTERVAL))
		set_pace(pp, used / runs);
	if (yielded_wait(pp)) {
		add_credit(pp, used,
			   min_of((uint32_t)ld_rlx(&pp->head[LANE_YIELD]) - t->head, runs), runs);
	} else {
		t->credit = 0;
		t->due = false;
	}
	begin_interval(pp, now);
}

noinline struct g *check_global(struct p *pp)
{
	bool alternates = pick_alternates(pp); /* before the poll, which may fill the ring */
	struct g *gp;

	end_interval(pp, variant_ticks(pp), true);
	poll_if_due(pp);
	if (alternates)
		return NULL;
	gp = from_global(pp, GLOBAL_CHECK_BATCH);
	if (gp)
		pp->drr.took = (uint32_t)pp->count.switches;
	return gp;
}

/* A quantum has ended: it is no part of an interval, nor of the time of SOURCE-1. */
static void end_quantum(struct p *pp, uint64_t now)
{
	struct drr *t = &pp->drr;
	uint32_t runs = (uint32_t)pp->count.switches - t->from;
	uint64_t used = now - t->began;

	use_credit(t, used);
	/* steps for pinned Gs may have run timers within the quantum */
	pp->due.since += min_of(used, now - pp->due.since);
	pp->due.from += min_of(runs, (uint32_t)pp->count.switches - pp->due.from);
	begin_interval(pp, now);
}

/* How many Gs of the yield lane wait that pp would run in a round. */
static uint32_t waiting_for_quantum(struct p *pp)
{
	uint32_t global = gq_len(LANE_YIELD);

	if (global)
		global = global / (uint32_t)max_of(ld_rlx(&sched.procs), 1) + 1;
	return ring_len(pp, LANE_YIELD) + global;
}

noinline struct g *quantum_next(struct p *pp)
{
	struct drr *t = &pp->drr;
	uint64_t now = variant_ticks(pp);
	struct g *gp;

	if (!t->began) {
		end_interval(pp, now, false); /* a G has run since the check */
		t->began = now;
		t->end = now + (uint64_t)max_of(t->credit, INT64_C(1));
		t->left = waiting_for_quantum(pp);
	}
	if ((int64_t)(t->end - now) > 0 && t->left && (gp = runq_get_yielded(pp))) {
		t->left--;
		return gp;
	}
	and_rlx(&pp->attention, ~(uint32_t)ATTENTION_YIELDED);
	end_quantum(pp, now);
	if (runq_ready_len(pp) && yielded_wait(pp)) {
		begin_if_due(pp); /* each has run once, and time is left */
		begin_interval(pp, now);
	}
	return NULL;
}

/* --- other Ps --- */

/* Grows by one with each G that is taken from a ring of pp. */
static uint32_t heads_of(struct p *pp)
{
	return (uint32_t)ld_rlx(&pp->head[LANE_EVENT]) + (uint32_t)ld_rlx(&pp->head[LANE_NEW]) +
	       (uint32_t)ld_rlx(&pp->head[LANE_YIELD]);
}

/*
 * PICK-2: will the owner of victim empty its ring soon, at its pace since the last probe?  A thief
 * that takes half of a few short-running Gs makes both Ps fetch what the other has just used; one P
 * alone finishes sooner.
 */
static bool drains_soon(struct p *victim, struct victim *probe)
{
	uint32_t head = heads_of(victim);
	int32_t ran = max_of((int32_t)(head - probe->head), 0); /* < 0: timers put Gs in front */

	probe->head = head;
	return runq_len(victim) <= DRAIN_PROBES * (uint32_t)ran;
}

/*
 * Steal from the first of n Ps that has work, beginning at a random one.  probes NULL: no back-off.
 * last: also steal Gs that their owner is about to run, and the runnext of a P that has not
 * switched since the search began.
 */
static struct g *steal_from_ps(struct p *pp, int n, struct victim *probes, bool last)
{
	int first = (int)rand_below(&pp->rand, (uint32_t)n);

	for (int k = 0; k < n; k++) {
		int i = (first + k) % n;
		struct p *victim = sched.allp[i];

		if (victim == pp || (probes && !last && drains_soon(victim, &probes[i])))
			continue;
		bool next = last && probes[i].switches == ld_rlx(&victim->count.switches);
		uint64_t before = ld_rlx(&pp->count.stolen);
		struct g *gp = runq_steal(pp, victim, next);

		if (gp) {
			bump(&pp->count.steals, 1);
			bump(&pp->count.stolen, 1);
			emit(EVENT_STEAL, 0, (uint64_t)pp->id, (uint64_t)victim->id,
			     ld_rlx(&pp->count.stolen) - before);
			return gp;
		}
	}
	return NULL;
}

/* The search of spin_for_work. */
static struct g *steal_work(struct m *m, struct p *pp, bool *from_source)
{
	struct victim *probes = pp->victims;
	uint64_t began = cpu_ticks();
	int n = ld_acq(&sched.nallp); /* ORD(allp) */
	bool spins = sched.cpus > 1 && n > 1;
	int backoff = 0; /* an M that was woken to spin finds work at once */
	struct g *gp;

	if (!m->spinning) {
		st_rlx(&m->spinning, true);
		add_seq(&sched.nmspinning, 1); /* ORD(idle) */
		backoff = BACKOFF_MIN;
	}
	for (int i = 0; i < n; i++) {
		probes[i].switches = ld_rlx(&sched.allp[i]->count.switches);
		probes[i].head = heads_of(sched.allp[i]);
	}
	do {
		if ((gp = from_global(pp, RUNQ_BATCH)))
			return gp;
		steal_timers(pp);
		if (sched_should_poll() && cpu_ticks() - ld_rlx(&sched.lastpoll) > TICKS_10US / 2)
			sched_poll_now();
		if ((gp = local_work(pp)) || p_attends(pp)) {
			*from_source = gp;
			return gp;
		}
		bump(&pp->count.spins, 1);
		for (int i = 0; i < backoff && spins; i++)
			cpu_relax();
		if ((gp = steal_from_ps(pp, n, spins ? probes : NULL, false)))
			return gp;
		backoff = max_of(min_of(backoff * 2, (int)BACKOFF_MAX), (int)BACKOFF_MIN);
	} while (spins && cpu_ticks() - began < m->spin_ticks);
	return spins ? steal_from_ps(pp, n, probes, true) : NULL;
}

/*
 * The spin time of an M adapts: it doubles after a success and halves after a failed search.
 * Threads that exchange work thus find each other spinning, and a server whose work comes from the
 * poller does not burn the CPU that its clients want.  Work from a timer or the poller does not
 * count: it would have woken the M.
 */
struct g *spin_for_work(struct m *m, struct p *pp, bool *from_source)
{
	struct g *gp = steal_work(m, pp, from_source);

	if (*from_source)
		return gp;
	m->spin_ticks = gp ? min_of(m->spin_ticks * 2, (uint32_t)SPIN_TICKS_MAX)
			   : max_of(m->spin_ticks / 2, (uint32_t)SPIN_TICKS_MIN);
	return gp;
}

bool may_spin(struct m *m)
{
	/* it sleeps in the poller instead: the kernel wakes it as soon as there is an event */
	if (!m->spinning && sched_should_poll() && !has_work())
		return false;
	return m->spinning ||
	       2 * ld_rlx(&sched.nmspinning) < ld_rlx(&sched.procs) - ld_rlx(&sched.npidle);
}
