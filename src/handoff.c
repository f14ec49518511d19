/* SPDX-License-Identifier: MIT */
/* Hand-off of Ps; see handoff.h. */
#include "handoff.h"

#include "base/os.h"
#include "idle.h"
#include "observe/probe.h"
#include "pick.h"
#include "policy/spare.h"
#include "proc.h"
#include "ready.h"
#include "runq.h"
#include "timer/timerheap.h"

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

	/* the next run of the P is another thread's: observe/longrun.c must not signal this one */
	st_rlx(&pp->tid, 0);
	lock(&sched.lock, LR_SCHED);
	st_rlx(&pp->m, (struct m *)NULL);
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
	struct m *poller = rests ? midle_get_poller() : NULL; /* HANDOFF-6 */

	unlock(&sched.lock, LR_SCHED);
	if (poller)
		m_wake(poller, false);
	if (other && !awake)
		m_wake(other, in_poller);
	if (start) {
		bool started = start_m(pp, false, blocked);

		lock(&sched.lock, LR_SCHED);
		sched.nstarting--;
		rests = !started;
		if (rests) { /* no memory or no OS thread */
			p_idle_locked(pp);
			add_rlx(&sched.total.refused, !blocked);
		}
		unlock(&sched.lock, LR_SCHED);
	}
	if (rests) {
		if (ld_rlx(&pp->status) == P_RETIRED)
			timers_move(pp, sched.allp[0]); /* PROC-1 */
		idle_fence();
		wake_for_queued();
		notify_poller(pp);
	}
}

/* m, which may run without a P, is about to take a lock of the scheduler: it competes as an M with
 * a P does from here on. */
static void slice_again(struct m *m)
{
	if (ld_rlx(&m->taken) == P_TAKEN)
		os_thread_slice(0, m_slice());
}

bool sched_p_is_free(void)
{
	return ld_rlx(&sched.npidle) || ld_rlx(&sched.handed) || p_any_is_long();
}

bool sched_regain_p(struct m *m, bool *took_handed)
{
	struct p *pp = m->p;

	*took_handed = false;
	slice_again(m);
	lock(&sched.lock, LR_SCHED);
	st_rlx(&m->p, (struct p *)NULL);
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
		m_end_taken_locked(m);
		p_bind(pp, m);
		pick_begin(pp);
		st_rlx(&sched.nblocked, sched.nblocked - 1);
	}
	unlock(&sched.lock, LR_SCHED);
	if (pp)
		wake_sysmon();
	return pp;
}

bool sched_stop_without_p(struct m *m, struct g *gp)
{
	st_rlx(&m->curg, (struct g *)NULL);
	if (gp)
		probe_lose_p(m, gp);
	slice_again(m);
	lock(&sched.lock, LR_SCHED);
	bool stopping = ld_rlx(&sched.state) != RUN_ON;

	st_rlx(&m->p, (struct p *)NULL);
	m_end_taken_locked(m);
	bool blocked = gp && ld_rlx(&gp->status) == G_BLOCKED; /* otherwise it yields */

	if (gp) {
		g_set_status(gp, G_RUNNABLE);
		probe_queued(gp, blocked ? GMP_LATENCY_BLOCKING : GMP_LATENCY_YIELD, cpu_ticks());
	}
	if (!stopping) {
		if (blocked)
			gq_put(gp);
		else if (gp)
			gq_put_yielded(gp);
		if (!m->bound)
			midle_put(m);
	}
	st_rlx(&sched.nblocked, sched.nblocked - 1); /* BLOCK-3: it waits or is in the queue */
	unlock(&sched.lock, LR_SCHED);
	if (stopping)
		return false;
	wake_for_queued(); /* a P may have become idle since */
	if (gp)
		sched_ask_one();
	if (!gp)
		notify_poller(sched.allp[0]); /* nothing may be left that can run */
	return true;
}
