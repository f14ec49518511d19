/* SPDX-License-Identifier: MIT */
/* Takes Ps from running Ms; see take.h. */
#include "policy/take.h"

#include "base/emit.h"
#include "base/os.h"
#include "handoff.h"
#include "policy/spare.h"
#include "proc.h"

/* Can another M run the P that is taken next?  SPARE-1 of policy/spare.h. */
static bool m_is_there_locked(void)
{
	if (sched.nmidle || sched.lostp)
		return true;
	bool full = sched.nm - sched.nresting >= sched.nmlimit;

	if (full)
		add_rlx(&sched.total.refused, 1);
	return !full && spare_may_start();
}

/* The P of m is the caller's from here on, which hands it off after unlocking. */
static void p_taken_locked(struct m *m, struct p *pp)
{
	const struct g *gp = ld_rlx(&m->curg); /* may have ended since, and be another G */

	emit(EVENT_PREEMPT, 0, (uint64_t)pp->id, gp ? ld_rlx(&gp->id) : 0, 0);
	m->preempted.at = os_now();
	st_rlx(&sched.npreempted, sched.npreempted + 1);
	st_rlx(&sched.nblocked, sched.nblocked + 1);
	add_rlx(&sched.total.preemptions, 1);
}

/* Steps 1 to 5 of sysmon, under sched.lock.  Returns P_TAKEN; P_WANTED: the M gives pp up itself;
 * P_KEPT: nothing has come of it. */
static uint8_t p_ask_locked(struct p *pp, uint64_t steps)
{
	struct m *m = ld_rlx(&pp->m);
	uint8_t was, asked = P_ASKED;

	if (ld_rlx(&sched.state) != RUN_ON || !m) /* at the end of a run m may be freed */
		return P_KEPT;
	was = ld_rlx(&m->taken);
	if (was == P_TAKEN || p_steps(pp) != steps || !m_is_there_locked())
		return P_KEPT;
	st_rlx(&m->preempted.steps, steps);
	st_rlx(&m->preempted.sample.tid,
	       ld_rlx(&pp->run_sample.tid)); /* the caller is sysmon, which writes both */
	st_rlx(&m->preempted.sample.since, ld_rlx(&pp->run_sample.since));
	st_rlx(&m->preempted.sample.cpu, ld_rlx(&pp->run_sample.cpu));
	if (!cas_rlx(&m->taken, &was, (uint8_t)P_ASKED)) /* it was WANTED, and m has ended that */
		return P_KEPT;
	os_membarrier();                                /* ORD(preempt) */
	bool outside = ld_acq(&m->inside) == 0;         /* ORD(preempt): before the status */
	bool mine = ld_acq(&pp->status) == P_RUNNING && /* ORD(p.blocked) */
		    ld_rlx(&m->p) == pp && p_steps(pp) == steps && ld_rlx(&sched.state) == RUN_ON;
	uint8_t now = !mine ? P_KEPT : outside ? P_TAKEN : P_WANTED;

	if (now == P_TAKEN) /* before m can see it, and ask for m_slice again */
		os_thread_slice(m->tid, sched.slice);
	bool won = cas_acq(&m->taken, &asked, now); /* ORD(preempt) */

	if (now == P_TAKEN && won)
		p_taken_locked(m, pp);
	else if (now == P_TAKEN)
		os_thread_slice(m->tid, m_slice());
	return won ? now : ld_rlx(&m->taken) == P_WANTED ? P_WANTED : P_KEPT;
}

bool sched_preempt(struct p *pp, uint64_t steps)
{
	lock(&sched.lock, LR_SCHED);
	uint8_t got = p_ask_locked(pp, steps);
	bool make = sched.nmidle == 0 && (got == P_WANTED || !spare_may_start());
	unlock(&sched.lock, LR_SCHED);
	if (got == P_TAKEN)
		sched_hand_off(pp, false);
	if (make && spare_ask())
		add_rlx(&sched.total.refused, 1);
	return got == P_TAKEN;
}

/* Step 4 of the M.  A try: sysmon holds the lock for a membarrier.  The caller may hold the lock of
 * a channel, so the M makes no OS thread here: that is left to spare.h. */
bool sched_give_p_up(struct m *m)
{
	struct p *pp = m->p;
	bool given = false;

	if (!ld_rlx(&sched.nmidle) || !try_lock_against(&sched.lock, LR_SCHED))
		return false;
	uint8_t was = P_WANTED;

	if (p_steps(pp) != m->preempted.steps || ld_rlx(&sched.state) != RUN_ON) {
		cas_rlx(&m->taken, &was, (uint8_t)P_KEPT); /* asked in an earlier run */
	} else if (sched.nmidle) {
		/* no other thread writes WANTED while this one holds the lock */
		st_rlx(&m->taken, (uint8_t)P_TAKEN);
		p_taken_locked(m, pp);
		given = true;
	}
	unlock(&sched.lock, LR_SCHED);
	if (given) {
		sched_hand_off(pp, false);
		os_thread_slice(0, sched.slice); /* after the last lock */
	}
	return given;
}
