/* SPDX-License-Identifier: MIT */
/* Hand-off of Ps; see handoff.h. */
#include "handoff.h"

#include "base/throw.h"
#include "idle.h"
#include "mode/latency.h"
#include "proc.h"
#include "ready.h"
#include "runq.h"
#include "timerheap.h"

bool p_has_work(struct p *pp)
{
	return runq_len(pp) || ld_rlx(&pp->runnext) || ld_rlx(&sched.gqn) ||
	       timers_next(pp) <= rt_now();
}

void sched_hand_off(struct p *pp, bool blocked)
{
	bool busy = runq_len(pp) || ld_rlx(&pp->runnext) || p_attends(pp);
	bool start = false, awake = false, rests;
	struct m *other = NULL;

	/* the next run of the P is another thread's: mode/longrun.c must not signal this one */
	st_rlx(&pp->tid, 0);
	lock(&sched.lock, LR_SCHED);
	if (blocked)
		st_rlx(&sched.nblocked, sched.nblocked + 1);
	if (busy || ld_rlx(&sched.gqn) || sched.nmidle == 0) {
		other = m_take_lostp_locked();
		awake = other;
		if (!other)
			other = midle_get();
		/* not during shutdown: the new thread would not be joined */
		start = !other && ld_rlx(&sched.state) == RUN_ON && m_reserve_locked();
	}
	bool in_poller = other && other->in_poller;

	if (other)
		p_hand_to_locked(other, pp);
	else if (start)
		sched.nstarting++;
	rests = !other && !start;
	if (rests)
		p_idle_locked(pp);
	unlock(&sched.lock, LR_SCHED);
	if (other && !awake)
		m_wake(other, in_poller);
	if (start) {
		bool started = start_m(pp, false);

		lock(&sched.lock, LR_SCHED);
		sched.nstarting--;
		rests = !started;
		if (rests) /* no memory or no OS thread */
			p_idle_locked(pp);
		unlock(&sched.lock, LR_SCHED);
	}
	if (rests) {
		idle_fence();
		wake_for_queued();
		notify_poller(pp);
	}
}

bool sched_p_is_free(void)
{
	int n = ld_acq(&sched.nallp); /* ORD(allp) */

	if (ld_rlx(&sched.npidle) || ld_rlx(&sched.handed))
		return true;
	for (int i = 0; i < n; i++)
		if ((ld_rlx(&sched.allp[i]->status) & (P_STATUS_MASK | P_LONG)) ==
		    (P_BLOCKED | P_LONG))
			return true;
	return false;
}

bool sched_regain_p(struct m *m, bool *took_handed)
{
	struct p *pp = m->p;

	*took_handed = false;
	lock(&sched.lock, LR_SCHED);
	m->p = NULL;
	if (ld_rlx(&sched.state) != RUN_ON) {
		pp = NULL;
	} else if (ld_rlx(&pp->status) == P_IDLE) { /* this M's CPU caches are warm for it */
		pidle_del(pp);
		st_rlx(&pp->status, P_RUNNING);
	} else {
		pp = p_take_blocked_locked();
		if (!pp) {
			pp = p_take_handed_locked();
			*took_handed = pp;
		}
		if (!pp)
			pp = pidle_get();
	}
	if (pp) { /* otherwise the G still counts: BLOCK-3 */
		p_bind(pp, m);
		st_rlx(&sched.nblocked, sched.nblocked - 1);
	}
	unlock(&sched.lock, LR_SCHED);
	if (pp)
		wake_sysmon();
	return pp;
}

bool sched_queue_without_p(struct m *m, struct g *gp)
{
	m->curg = NULL;
	lock(&sched.lock, LR_SCHED);
	bool stopping = ld_rlx(&sched.state) != RUN_ON;

	g_set_status(gp, G_RUNNABLE);
	latency_stamp_now(gp, LATENCY_BLOCKING, cpu_ticks());
	if (!stopping) {
		gq_put(gp);
		if (!m->bound)
			midle_put(m);
	}
	st_rlx(&sched.nblocked, sched.nblocked - 1); /* BLOCK-3: it is in the queue */
	unlock(&sched.lock, LR_SCHED);
	if (stopping)
		return false;
	wake_for_queued(); /* a P may have become idle since */
	return true;
}
