/* SPDX-License-Identifier: MIT */
/* Enqueues runnable Gs and wakes Ms; see ready.h. */
#include "ready.h"

#include "base/os.h"
#include "enter.h"
#include "observe/probe.h"
#include "proc.h"
#include "runq.h"
#include "timer/timerheap.h"
#include "variant/variant.h"
#include "waiter.h"

/* --- waking an M --- */

bool start_m(struct p *pp, bool spinning, bool for_blocked)
{
	struct m *m;

	m_join_one(true);
	m = m_new();
	if (!m)
		return false;
	m->nextp = pp;
	st_rlx(&m->spinning, spinning);
	if (for_blocked)
		m->spin_ticks = SPIN_TICKS_MIN;
	if (m_start(m) == 0)
		return true;
	m_free(m);
	return false;
}

static void count_wakeup(void)
{
	struct p *pp = hold_p();

	if (pp)
		bump(&pp->count.wakeups, 1);
	drop_p();
}

void wakep(void)
{
	int none = 0;

	if (ld_seq(&sched.npidle) == 0 || ld_seq(&sched.nmspinning) != 0 ||
	    !cas_seq(&sched.nmspinning, &none, 1)) /* ORD(idle) */
		return;
	lock(&sched.lock, LR_SCHED);
	bool on = ld_rlx(&sched.state) == RUN_ON;
	struct p *pp = on ? pidle_get() : NULL;
	struct m *m = pp ? midle_get() : NULL;
	bool in_poller = m && m->in_poller, may_start = pp && !m && m_reserve_locked();

	if (m) {
		m->nextp = pp;
		st_rlx(&m->spinning, true);
	} else if (may_start) {
		sched.nstarting++;
	} else if (pp) {
		pidle_put(pp);
	}
	unlock(&sched.lock, LR_SCHED);
	if (m || may_start)
		count_wakeup();
	if (m) {
		m_wake(m, in_poller);
		return;
	}
	bool started = may_start && start_m(pp, true, false);

	if (may_start) {
		lock(&sched.lock, LR_SCHED);
		sched.nstarting--;
		if (!started) /* no memory or no OS thread: the running Ms must suffice */
			pidle_put(pp);
		unlock(&sched.lock, LR_SCHED);
	}
	if (!started)
		sub_seq(&sched.nmspinning, 1); /* ORD(idle) */
}

bool has_work_except(struct p *few)
{
	int n = ld_acq(&sched.nallp); /* ORD(allp) */

	if (ld_rlx(&sched.gqn))
		return true;
	for (int i = 0; i < n; i++) {
		struct p *pp = sched.allp[i];
		uint32_t len = runq_len(pp);

		if (len && ld_rlx(&pp->open) &&
		    (pp != few ||
		     (!pp->wake_deferred && len >= WAKE_MIN - 1))) /* one has been taken */
			return true;
	}
	return false;
}

void wake_for_queued(void)
{
	fence_seq(); /* ORD(idle): the caller's G before nmspinning; an unlock is no fence */
	if (has_work())
		wakep();
}

/* --- enqueuing Gs --- */

void sched_ask_check(struct p *pp)
{
	or_rlx(&pp->attention, ATTENTION_CHECK);
}

/* ORD(check): after the G is in the queue the caller has executed a full fence, that of
 * submit_external or of wake_for_queued; then this reads `attention`. */
void sched_ask_one(void)
{
	uint32_t n = (uint32_t)min_of(ld_rlx(&sched.procs), ld_acq(&sched.nallp)); /* ORD(allp) */

	/* with chaos every step draws from the global queue, by a rule of its own */
	if (ld_rlx(&sched.npidle) || rt_replays() || chaos_on())
		return;
	uint32_t first = add_rlx(&sched.gq_asked, 1);

	for (uint32_t i = 0; i < n; i++) {
		struct p *pp = sched.allp[(first + i) % n];

		if ((ld_rlx(&pp->status) & P_STATUS_MASK) != P_RUNNING)
			continue; /* it may not switch for long */
		if (!(ld_rlx(&pp->attention) & ATTENTION_CHECK))
			sched_ask_check(pp);
		return;
	}
}

/* Enqueue globally, for a thread without a P.  The latency of each G is measured: that costs little
 * beside the lock and the fence. */
static noinline void submit_external(struct glist *list)
{
	uint64_t ticks = cpu_ticks();
	struct g *gp;

	gmp__cancel_hold(); /* the wakeup may be a cancellation point */
	/* ORD(external): before a G is visible as runnable, so that the end of a run waits for the
	 * wakeup */
	add_seq(&sched.external, 1);
	lock(&sched.lock, LR_SCHED);
	/* under the lock: a thread that sees gp runnable and then takes the lock finds it
	 * enqueued */
	while ((gp = glist_pop(list))) {
		probe_ready_global(gp, ticks);
		g_set_status(gp, G_RUNNABLE); /* last: the end of a run reads gp->resume after it */
		gq_put(gp);
	}
	unlock(&sched.lock, LR_SCHED);
	fence_seq(); /* ORD(idle) */
	wakep();
	sched_ask_one();
	sub_seq(&sched.external, 1); /* ORD(external) */
	gmp__cancel_release();
}

