/* SPDX-License-Identifier: MIT */
/*
 * Scheduler loop: an M with a P takes a G from a queue, ends its wait, and jumps to it.
 *
 * sched.h has the invariant SCHED-1 and the meaning of _g0.  An M enters schedule_g0 after its G
 * has left its stack, or find_runnable_g0 if it has just acquired a P.  The G that it takes from a
 * queue has a waiter that is CLAIMED, if it was waiting: no other thread ends the wait or enqueues
 * the G.
 */
#include "sched.h"

#include <errno.h>
#include <unistd.h>

#include "base/emit.h"
#include "base/os.h"
#include "base/throw.h"
#include "base/trace.h"
#include "enter.h"
#include "g.h"
#include "handoff.h"
#include "idle.h"
#include "observe/probe.h"
#include "pick.h"
#include "policy/pin.h"
#include "policy/spare.h"
#include "policy/take.h"
#include "proc.h"
#include "ready.h"
#include "runq.h"
#include "source.h"
#include "timer/timerheap.h"
#include "variant/variant.h"
#include "waiter.h"

leaves_by_jump static int restart_search_g0(struct m *m);

/* --- switching to a G --- */

/* The M leaves the scheduler: mstart returns. */
leaves_by_jump static int leave_g0(struct m *m)
{
	return gmp__gogo(&m->base, 0, m->g0);
}

/* The M jumps to a G: the P may be taken from here on (monitor/preempt.h, step 6 of the M). */
static inline void leave_section(struct m *m)
{
	st_rel(&m->inside, 0); /* ORD(preempt) */
}

static int g_main(void *arg)
{
	struct g *gp = arg;

	san_arrive(&gp->san);
	gp->fn(gp->arg);
	if (unlikely(!getm())) {
		if (gmp__blockedm())
			gmp__fatal("green thread %llu \"%s\" ends in blocking code: "
				   "gmp_block_leave is missing",
				   (unsigned long long)gp->id, g_name(gp));
		_exit(0); /* a child that fork made from this G: it ends as an OS thread */
	}
	sched_exit();
	return 0;
}

leaves_by_jump static int schedule_base_g0(void *m)
{
	return schedule_g0(m);
}

/* schedule_g0 at the base of g0, for a path that has taken a G and not switched to it: SCHED-1. */
leaves_by_jump static int schedule_restart_g0(struct m *m)
{
	struct context left;

	return gmp__mcall(&left, schedule_base_g0, m, m->g0);
}

/* First run of gp, which a timer made, on an OS thread (variant/thread.c).  If there is none, or no
 * memory for what a variant gives gp, gp tries again after another G has ended. */
leaves_by_jump static noinline int begin_elsewhere_g0(struct m *m, struct g *gp)
{
	st_rlx(&m->curg, (struct g *)NULL);
	g_set_status(gp, G_RUNNABLE);
	if (variant_start(gp)) {
		lock(&sched.lock, LR_SCHED);
		gq_put(gp);
		unlock(&sched.lock, LR_SCHED);
		os_nap(100 * US);
	}
	return schedule_restart_g0(m);
}

/* First run of gp: give it a stack. */
leaves_by_jump static noinline int begin_g0(struct m *m, struct g *gp)
{
	if (unlikely(!variant_begins_here(m->p, gp)))
		return begin_elsewhere_g0(m, gp);
	g_bind_stack(m->p, gp);
	gp->resume &= (uint8_t)~RESUME_UNSHARED;
	if (unlikely(gp->resume)) {
		probe_began(m->p, gp);
		if (gp->resume & RESUME_PINNED) {
			gp->lockedm = m;
			m->npinned++;
		}
		variant_enter(m, gp, true);
	}
	if (unlikely(ld_rlx(&sched.starts_preempted)))
		sched_start_preempted(m);
	san_leave(&m->san, &gp->san);
	leave_section(m);
	return gmp__gstart(gp, g_main, g_cxx(gp), sched.fpwords, m->g0);
}

