/* SPDX-License-Identifier: MIT */
#include "handoff.h"

#include "bound.h"
#include "proc.h"
#include "runq.h"
#include "sched.h"
#include "wake.h"

void sched_hand_off(struct p *pp, bool blocked)
{
	bool busy = runq_len(pp) || ld_rlx(&pp->runnext) || p_attends(pp);
	bool start = false, rests;
	struct m *other = NULL;

	lock(&sched.lock, LR_SCHED);
	st_rlx(&sched.nblocked, sched.nblocked + blocked);
	if (busy || ld_rlx(&sched.gqn) || sched.nmidle == 0) {
		other = midle_get();
		/* not at the end: nobody would join it */
		start = !other && ld_rlx(&sched.state) == RUN_ON && m_reserve_locked();
	}
	bool in_poller = other && other->in_poller;

	if (other)
		other->nextp = pp;
	else if (start)
		sched.nstarting++;
	rests = !other && !start;
	if (rests)
		p_rest_locked(pp);
	unlock(&sched.lock, LR_SCHED);
	if (other)
		m_wake(other, in_poller);
	if (start) {
		bool started = start_m(pp, false);

		lock(&sched.lock, LR_SCHED);
		sched.nstarting--;
		rests = !started;
		if (rests) /* no memory or no thread */
			p_rest_locked(pp);
		unlock(&sched.lock, LR_SCHED);
	}
	if (rests) {
		after_giving_up();
		wake_for_what_waited();
		tell_poller(pp);
	}
}

bool sched_regain_p(struct m *m)
{
	struct p *pp = m->p;

	lock(&sched.lock, LR_SCHED);
	m->p = NULL;
	if (ld_rlx(&sched.state) != RUN_ON) {
		pp = NULL;
	} else if (ld_rlx(&pp->status) == P_IDLE) { /* its caches are warm for this M */
		pidle_del(pp);
		st_rlx(&pp->status, P_RUNNING);
	} else {
		pp = pidle_get();
	}
	if (pp) { /* else it still counts: I3 of syscall.c */
		p_bind(pp, m);
		st_rlx(&sched.nblocked, sched.nblocked - 1);
	}
	unlock(&sched.lock, LR_SCHED);
	admit_signals(m);
	if (pp)
		rouse_sysmon();
	return pp;
}

leaves_by_jump int sched_without_p_g0(void *arg)
{
	struct m *m = getm();
	struct g *gp = arg;

	san_arrive(&m->san);
	m->curg = NULL;
	lock(&sched.lock, LR_SCHED);
	bool stopping = ld_rlx(&sched.state) != RUN_ON;

	g_set_status(gp, G_RUNNABLE);
	if (!stopping) {
		gq_put(gp);
		if (!m->bound)
			midle_put(m);
	}
	st_rlx(&sched.nblocked, sched.nblocked - 1); /* I3 of syscall.c: it stands in the queue */
	unlock(&sched.lock, LR_SCHED);
	if (stopping)
		return leave_g0(m);
	wake_for_what_waited(); /* a P may have become idle since */
	if (m->bound)
		return sleep_bound(m);
	return sleep_until_p(m) ? find_afresh(m) : leave_g0(m);
}
