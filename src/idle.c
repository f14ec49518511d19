/* SPDX-License-Identifier: MIT */
/* Stops Ms and lets them acquire a P; the wakeup protocol is in idle.h. */
#include "idle.h"

#include "base/os.h"
#include "g.h"
#include "netpoll/netpoll.h"
#include "observe/probe.h"
#include "pick.h"
#include "policy/stall.h"
#include "poller.h"
#include "proc.h"
#include "ready.h"
#include "runq.h"
#include "source.h"
#include "timer/timerheap.h"
#include "variant/variant.h"
#include "waiter.h"

/* Call the deadlock report if the run is stalled.  Returns until when to sleep. */
static int64_t stall_check(int64_t until)
{
	if (!sched_is_stalled())
		return until;
	int64_t ns = sched.up.stalled();

	return ns == NEVER ? until : min_of(until, rt_now() + ns);
}

/* --- stopping --- */

/* The latest time until when sleeping misses no timer: TIMER-5. */
static int64_t earliest_with_slack(void)
{
	int n = ld_acq(&sched.nallp); /* ORD(allp) */
	int64_t first = timers_earliest(), until = first;

	if (first >= NEVER - TIMER_SLACK_NS)
		return first;
	for (int i = 0; i < n; i++) {
		struct p *pp = sched.allp[i];

		if (time_between(first, timers_next(pp)) <= (uint64_t)timer_slack())
			until = max_of(until, timers_wake_with(pp, first));
	}
	return until;
}

/* Until when to sleep in the poller; publishes it in poll_until. */
static int64_t poll_time(void)
{
	int64_t until;

	do {
		until = earliest_with_slack();
		st_seq(&sched.poll_until, until); /* ORD(poll.until): then the timers again */
		fence_seq();
	} while (timer_is_missed(timers_earliest(), until));
	return until;
}

/* Sleep in the poller.  Gs that became runnable are appended to *out. */
static void sleep_in_poller(struct glist *out)
{
	/* m cannot run timers without a P to take; the next M that releases one notifies it */
	st_rlx(&sched.poll_until, NEVER);
	fence_seq(); /* ORD(poll.until): before npidle and, for BLOCK-7, the statuses are read */
	int64_t until = NEVER;

	if (ld_rlx(&sched.npidle) || p_any_is_long())
		until = stall_check(poll_time());
	int64_t ns = until;

	if (unlikely(variant_time_is_virtual())) {
		int64_t began = os_now();

		ns = vtime_sleep(until);
		sched_poll(ns, out);
		vtime_slept(ns, began);
	} else if (!ld_rlx(&sched.npollwait) && sched_all_idle()) {
		add_rlx(&sched.total.polls, 1);
		netpoll_rest(until);
	} else {
		if (until != NEVER)
			ns = (int64_t)time_between(os_now(), until);
		if (ns > 0) /* otherwise a timer is due; the P polls later */
			sched_poll(ns, out);
	}
	st_rlx(&sched.poll_until, INT64_MIN);
}

/* Step 4: if there is work after all, take m and a P off the lists, and spin. */
static bool recheck_work(struct m *m)
{
	bool got = false;

	if (!has_work())
		return false;
	lock(&sched.lock, LR_SCHED);
	if (midle_del(m)) {
		struct p *pp = pidle_get();

		if (m->in_poller) {
			m->in_poller = false;
			sched.polling = false;
		}
		if (pp) {
			p_bind(pp, m);
			pick_begin(pp);
			/* then it wakes another M if there is more work */
			st_rlx(&m->spinning, true);
			add_seq(&sched.nmspinning, 1); /* ORD(idle) */
			got = true;
		} else {
			midle_put(m);
		}
	}
	unlock(&sched.lock, LR_SCHED);
	return got;
}

/* Step 1.  Returns false, with the P kept, if there is work or the P has to attend. */
static bool releasep(struct m *m, struct p *pp, bool *spun)
{
	lock(&sched.lock, LR_SCHED);
	if (ld_rlx(&sched.gqn) || p_attends(pp) || ld_rlx(&sched.state) != RUN_ON) {
		unlock(&sched.lock, LR_SCHED);
		return false;
	}
	emit(EVENT_P_STOP, 0, (uint64_t)pp->id, 0, 0);
	st_rlx(&m->p, (struct p *)NULL);
	bump(&pp->count.parks, 1);
	*spun = m->spinning; /* a waker may write it from here on */
	st_rlx(&m->spinning, false);
	pidle_put(pp);
	midle_put(m);
	unlock(&sched.lock, LR_SCHED);
	return true;
}

void notify_poller(struct p *pp)
{
	int64_t until = ld_seq(&sched.poll_until); /* ORD(poll.until): after the timers */

	if (timer_is_missed(timers_next(pp), until) ||
	    (until != INT64_MIN && (variant_time_is_virtual() || sched_is_stalled())))
		gmp__poller.wake();
}

