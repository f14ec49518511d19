/* SPDX-License-Identifier: MIT */
/* Parks, readies and yields; the protocol is in park.h. */
#include "park.h"

#include <errno.h>

#include "base/os.h"
#include "base/throw.h"
#include "enter.h"
#include "idle.h"
#include "observe/probe.h"
#include "policy/take.h"
#include "ready.h"
#include "runq.h"
#include "sched.h"
#include "timer/timerheap.h"
#include "variant/variant.h"
#include "waiter.h"

/* Leave the G's stack for g0, in a P section that ends when the M jumps to a G.  A sanitizer must
 * be informed before and after; without one this is a jump, and so is every caller's `return
 * to_g0(...)`. */
static inline int to_g0(struct m *m, struct g *gp, leave_fn step)
{
	gmp_debug_assert(m->inside == 0 || step == ld_rlx(&sched.leave.without_p));
	st_rlx(&m->inside, 1);
	fence_light(); /* ORD(preempt): before park_g0 or yield_g0 reads m->taken */
#if defined(SAN_ADDRESS) || defined(SAN_THREAD)
	san_leave(&gp->san, &m->san);
	int result = gmp__mcall(&gp->ctx, step, m, m->g0);

	san_arrive(&gp->san);
	return result;
#else
	return gmp__mcall(&gp->ctx, step, m, m->g0);
#endif
}

void commit_none(void *arg)
{
	(void)arg;
}

/* --- a G waits --- */

static bool wait_timed_out(struct timer *t, int64_t now, struct glist *out)
{
	struct g *gp = container_of(t, struct g, timer);

	(void)now;
	if (waiter_claim(&gp->w, -ETIMEDOUT))
		glist_push(out, gp);
	return false;
}

bool cancel_wait(struct g *gp)
{
	uint32_t state = WAITER_ARMED;

	while (!cas_seq(&gp->w.state, &state, WAITER_BUSY)) { /* ORD(waiter.claim) */
		if (state != WAITER_BUSY)
			return false;
		state = WAITER_ARMED;
		cpu_relax();
	}
	/* while held, all that is read belongs to one wait */
	bool cut = ld_rlx(&gp->cancelled) && !gp->masked && !gp->uncancellable;

	st_rel(&gp->w.state, cut ? CLAIMED_WITH(-ECANCELED) : WAITER_ARMED); /* ORD(waiter.claim) */
	return cut;
}

/* Steps 6 to 8 of a G that is cancelled, or whose P sysmon has asked for (monitor/preempt.h). */
leaves_by_jump static noinline int park_slow_g0(struct m *m, struct g *gp)
{
	bool cut = ld_rlx(&gp->cancelled) && cancel_wait(gp), has_p = m_end_request(m);

	m->commit(m->commit_arg);
	if (cut)
		sched_submit(gp, false);
	return has_p ? schedule_g0(m) : sched_waits_without_p_g0(m);
}

/* Step 4 of a wait with a deadline. */
static inline void park_arm_timer(struct m *m, struct g *gp)
{
	/* BUSY: a timer that fires at once spins until ARMED */
	st_rlx(&gp->w.state, WAITER_BUSY);
	gp->resume |= RESUME_TIMED;
	gp->timer.fire = wait_timed_out;
	if (unlikely(p_is_asked(m))) /* the P may be another M's, which must wake in time */
		timer_arm(&gp->timer, m->deadline);
	else
		timer_add(m->p, &gp->timer, m->deadline);
}

/* Steps 4 to 8, on g0. */
leaves_by_jump int park_g0(void *arg)
{
	struct m *m = arg;
	struct g *gp = m->curg;

	san_arrive(&m->san);
	st_rlx(&m->curg, (struct g *)NULL);
	g_set_status(gp, G_WAITING);
	st_rlx(&gp->since, ld_rlx(&sched.coarse_now));
	st_rlx(&gp->trimmed, false);
	if (m->deadline != NEVER)
		park_arm_timer(m, gp);
	st_rel(&gp->w.state, WAITER_ARMED); /* ORD(waiter.claim) */
	sched_light_fence();                /* ORD(cancel) */
	if (unlikely(ld_rlx(&gp->cancelled) || p_is_asked(m)))
		return park_slow_g0(m, gp);
	m->commit(m->commit_arg);
	return schedule_g0(m);
}