/* Switch to gp, which has RESUME_* bits or had a result other than 0. */
leaves_by_jump static int resume_g0(struct m *m, struct g *gp, int result)
{
	variant_enter(m, gp, false);
	st_rlx(&gp->w.state, WAITER_IDLE);
	san_leave(&m->san, &gp->san);
	leave_section(m);
	return gmp__gogo(&gp->ctx, result, m->g0);
}

/* End gp's wait so that no trace of it is left (PARK-3): disarm its timer; if the result is not 0,
 * call unwait.  Record its latency, restore its C++ state, and switch to it. */
leaves_by_jump static noinline int end_wait_g0(struct m *m, struct g *gp, uint32_t state)
{
	int result = waiter_result(state);

	probe_began(m->p, gp);
	if (gp->resume & RESUME_TIMED) {
		gp->resume &= (uint8_t)~RESUME_TIMED;
		timer_del(&gp->timer);
	}
	if (gp->resume & RESUME_CXX) {
		gp->resume &= (uint8_t)~RESUME_CXX;
		cxx_move(m->cxx, g_cxx(gp));
	}
	if (result && gp->unwait)
		gp->unwait(&gp->w); /* it may read the result in the state word */
	if (result == -ETIMEDOUT && ld_rlx(&gp->cancelled) && !gp->masked && !gp->uncancellable)
		result = -ECANCELED; /* cancellation is reported before a timeout */
	return resume_g0(m, gp, result);
}

/* Switch to gp, which has RESUME_* bits or a result other than 0.  If gp is bound or pinned to
 * another M, forward it instead (pin.h); then m searches again, or leaves if the runtime stops. */
leaves_by_jump static noinline int resume_slow_g0(struct m *m, struct g *gp, uint32_t state)
{
	if (likely(variant_only_enters(gp) && state <= WAITER_CLAIMED))
		return resume_g0(m, gp, 0);
	if (gp->resume & RESUME_BOUND)
		return pin_hand_over(m, gp) ? restart_search_g0(m) : leave_g0(m);
	if (gp->resume & RESUME_PINNED && gp->lockedm != m)
		return pin_send(m, gp) ? restart_search_g0(m) : leave_g0(m);
	if (gp->resume & RESUME_OBSERVED) {
		gp->resume &= (uint8_t)~RESUME_OBSERVED;
		sched.up.on_arrive(gp);
	}
	return end_wait_g0(m, gp, state);
}

/* Switch to gp, whose status is set. */
leaves_by_jump static int switch_g0(struct m *m, struct g *gp)
{
	uint32_t state = ld_rlx(&gp->w.state);

	if (unlikely(!gp->stack))
		return begin_g0(m, gp);
	/* a state word above CLAIMED has a result other than 0 */
	if (unlikely(state > WAITER_CLAIMED || gp->resume))
		return resume_slow_g0(m, gp, state);
	st_rlx(&gp->w.state, WAITER_IDLE);
	san_leave(&m->san, &gp->san);
	leave_section(m);
	return gmp__gogo(&gp->ctx, 0, m->g0);
}

leaves_by_jump static noinline int execute_traced_g0(struct m *m, struct g *gp)
{
	probe_run(m, gp);
	return switch_g0(m, gp);
}

/* Switch to gp, which m has taken from a queue.  m has the P pp and does not spin.  Hot path. */
leaves_by_jump static int execute_g0(struct m *m, struct p *pp, struct g *gp)
{
	st_rlx(&m->curg, gp);
	g_set_status(gp, G_RUNNING);
	bump(&pp->count.switches, 1);
	if (unlikely(recording()))
		return execute_traced_g0(m, gp); /* a jump: this function saves no register */
	return switch_g0(m, gp);
}

/* Switch to gp, to which m is bound.  m has a P, from the M that took gp from a queue. */
leaves_by_jump static int resume_bound_g0(struct m *m, struct g *gp)
{
	uint32_t state = ld_rlx(&gp->w.state);

	st_rlx(&m->curg, gp);
	g_set_status(gp, G_RUNNING);
	bump(&m->p->count.switches, 1);
	probe_run(m, gp);
	return end_wait_g0(m, gp, state);
}

