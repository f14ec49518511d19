/* SPDX-License-Identifier: MIT */
/* Preemption: which Ps sysmon takes; see preempt.h. */
#include "preempt.h"

#include "base/os.h"
#include "handoff.h"
#include "mode/chaos.h"
#include "mode/hooks.h"
#include "mode/longrun.h"
#include "proc.h"
#include "ready.h"
#include "source.h"
#include "timerheap.h"

/*
 * COMPUTING: preempted Gs that compute at the same time, for each P.  With the Gs that have a P, at
 * most four threads for each P compete for the CPUs.  PATIENCE_NS: PREEMPT-4; four threads on one
 * CPU, each with a computation of 200 ms, finish within it.  HUNT_POLLS: polls after the last P of
 * a sleeping thread was taken; a poll costs 5 us for each running P, the read of a file of /proc.
 * COUNT_DUTY: counting the Gs that compute costs as much for each preempted G, and may take 1/20 of
 * sysmon's time.  URGENT_SHARE, URGENT_NS: a time slice becomes this part of itself, or shorter by
 * this, while events wait and no P switches (policy of preempt.h); 10 ms becomes 2, two polls.
 */
enum {
	COMPUTING = 3,
	PATIENCE_NS = 1000000000,
	HUNT_POLLS = 64,
	COUNT_DUTY = 20,
	URGENT_SHARE = 5,
	URGENT_NS = 8000000,
	TIDS = 4 * PROCS_MAX,
};

static struct {
	unsigned hunt;       /* polls until the hunt ends */
	int64_t full_since;  /* since when there is no room; NEVER: there is room */
	int64_t refused_at;  /* the last poll without room */
	int64_t patience;    /* how long there may be no room */
	int room;            /* room_now, at the last count, less the Ps taken since */
	int64_t count_at;    /* when it may be counted again */
	struct p *candidate; /* of this poll, for preempt_without_room; NULL: none */
	uint64_t steps;      /* p_steps of the candidate */
	int tids[TIDS];
} preempt;

void preempt_begin(void)
{
	preempt.hunt = 0;
	preempt.full_since = NEVER;
	preempt.patience = PATIENCE_NS;
	preempt.refused_at = 0;
	preempt.room = 0;
	preempt.count_at = 0;
	preempt.candidate = NULL;
}

/* Work waits, and no idle P can do it: none is idle, or the ring of pp is closed until its owner
 * opens it. */
static bool p_is_wanted(struct p *pp)
{
	if (ld_rlx(&sched.npidle) && ld_rlx(&pp->open))
		return false;
	return p_has_work(pp) || sched_should_poll() || has_work();
}

/* Copies the thread ids of preempted Gs to preempt.tids.  Returns their number. */
static int preempted_tids(void)
{
	int n = 0;

	lock(&sched.lock, LR_SCHED);
	for (struct m *m = sched.allm; m && n < TIDS; m = m->alllink)
		if (ld_rlx(&m->taken) == P_TAKEN)
			preempt.tids[n++] = m->tid;
	unlock(&sched.lock, LR_SCHED);
	return n;
}

static bool thread_sleeps(int tid)
{
	char state = os_thread_state(tid);

	return state == 'S' || state == 'D';
}

/* How many more preempted Gs may compute.  Those beyond TIDS count as computing. */
static int room_now(int64_t now)
{
	int most = COMPUTING * ld_rlx(&sched.procs);
	int all = ld_rlx(&sched.npreempted);

	if (all < most)
		return most - all;
	if (now < preempt.count_at)
		return preempt.room;
	int n = preempted_tids();

	most -= max_of(all - n, 0);
	while (--n >= 0 && most > 0)
		most -= !thread_sleeps(preempt.tids[n]);
	preempt.room = max_of(most, 0);
	preempt.count_at = now + COUNT_DUTY * (os_now() - now);
	return preempt.room;
}

/* PREEMPT-4 */
static bool has_room(int64_t now)
{
	if (room_now(now) <= 0)
		return false;
	if (preempt.full_since != NEVER)
		preempt.patience = max_of(preempt.patience / 2, (int64_t)PATIENCE_NS);
	preempt.full_since = NEVER;
	return true;
}

/* PREEMPT-4: true if there has been no room for preempt.patience. */
static bool patience_is_over(int64_t now)
{
	if (preempt.full_since == NEVER || now - preempt.refused_at > PATIENCE_NS / 10)
		preempt.full_since = now; /* nothing has waited meanwhile */
	preempt.refused_at = now;
	return now - preempt.full_since >= preempt.patience;
}

/* PREEMPT-4: pp is wanted, and there is no room.  Only timers distinguish candidates: their queues
 * have moved to the global queue (runq_spill). */
static void propose(struct p *pp, uint64_t steps)
{
	if (preempt.candidate && timers_next(pp) >= timers_next(preempt.candidate))
		return;
	preempt.candidate = pp;
	preempt.steps = steps;
}

/* The time slice while events wait and no P switches.  A slice that the program has made longer
 * than the default stays long. */
static int64_t urgent_slice(void)
{
	return max_of(sched.slice / URGENT_SHARE, sched.slice - (int64_t)URGENT_NS);
}

bool preempt_poll(int i, int64_t ran, bool asked, bool urgent, int64_t now)
{
	struct p *pp = sched.allp[i];
	int tid = ld_rlx(&pp->tid);
	uint64_t steps = p_steps(pp);
	int64_t slice = urgent ? urgent_slice() : sched.slice;
	bool over = ran >= slice && asked;

	if ((!over && !preempt.hunt) || sched.slice == NEVER || !tid || !p_is_wanted(pp))
		return false;
	bool sleeps = thread_sleeps(tid);

	if (!sleeps && !over)
		return false;
	if (!sleeps && !has_room(now)) {
		if (ran >= sched.slice)
			propose(pp, steps);
		return false;
	}
	if (sleeps)
		longrun_stuck(i, tid, now - ran, now);
	if (!sched_preempt(pp, steps))
		return false;
	if (sleeps) {
		preempt.hunt = HUNT_POLLS;
		add_rlx(&sched.unannounced, 1);
	} else {
		preempt.room--;
	}
	return true;
}

void preempt_without_room(int64_t now)
{
	struct p *pp = preempt.candidate;

	preempt.candidate = NULL;
	if (pp && patience_is_over(now) && sched_preempt(pp, preempt.steps)) {
		preempt.full_since = now;
		preempt.patience *= 2;
	}
}

void preempt_chaos(void)
{
	int n = ld_acq(&sched.nallp); /* ORD(allp) */
	struct p *pp = sched.allp[chaos_draw((uint32_t)n)];

	if (sched.slice != NEVER && ld_rlx(&pp->status) == P_RUNNING && has_room(os_now()))
		sched_preempt(pp, p_steps(pp));
}

int preempt_draw_tid(void)
{
	int n = preempted_tids();

	return n ? preempt.tids[chaos_draw((uint32_t)n)] : 0;
}

bool preempt_hunts(void)
{
	if (preempt.hunt)
		preempt.hunt--;
	return preempt.hunt;
}