/* Step 3 of a G; resuming it returns the result (step 10). */
static int park_green(struct m *m, unsigned why, unwait_fn unwait, commit_fn commit, void *arg,
		      int64_t deadline)
{
	struct g *gp = m->curg;

	st_rlx(&gp->reason, (uint8_t)(why & ~(unsigned)UNCANCELLABLE));
	gp->uncancellable = why & UNCANCELLABLE;
	gp->unwait = unwait;
	m->commit = commit;
	m->commit_arg = arg;
	m->deadline = deadline;
	return to_g0(m, gp, ld_rlx(&sched.leave.park));
}

/* --- an external thread waits --- */

/* All steps of an external thread.  Variants: virtual time (vtime_real), and a G that runs as an
 * OS thread (variant_arm, variant_resume). */
static noinline int park_external(struct waiter *w, unsigned why, unwait_fn unwait,
				  commit_fn commit, void *arg, int64_t deadline)
{
	struct m *m = self_m_slow();
	uint32_t state;

	deadline = vtime_real(deadline);
	if (m)
		variant_arm(m, w, why);
	else
		st_rel(&w->state, WAITER_ARMED); /* ORD(waiter.claim) */
	commit(arg);
	while (!((state = ld_acq(&w->state)) & WAITER_DONE)) { /* ORD(waiter.done) */
		/* BUSY may become ARMED again without a wakeup, so the deadline stays */
		bool claimed = (state & WAITER_STATE_MASK) == WAITER_CLAIMED;
		int timeout = os_futex_wait(&w->state, state, claimed ? NEVER : deadline);

		if (timeout && waiter_claim(w, -ETIMEDOUT)) {
			state = ld_rlx(&w->state);
			break;
		}
	}
	int result = waiter_result(state);

	if (m)
		return variant_resume(m, w, unwait, result);
	if (result && unwait)
		unwait(w);
	return result;
}

int wait_on(struct waiter *w, unsigned why, unwait_fn unwait, commit_fn commit, void *arg,
	    int64_t deadline)
{
	struct m *m = getm();

	if (likely(m != NULL))
		return park_green(m, why, unwait, commit, arg, deadline);
	return park_external(w, why, unwait, commit, arg, deadline);
}

/* --- ready --- */

void ready(struct waiter *w)
{
	if (likely(w->gp != NULL))
		sched_submit(w->gp, true);
	else
		sched_wake_external(w);
}

void ready_list(struct glist *list)
{
	if (list->n == 1)
		sched_submit(glist_pop(list), true);
	if (list->head || list->external)
		sched_submit_list(list);
}

/* --- yield --- */

/* park_yield, on g0. */
leaves_by_jump int yield_g0(void *arg)
{
	struct m *m = arg;
	struct g *gp = m->curg;

	if (unlikely(p_is_asked(m)) && !m_end_request(m))
		return sched_without_p_g0(m);
	san_arrive(&m->san);
	st_rlx(&m->curg, (struct g *)NULL);
	g_set_status(gp, G_RUNNABLE);
	probe_yield(m->p, gp);
	runq_yield(m->p, gp); /* no wakeup: it would only move Gs that run here anyway */
	return schedule_g0(m);
}

int park_yield(void)
{
	struct m *m = getm();

	return to_g0(m, m->curg, ld_rlx(&sched.leave.yield));
}

noinline void park_without_p(void)
{
	struct m *m = getm();

	to_g0(m, m->curg, ld_rlx(&sched.leave.without_p));
}

noinline void park_checkpoint(void)
{
	struct m *m = getm();
	bool taken = !p_hold_last(m);
	uint32_t asked = ld_rlx(&m->p->attention) & ~(uint32_t)ATTENTION_AT_SWITCH;
	bool stays = !(asked & ~(uint32_t)ATTENTION_YIELD) && sched.preempts &&
		     m_is_descheduled(m, taken);

	if (stays && !taken)
		and_rlx(&m->p->attention, ~(uint32_t)ATTENTION_YIELD); /* sysmon asks again */
	p_drop(m);
	if (!stays)
		park_yield();
}