/* A bound M stops, or has a P: for its G, or to run any. */
leaves_by_jump static int bound_next_g0(struct m *m, bool has_p)
{
	if (!has_p)
		return leave_g0(m);
	return m->bound ? resume_bound_g0(m, m->lockedg) : restart_search_g0(m);
}

/* The G of a bound M has parked, yielded or ended. */
leaves_by_jump static noinline int bound_stop_g0(struct m *m)
{
	return bound_next_g0(m, pin_stop(m));
}

/* m, which has no P, stops (sched_stop_without_p), and continues with a P. */
leaves_by_jump static int stop_without_p_g0(struct m *m, struct g *gp)
{
	if (!sched_stop_without_p(m, gp))
		return leave_g0(m);
	if (m->bound)
		return bound_next_g0(m, m->lockedg ? pin_sleep(m) : pin_rest(m));
	return wait_for_p(m) ? restart_search_g0(m) : leave_g0(m);
}

leaves_by_jump int sched_without_p_g0(void *arg)
{
	struct m *m = arg;

	san_arrive(&m->san);
	return stop_without_p_g0(m, m->curg);
}

leaves_by_jump int sched_waits_without_p_g0(struct m *m)
{
	return stop_without_p_g0(m, NULL);
}

/* gp, which ends in a P section without a P, waits until it has one.  Returns its M. */
static noinline struct m *exit_regain_p(struct m *m, struct g *gp)
{
	do {
		san_leave(&gp->san, &m->san);
		gmp__mcall(&gp->ctx, ld_rlx(&sched.leave.exit_without_p), m, m->g0);
		san_arrive(&gp->san);
		m = getm();
	} while (!p_hold_last(m));
	return m;
}

noinline void sched_exit(void)
{
	struct g *gp = getm()->curg;

	run_exit_hooks(gp);
	struct m *m = getm(); /* the hooks may have waited */

	if (unlikely(!p_hold_last(m))) /* otherwise the section continues on g0: preempt.h */
		m = exit_regain_p(m, gp);
	san_leave(NULL, &m->san);
	gmp__mcall(&gp->ctx, ld_rlx(&sched.leave.exit), m, m->g0);
	__builtin_unreachable();
}

leaves_by_jump int sched_exit_g0(void *arg)
{
	struct m *m = arg;
	struct p *pp = m->p;
	struct g *gp = m->curg;

	san_arrive(&m->san);
	st_rlx(&m->curg, (struct g *)NULL);
	g_set_status(gp, G_DEAD);
	bump(&pp->count.exits, 1);
	if (unlikely(gp->resume)) {
		if (gp->resume & RESUME_BOUND)
			st_rlx(&m->lockedg, (struct g *)NULL); /* the M stays bound, and must end */
		if (gp->resume & RESUME_PINNED)
			m->npinned--;
	}
	g_unbind_stack(pp, gp);
	if (unlikely(gp == sched.main))
		sched_stop();
	if (ld_acq(&gp->join)) /* ORD(join); after either call gp may be reused */
		sched.up.joinable_exit(gp);
	else
		g_free(pp, gp);
	return schedule_g0(m);
}

/* --- the slow path --- */

/* End a search: stop spinning, wake another M if there is more work, and switch to gp.  few: a P
 * whose few Gs do not count as work (has_work_except), or NULL. */
leaves_by_jump static int execute_found_g0(struct m *m, struct g *gp, struct p *few)
{
	if (m->spinning) {
		stop_spinning(m);
		if (has_work_except(few))
			wake_if_idle();
	}
	return execute_g0(m, m->p, gp);
}

leaves_by_jump static noinline int find_runnable_g0(struct m *m);

leaves_by_jump static int find_base_g0(void *m)
{
	return find_runnable_g0(m);
}

/* find_runnable_g0 at the base of g0, for a path that has not switched to a G: SCHED-1. */
leaves_by_jump static int restart_search_g0(struct m *m)
{
	struct context left;

	return gmp__mcall(&left, find_base_g0, m, m->g0);
}