static noinline void submit_one_external(struct g *gp)
{
	struct glist one = { 0 };

	glist_push(&one, gp);
	submit_external(&one);
}

static noinline void probe_here(struct p *pp, struct g *gp, bool next)
{
	probe_ready(pp, gp, variant_takes_next(pp, next) ? QUEUE_RUNNEXT : QUEUE_RING,
		    latency_cause_of(gp));
}

inline void sched_submit_here(struct p *pp, struct g *gp, bool next)
{
	g_set_status(gp, G_RUNNABLE);
	if (probe_wants(pp))
		probe_here(pp, gp, next);
	if (variant_takes_next(pp, next))
		gp = runnext_swap(pp, gp);
	if (gp) {
		runq_put(pp, gp);
		wake_if_idle();
	}
}

void sched_submit(struct g *gp, bool next)
{
	struct m *m = getm();

	if (unlikely(!m)) {
		submit_one_external(gp);
		return;
	}
	if (unlikely(!p_hold(m))) {
		p_drop(m);
		submit_one_external(gp);
		return;
	}
	struct p *pp = m->p;

	sched_submit_here(pp, gp, next);
	p_drop(ld_rlx(&pp->m)); /* m, with one register less to save */
}

void sched_run_next(struct g *gp)
{
	struct p *pp = hold_p();

	/* a G that is runnext already stays */
	if (pp && variant_has_runnext(pp) && !ld_rlx(&pp->runnext) && runq_take_back(pp, gp))
		runnext_swap(pp, gp);
	drop_p();
}

void sched_wake_external(struct waiter *w)
{
	/* ORD(waiter.done): the last access to the thread's stack */
	st_rel(&w->state, ld_rlx(&w->state) | WAITER_DONE);
	os_futex_wake(&w->state, 1);
}

/* Put a list in front of the ring, up to the place *end; all go to the tail if there is no room.
 * Returns how many are in front. */
static uint32_t put_first(struct p *pp, struct glist *list, uint32_t *end)
{
	uint32_t n = list->n;

	for (struct g *gp = list->head; gp; gp = gp->schedlink) {
		g_set_status(gp, G_RUNNABLE);
		if (probe_wants(pp))
			probe_ready(pp, gp, QUEUE_FRONT, GMP_LATENCY_TIMER);
	}
	if (runq_put_first(pp, list, end))
		return n;
	for (struct g *gp; (gp = glist_pop(list));)
		runq_put(pp, gp);
	return 0;
}

/* submit_list for a list with Gs, and the P of the caller; in a P section. */
static uint32_t submit_list_here(struct p *pp, struct glist *list, bool due, uint32_t *first)
{
	uint32_t in_front = first ? put_first(pp, list, first) : 0;
	struct g *gp;

	while ((gp = glist_pop(list))) {
		g_set_status(gp, G_RUNNABLE);
		if (probe_wants(pp))
			probe_ready(pp, gp, QUEUE_RING,
				    due ? GMP_LATENCY_TIMER : latency_cause_of(gp));
		runq_put(pp, gp);
	}
	/* curg: a G released them, and keeps the P; then any number is worth a wakeup */
	uint32_t n = getm()->curg || !pp->room ? RUNQ_SIZE : runq_len(pp);

	if (n < WAKE_MIN)
		return in_front;
	if (due && n < WAKE_MIN_DUE && timers_next(pp) != NEVER)
		pp->wake_deferred = true;
	else
		wake_if_idle();
	return in_front;
}

/* Enqueue a list on the caller's P, or globally.  first: in front of the ring, up to the place
 * *first. due: timers made the Gs runnable.  Returns how many are in front. */
static uint32_t submit_list(struct glist *list, bool due, uint32_t *first)
{
	uint32_t in_front = 0;

	for (struct sudog *sg = list->external, *next; unlikely(sg != NULL); sg = next) {
		next = sg->next;
		sched_wake_external(sg->w);
	}
	list->external = NULL;
	if (!list->head)
		return 0;
	struct p *pp = hold_p();

	if (likely(pp != NULL))
		in_front = submit_list_here(pp, list, due, first);
	drop_p();
	if (unlikely(!pp))
		submit_external(list);
	return in_front;
}

void sched_submit_list(struct glist *list)
{
	submit_list(list, false, NULL);
}

void sched_submit_due(struct glist *list)
{
	submit_list(list, true, NULL);
}

uint32_t sched_submit_first(struct glist *list, uint32_t *end)
{
	return submit_list(list, true, end);
}

void sched_submit_late(struct p *pp)
{
	pp->wake_deferred = false;
	if (runq_len(pp))
		wake_if_idle();
}