/* More than the waits that stall.c leaves out: a G of the debug server that sysmon has taken from
 * the poller counts in sched.ndebug until it runs, and in npollwait no more. */
#define SUSPENDED (1u << 30)

void report_suspend(void)
{
	add_rlx(&sched.npollwait, SUSPENDED);
}

void report_resume(void)
{
	add_seq(&sched.npollwait, -SUSPENDED); /* ORD(poll.until): then the statuses of the Ps */
	fence_seq();
	notify_poller(sched.allp[0]);
}

void idle_fence(void)
{
	if (sched.asymmetric && !sched_all_idle())
		os_membarrier();
	else
		fence_seq(); /* ORD(idle) */
}

/* --- acquiring a P --- */

struct p *acquirep(struct m *m, struct glist *out)
{
	struct g *gp;

	lock(&sched.lock, LR_SCHED);
	struct p *pp = m->nextp;
	bool was_listed = !pp && midle_del(m);

	if (!was_listed)
		m_unlist_handed_locked(m);

	if (m->in_poller) {
		m->in_poller = false;
		sched.polling = false;
	}
	if (pp)
		m->nextp = NULL;
	else if (was_listed)
		pp = pidle_get();
	if (!pp && was_listed && (out->head || timers_earliest() <= rt_now()))
		pp = p_take_blocked_locked(); /* BLOCK-5, BLOCK-7 of wait/blocking.c */
	if (pp) {
		st_rlx(&pp->status, P_RUNNING);
		p_bind(pp, m);
		pick_begin(pp);
	} else {
		uint64_t ticks = cpu_ticks();

		while ((gp = glist_pop(out))) {
			probe_ready_global(gp, ticks);
			g_set_status(gp, G_RUNNABLE);
			gq_put(gp);
		}
	}
	unlock(&sched.lock, LR_SCHED);
	return pp;
}

void wake_sysmon(void)
{
	fence_seq(); /* ORD(sysmon): the P runs before the read; sysmon writes, then reads */
	if (unlikely(ld_rlx(&sched.sysmon_asleep)) && xchg_seq(&sched.sysmon_asleep, 0)) {
		st_rlx(&sched.coarse_now, os_now()); /* it may be old */
		os_futex_wake(&sched.sysmon_asleep, 1);
	}
}

bool wait_for_p(struct m *m)
{
	for (;;) {
		struct glist out = { 0 };

		if (m->in_poller) {
			emit(EVENT_M_SLEEP, 1, 0, 0, 0);
			sleep_in_poller(&out);
			emit(EVENT_M_WAKE, 0, 0, 0, 0);
		} else
			m_sleep(m);
		struct p *pp = acquirep(m, &out);

		sched_submit_list(&out); /* without a P: only external threads are left */
		if (pp) {
			wake_sysmon();
			return true;
		}
		if (ld_rlx(&sched.state) != RUN_ON)
			return false;
		lock(&sched.lock, LR_SCHED);
		bool stopping = ld_rlx(&sched.state) != RUN_ON;

		if (!stopping)
			midle_put(m);
		unlock(&sched.lock, LR_SCHED);
		if (stopping)
			return false;
		wake_for_queued(); /* for Gs that went to the global queue; may wake m */
		sched_ask_one();
	}
}

bool stopm(struct m *m, struct p *pp)
{
	bool spun;

	if (!releasep(m, pp, &spun))
		return true;
	if (spun)
		sub_seq(&sched.nmspinning, 1); /* ORD(idle) */
	idle_fence();
	if (recheck_work(m)) {
		wake_sysmon();
		return true;
	}
	if (!m->in_poller)
		notify_poller(pp);
	return wait_for_p(m);
}

/* --- the end of a run --- */

void sched_stop(void)
{
	struct m *m, *asleep = NULL;
	bool polls = false;

	lock(&sched.lock, LR_SCHED);
	st_seq(&sched.state, RUN_STOPPING); /* ORD(external): a later rt_enter fails */
	for (int i = 0, n = ld_acq(&sched.nallp); i < n; i++) /* ORD(allp) */
		or_rlx(&sched.allp[i]->attention, ATTENTION_STOP);
	while ((m = midle_get())) {
		polls |= m->in_poller;
		if (!m->in_poller) {
			m->link = asleep;
			asleep = m;
		}
	}
	for (m = sched.allm; m; m = m->alllink)
		if (m->bound && !m->nextp) /* otherwise the M that gave it a P wakes it */
			m_wake(m, false);
	unlock(&sched.lock, LR_SCHED);
	g_close();
	/* without the lock, which each of them takes at once; none ends before it is woken */
	while ((m = asleep)) {
		asleep = m->link;
		m_wake(m, false);
	}
	if (polls)
		gmp__poller.wake();
}