/*
 * The next G of a busy P: at times from the global queue, then of due timers, otherwise from its
 * own queues.  Returns NULL if these are empty.
 */
static inline struct g *own_work(struct p *pp)
{
	struct g *gp;

	/* PICK-3.  By switches, not by schedtick: a quantum that runnext inherits has many */
	if (unlikely(check_is_due(pp)) && (gp = check_global(pp))) {
		bump(&pp->schedtick, 1);
		return gp;
	}
	if (unlikely(timers_next(pp) != NEVER) && cpu_ticks() - pp->clock_read_at > TICKS_10US &&
	    (gp = due_work(pp))) {
		bump(&pp->schedtick, 1);
		pick_passes_by(pp);
		return gp;
	}
	return local_work(pp);
}

/* Alternate between Gs that are pinned to m and the P's own work.  NULL: m->pinned is empty, so
 * ATTENTION_PINNED was stale. */
static struct g *pin_take_fair(struct m *m, struct p *pp)
{
	struct g *gp;

	m->ran_pinned = !m->ran_pinned;
	if (!m->ran_pinned && (gp = own_work(pp)))
		return gp;
	pick_passes_by(pp);
	return pin_take(m, pp);
}

/* PICK-3, for ATTENTION_CHECK.  Gs of due timers run before those of the global queue, within their
 * budget (SOURCE-1), and every other G is one of the P's own; the bit then stays for the next
 * step. */
static struct g *due_or_global(struct p *pp)
{
	struct g *gp = timers_next(pp) != NEVER || pp->due.n ? due_work(pp) : NULL;

	if (gp)
		pick_passes_by(pp);
	if (gp || (pick_alternates(pp) && (gp = first_work(pp))))
		return gp;
	and_rlx(&pp->attention, ~(uint32_t)ATTENTION_CHECK);
	fence_after_rmw_seq(); /* ORD(check): the bit is clear before the queue is read */
	return check_global(pp);
}

/* Act on the attention bits of m's P (proc_state.h), before any queue is asked. */
leaves_by_jump static noinline int attend_g0(struct m *m)
{
	struct p *pp = m->p;

	if (ld_rlx(&sched.state) != RUN_ON) /* ATTENTION_STOP, which stays set */
		return leave_g0(m);
	and_rlx(&pp->attention, ~(uint32_t)ATTENTION_YIELD);
	if (ld_rlx(&pp->attention) & ATTENTION_SHARE) {
		and_rlx(&pp->attention, ~(uint32_t)ATTENTION_SHARE);
		p_open(pp);
		wake_if_idle(); /* earlier thieves found the P closed */
	}
	if (ld_rlx(&pp->attention) & ATTENTION_RETIRE && p_retire(pp)) {
		emit(EVENT_P_STOP, 0, (uint64_t)pp->id, 0, 0);
		st_rlx(&m->p, (struct p *)NULL);
		if (m->spinning)
			stop_spinning(m);
		lock(&sched.lock, LR_SCHED);
		bool stopping = ld_rlx(&sched.state) != RUN_ON;

		if (!stopping)
			midle_put(m);
		unlock(&sched.lock, LR_SCHED);
		wake_for_queued(); /* for what it left in the global queue */
		if (!m->in_poller)
			notify_poller(sched.allp[0]); /* it has the timers now */
		if (stopping || !wait_for_p(m))
			return leave_g0(m);
	} else if (unlikely(ld_rlx(&pp->attention) & ATTENTION_CHAOS)) {
		chaos_step(pp);
	}
	struct g *gp = NULL;

	/* first: PICK-4 measures the time of the quantum */
	if (ld_rlx(&m->p->attention) & ATTENTION_YIELDED)
		gp = quantum_next(m->p);
	if (!gp && ld_rlx(&m->p->attention) & ATTENTION_PINNED)
		gp = pin_take_fair(m, m->p);
	if (!gp && ld_rlx(&m->p->attention) & ATTENTION_CHECK)
		gp = due_or_global(m->p);
	if (gp)
		return execute_found_g0(m, gp, NULL);
	return restart_search_g0(m);
}

/* Ask all sources until there is a G, or stop the M.  An M that has just acquired a P enters here,
 * since it may be spinning, and schedule_g0 does not end that. */
leaves_by_jump static noinline int find_runnable_g0(struct m *m)
{
	bool sourced = false;
	struct g *gp;

	gmp_debug_assert(!m->bound);
	gmp_debug_assert(is_near_base(m));

	for (;;) {
		struct p *pp = m->p;

		if (p_attends(pp))
			return attend_g0(m);
		if (timers_next(pp) != NEVER)
			run_own_timers(pp);
		/* PICK-4: events in the global queue go before Gs that have yielded */
		if ((gp = first_work(pp)) || (gp = from_global(pp, RUNQ_BATCH)) ||
		    (gp = runq_get_yielded(pp)))
			break;
		if (sched_should_poll()) {
			sched_poll_now();
			if ((gp = local_work(pp)))
				break;
		}
		steal_timers(pp);
		if ((gp = local_work(pp)))
			break;
		if (may_spin(m)) {
			if ((gp = spin_for_work(m, pp, &sourced)))
				break;
		}
		steal_timers(pp);
		if ((gp = local_work(pp)))
			break;
		if (!stopm(m, pp))
			return leave_g0(m);
	}
	return execute_found_g0(m, gp, sourced ? m->p : NULL);
}

leaves_by_jump int schedule_g0(struct m *m)
{
	struct p *pp = m->p;
	struct g *gp;

	gmp_debug_assert(!m->spinning);
	gmp_debug_assert(is_near_base(m));
	switch_check(); /* LOCK-1 */
	if (unlikely(m->bound))
		return bound_stop_g0(m);
	if (unlikely(ld_rlx(&pp->attention)))
		return attend_g0(m);
	gp = own_work(pp);
	if (unlikely(!gp))
		return find_runnable_g0(m);
	return execute_g0(m, pp, gp);
}

/* --- the first step of an M --- */

/* Acquire the P that m was started for, or sleep until there is one.  Returns false if the runtime
 * stops. */
static bool m_first_p(struct m *m)
{
	lock(&sched.lock, LR_SCHED);
	bool asleep = !m->nextp && ld_rlx(&sched.state) == RUN_ON;

	spare_listed_locked(m);
	if (asleep)
		midle_put(m);
	unlock(&sched.lock, LR_SCHED);
	if (asleep)
		wake_for_queued();
	return asleep ? wait_for_p(m) : acquirep(m, &(struct glist){ 0 }) != NULL;
}

leaves_by_jump static int mstart_g0(void *arg)
{
	struct m *m = arg;

	san_head((char *)m->g0 - G0_HEAD, G0_HEAD);
	if (!m_first_p(m))
		return leave_g0(m);
	wake_sysmon();
	if (!m->first)
		return find_runnable_g0(m);
	wakep(); /* another M serves timers and the poller while m->first computes */
	return execute_g0(m, m->p, m->first);
}

leaves_by_jump noinline void mstart(struct m *m)
{
	/* g0: below this frame, with room for what mcall pushes */
	uintptr_t sp = (uintptr_t)__builtin_alloca(64);

	m->g0 = (void *)((sp - 1024) & ~(uintptr_t)15);
	st_rlx(&m->tid, os_thread_id());
	m->tp = arch_tp();
	trace_ends_at((uintptr_t)g_main);
	m->cxx = cxx_of_thread();
	if (m->cxx)
		cxx_move(&m->cxx_before, m->cxx);
	gmp__setm(m);
	san_head((char *)m->g0 - G0_HEAD, G0_HEAD);
	gmp__mcall(&m->base, mstart_g0, m, m->g0);
	gmp__setm(NULL);
	if (m->cxx)
		cxx_move(m->cxx, &m->cxx_before);
}

void sched_ask_yield(struct p *pp)
{
	or_rlx(&pp->attention, ATTENTION_YIELD);
}
