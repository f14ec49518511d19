/* SPDX-License-Identifier: MIT */
/*
 * Work-stealing scheduler loop: picks the next G for a P.
 *
 * A P runs, in this order: at every 61st run some Gs of the global queue; the Gs of due timers; its runnext;
 * its ring; a share of the global queue; the Gs that the poller makes ready; half of another P's ring; another
 * P's runnext, if that P has made no progress for a while.  Then its M releases the P and sleeps (idle.c).
 *
 * Invariants (D2, D3: idle.c; D4, D5: pin.c)
 *  D1 The G in runnext inherits the time slice of the G that made it ready, INHERIT_MAX times, and for about
 *     SLICE_TICKS; then it moves to the tail of the ring.  So two Gs that wake each other share one time slice.
 *  D6 Contention: a spinning M backs off from a P that makes progress.  Each poll of a ring takes cache lines
 *     away from its owner, so the interval doubles after each unsuccessful poll; a G that the owner would run
 *     soon is stolen only at the last poll.
 *  D7 Fairness: a G in the global queue reaches a ring's tail after about two runs per G ahead of it, also if
 *     no ring is ever empty: at every 61st run a P takes half as many Gs as it has run since the last time.
 *  SCHED-9 The depth of g0 does not grow with the number of searches: a path that searches again without a
 *     switch to a G restarts g0 at its base (restart_search_g0, schedule_restart_g0).  `return f()` does not do
 *     that: compilers make it a call at -O0 and -O1, and at any level if a local's address is passed on.
 *
 * Rejected: stealing single Gs (each steal is a cache miss); Go's rule, one G of the global queue at every
 * 61st run (with runs of 0.5 ms, a thousand Gs in the global queue wait for half a minute).
 */
#include "sched.h"

#include <errno.h>
#include <unistd.h>

#include "base/os.h"
#include "base/rand.h"
#include "base/throw.h"
#include "base/trace.h"
#include "g.h"
#include "handoff.h"
#include "idle.h"
#include "mode/chaos_step.h"
#include "mode/latency.h"
#include "mode/thread.h"
#include "pin.h"
#include "proc.h"
#include "ready.h"
#include "runq.h"
#include "source.h"
#include "timerheap.h"

enum {
	INHERIT_MAX = 64,
	GLOBAL_EVERY = 61, /* a prime, so that it does not beat with a program's own rhythm */
	GLOBAL_MOST = RUNQ_BATCH,
	LOOK_MOST = 32, /* D7 */
	SPIN_MOST = 3 * TICKS_10US,
	SPIN_LEAST = TICKS_10US / 8,
	/* D6 */
	SOON = 4, /* looks */
	REST_LEAST = 16,
	REST_MOST = 128, /* pauses between two looks: some 4 us */
};

leaves_by_jump static int restart_search_g0(struct m *m);

/* --- running a G --- */

/* The M leaves the scheduler and ends. */
leaves_by_jump static int leave_g0(struct m *m)
{
	return gmp__gogo(&m->base, 0, m->g0);
}

static int g_main(void *arg)
{
	struct g *gp = arg;

	san_arrive(&gp->san);
	gp->fn(gp->arg);
	if (unlikely(!getm())) {
		if (gmp__blockedm())
			gmp__fatal(
				"a green thread ends in blocking code: gmp_block_leave is missing");
		_exit(0); /* forked from this green thread: it goes on as a plain thread */
	}
	sched_exit();
	return 0;
}

leaves_by_jump static int schedule_base_g0(void *m)
{
	(void)m;
	return schedule_g0();
}

/* schedule_g0 for a path that has not switched to a G: SCHED-9. */
leaves_by_jump static int schedule_restart_g0(struct m *m)
{
	struct context left;

	return gmp__mcall(&left, schedule_base_g0, m, m->g0);
}

/* A timer's: it is to have a thread of its own (mode/thread.c). */
leaves_by_jump static noinline int begin_thread_g0(struct m *m, struct g *gp)
{
	m->curg = NULL;
	g_set_status(gp, G_RUNNABLE);
	if (thread_start(gp)) { /* when one has ended: again */
		lock(&sched.lock, LR_SCHED);
		gq_put(gp);
		unlock(&sched.lock, LR_SCHED);
		os_nap(100000);
	}
	return schedule_restart_g0(m);
}

leaves_by_jump static noinline int begin_g0(struct m *m, struct g *gp)
{
	if (unlikely(sched.threads))
		return begin_thread_g0(m, gp);
	g_bind_stack(m->p, gp);
	gp->turn &= (uint8_t)~RESUME_UNSHARED;
	if (unlikely(gp->turn)) {
		if (gp->turn & RESUME_MEASURED)
			latency_record(m->p, gp);
		if (gp->turn & RESUME_PINNED) {
			gp->lockedm = m;
			m->npinned++;
		}
	}
	san_leave(&m->san, &gp->san);
	return gmp__gstart(gp, g_main, g_cxx(gp), sched.fpwords, m->g0);
}

/* The end of a wait that had a deadline, or whose result is not 0: no trace may be left.  Also of any
 * wait or yield whose latency is measured. */
leaves_by_jump static noinline int end_wait_g0(struct m *m, struct g *gp, uint32_t state)
{
	int result = waiter_result(state);

	if (gp->turn & RESUME_MEASURED)
		latency_record(m->p, gp);
	if (gp->turn & RESUME_TIMED) {
		gp->turn &= (uint8_t)~RESUME_TIMED;
		timer_del(&gp->timer);
	}
	if (gp->turn & RESUME_CXX) {
		gp->turn &= (uint8_t)~RESUME_CXX;
		cxx_move(m->cxx, g_cxx(gp));
	}
	if (result && gp->unwait)
		gp->unwait(&gp->w); /* may ask the waiter what the result is */
	st_rlx(&gp->w.state, WAITER_IDLE);
	if (result == -ETIMEDOUT && ld_rlx(&gp->cancelled) && !gp->masked && !gp->uncancellable)
		result = -ECANCELED; /* the time came first, but this is what the caller asks for */
	san_leave(&m->san, &gp->san);
	return gmp__gogo(&gp->ctx, result, m->g0);
}

/* The turn of one that begins with something. */
leaves_by_jump static noinline int resume_slow_g0(struct m *m, struct g *gp, uint32_t state)
{
	if (gp->turn & RESUME_BOUND)
		return pin_hand_over(m, gp) ? restart_search_g0(m) : leave_g0(m);
	if (gp->turn & RESUME_PINNED && gp->lockedm != m)
		return pin_send(m, gp) ? restart_search_g0(m) : leave_g0(m);
	if (gp->turn & RESUME_OBSERVED) {
		gp->turn &= (uint8_t)~RESUME_OBSERVED;
		sched.on_arrive(gp);
	}
	return end_wait_g0(m, gp, state);
}

leaves_by_jump static int execute_g0(struct m *m, struct p *pp, struct g *gp)
{
	uint32_t state = ld_rlx(&gp->w.state);

	m->curg = gp;
	g_set_status(gp, G_RUNNING);
	bump(&pp->count.switches, 1);
	if (unlikely(!gp->stack))
		return begin_g0(m, gp);
	if (unlikely(state > WAITER_CLAIMED || gp->turn))
		return resume_slow_g0(m, gp, state);
	st_rlx(&gp->w.state, WAITER_IDLE);
	san_leave(&m->san, &gp->san);
	return gmp__gogo(&gp->ctx, 0, m->g0);
}

leaves_by_jump static int resume_bound_g0(struct m *m, struct g *gp)
{
	uint32_t state = ld_rlx(&gp->w.state);

	m->curg = gp;
	g_set_status(gp, G_RUNNING);
	bump(&m->p->count.switches, 1);
	return end_wait_g0(m, gp, state);
}

/* The G of a bound M has stopped, or ended. */
leaves_by_jump static noinline int bound_stop_g0(struct m *m)
{
	return pin_stop(m) ? resume_bound_g0(m, m->lockedg) : leave_g0(m);
}

leaves_by_jump int sched_without_p_g0(void *gp)
{
	struct m *m = getm();

	san_arrive(&m->san);
	if (!sched_queue_without_p(m, gp))
		return leave_g0(m);
	if (m->bound)
		return pin_sleep(m) ? resume_bound_g0(m, m->lockedg) : leave_g0(m);
	return wait_for_p(m) ? restart_search_g0(m) : leave_g0(m);
}

noinline void sched_exit(void)
{
	struct g *gp = getm()->curg;

	run_exit_hooks(gp);
	struct m *m = getm(); /* it may have waited */

	san_leave(NULL, &m->san);
	gmp__mcall(&gp->ctx, sched.exit, gp, m->g0);
	__builtin_unreachable();
}

leaves_by_jump int sched_exit_g0(void *arg)
{
	struct m *m = getm();
	struct p *pp = m->p;
	struct g *gp = arg;

	san_arrive(&m->san);
	m->curg = NULL;
	g_set_status(gp, G_DEAD);
	bump(&pp->count.exits, 1);
	if (unlikely(gp->turn)) {
		if (gp->turn & RESUME_BOUND)
			m->lockedg = NULL; /* the M stays bound, and has nothing to run any more */
		if (gp->turn & RESUME_PINNED)
			m->npinned--;
	}
	g_unbind_stack(pp, gp);
	if (unlikely(gp == sched.main))
		sched_stop();
	if (ld_acq(&gp->join)) /* ORD(join) */
		sched.joinable_exit(gp);
	else
		g_free(pp, gp);
	return schedule_g0();
}

/* --- finding one --- */

static inline struct g *runnext_take(struct p *pp)
{
	return ld_rlx(&pp->runnext) ? runnext_swap(pp, NULL) : NULL;
}

static struct g *from_global(struct p *pp, unsigned most)
{
	if (ld_rlx(&sched.gqn) == 0)
		return NULL;
	lock(&sched.lock, LR_SCHED);
	struct g *gp = gq_get(pp, most);
	unlock(&sched.lock, LR_SCHED);
	return gp;
}

/* Once in a while even a P that never runs dry looks at the others' work. */
static noinline struct g *check_global(struct p *pp)
{
	poll_if_due(pp);
	if (runq_yielded(pp)) /* this P may never run dry */
		runq_flush_yielded(pp);
	return from_global(pp, LOOK_MOST);
}

/* D1: the clock is looked at once in INHERIT_MAX turns.  An end that is left over from an earlier slice
 * makes one slice short, and is no more. */
static noinline bool slice_continues(struct p *pp)
{
	uint64_t now = cpu_ticks();

	if (rt_replays()) /* which the pace of the machine must not change */
		return false;
	if (!pp->slice_end)
		pp->slice_end = now + SLICE_TICKS;
	if (now < pp->slice_end) {
		pp->inherited = 0;
		return true;
	}
	pp->slice_end = 0;
	return false;
}

static inline struct g *local_work(struct p *pp)
{
	struct g *gp;

	if (ld_rlx(&pp->runnext)) {
		if (likely(pp->inherited < INHERIT_MAX || slice_continues(pp)) &&
		    (gp = runnext_take(pp))) {
			pp->inherited++;
			return gp;
		}
		if ((gp = runnext_take(pp)))
			runq_put(pp, gp); /* D1 */
	}
	pp->inherited = 0;
	bump(&pp->schedtick, 1);
	return runq_get(pp);
}

/* D6: at the pace since the last look.  Whoever took half of a few Gs that run for a moment each would
 * have both Ps fetch what the other has just used, and fetch it again: one of them is through sooner. */
static bool drains_soon(struct p *victim, struct seen *seen)
{
	uint32_t head = (uint32_t)ld_rlx(&victim->runqhead);
	int32_t ran = max_of((int32_t)(head - seen->head), 0); /* less: timers put some in front */

	seen->head = head;
	return runq_len(victim) <= SOON * (uint32_t)ran;
}

/* Steal from one of the first n after another, from a random one on; at last what a spinner that has seen
 * them leaves at first. */
static struct g *steal(struct p *pp, int n, struct seen *seen, bool at_last)
{
	int first = (int)rand_below(&pp->rand, (uint32_t)n);

	for (int k = 0; k < n; k++) {
		int i = (first + k) % n;
		struct p *victim = sched.allp[i];

		if (victim == pp || (seen && !at_last && drains_soon(victim, &seen[i])))
			continue;
		/* its runnext only if it has not moved since we began to look */
		bool next = at_last && seen[i].switches == ld_rlx(&victim->count.switches);
		struct g *gp = runq_steal(pp, victim, next);

		if (gp) {
			bump(&pp->count.steals, 1);
			bump(&pp->count.stolen, 1);
			return gp;
		}
	}
	return NULL;
}

/* Look for work for a while.  NULL: there is none, or the P has to attend to something.  *sourced: it, and
 * what lies on this P now, comes from a timer or the poller. */
static struct g *steal_work(struct m *m, struct p *pp, bool *sourced)
{
	struct seen *seen = pp->seen;
	uint64_t began = cpu_ticks();
	int n = ld_acq(&sched.nallp); /* ORD(allp) */
	bool patient = sched.cpus > 1 && n > 1;
	int rest = 0; /* one that was woken is expected */
	struct g *gp;

	if (!m->spinning) {
		m->spinning = true;
		add_seq(&sched.nmspinning, 1); /* ORD(idle) */
		rest = REST_LEAST;
	}
	for (int i = 0; i < n; i++) {
		seen[i].switches = ld_rlx(&sched.allp[i]->count.switches);
		seen[i].head = (uint32_t)ld_rlx(&sched.allp[i]->runqhead);
	}
	do {
		if ((gp = from_global(pp, GLOBAL_MOST)))
			return gp;
		steal_timers(pp);
		if (sched_should_poll() && cpu_ticks() - ld_rlx(&sched.lastpoll) > TICKS_10US / 2)
			sched_poll_now();
		if ((gp = local_work(pp)) || p_attends(pp)) {
			*sourced = gp;
			return gp;
		}
		bump(&pp->count.spins, 1);
		for (int i = 0; i < rest && patient; i++)
			cpu_relax();
		if ((gp = steal(pp, n, patient ? seen : NULL, false)))
			return gp;
		rest = max_of(min_of(rest * 2, (int)REST_MOST), (int)REST_LEAST);
	} while (patient && cpu_ticks() - began < m->patience);
	return patient ? steal(pp, n, seen, true) : NULL;
}

/* An M is as patient as it pays: twice as long after a find, half as long after a vain search.  So
 * threads that exchange work find each other awake, and a server whose work comes from the poller
 * does not burn the CPU that its clients want.  What comes from a timer or the poller would have woken it. */
static struct g *spin(struct m *m, struct p *pp, bool *sourced)
{
	struct g *gp = steal_work(m, pp, sourced);

	if (*sourced)
		return gp;
	m->patience = gp ? min_of(m->patience * 2, (uint32_t)SPIN_MOST)
			 : max_of(m->patience / 2, (uint32_t)SPIN_LEAST);
	return gp;
}

static bool may_spin(struct m *m)
{
	/* the next to sleep in the poller: the kernel wakes it as soon as there is something */
	if (!m->spinning && sched_should_poll() && !has_work())
		return false;
	return m->spinning ||
	       2 * ld_rlx(&sched.nmspinning) < ld_rlx(&sched.procs) - ld_rlx(&sched.npidle);
}

/* --- something else to do --- */

/* The end of a search.  few: as for has_work_except. */
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

leaves_by_jump static int restart_search_g0(struct m *m)
{
	struct context left;

	return gmp__mcall(&left, find_base_g0, m, m->g0);
}

/* One that is pinned to m, or, by turns, one of its P's own; NULL: the P was told in vain. */
static struct g *pin_take_fair(struct m *m, struct p *pp)
{
	struct g *gp;

	m->ran_pinned = !m->ran_pinned;
	if (!m->ran_pinned && (gp = local_work(pp)))
		return gp;
	return pin_take(m, pp);
}

/* Something that cannot wait for work to run out. */
leaves_by_jump static noinline int attend_g0(struct m *m)
{
	struct p *pp = m->p;

	if (ld_rlx(&sched.state) != RUN_ON) /* the only way in from RUN_STOPPING */
		return leave_g0(m);
	and_rlx(&pp->attention, ~(uint32_t)ATTENTION_YIELD);
	if (ld_rlx(&pp->attention) & ATTENTION_SHARE) {
		and_rlx(&pp->attention, ~(uint32_t)ATTENTION_SHARE);
		p_open(pp);
		wake_if_idle(); /* who looked before found nothing to take */
	}
	if (ld_rlx(&pp->attention) & ATTENTION_RETIRE && p_retire(pp)) {
		m->p = NULL;
		if (m->spinning)
			stop_spinning(m);
		lock(&sched.lock, LR_SCHED);
		bool stopping = ld_rlx(&sched.state) != RUN_ON;

		if (!stopping)
			midle_put(m);
		unlock(&sched.lock, LR_SCHED);
		wakep(); /* for what it left in the global queue */
		if (!m->in_poller)
			notify_poller(sched.allp[0]); /* which has got the timers */
		if (stopping || !wait_for_p(m))
			return leave_g0(m);
	} else if (unlikely(ld_rlx(&pp->attention) & ATTENTION_CHAOS)) {
		chaos_step(pp);
	}
	if (unlikely(ld_rlx(&m->p->attention) & ATTENTION_PINNED)) {
		struct g *gp = pin_take_fair(m, m->p);

		if (gp)
			return execute_found_g0(m, gp, NULL);
	}
	return restart_search_g0(m);
}

/* The M may be spinning: only here does that end, so an M that has just got its P comes this way. */
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
		if ((gp = local_work(pp)))
			break;
		if (runq_yielded(pp))
			runq_flush_yielded(pp);
		if ((gp = from_global(pp, GLOBAL_MOST)))
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
			if ((gp = spin(m, pp, &sourced)))
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

/* Descriptors and stack tops are fetched while those before them run: far enough ahead that a miss
 * is over by then. */
static inline void prefetch_next(struct p *pp)
{
	uint32_t head = (uint32_t)ld_rlx(&pp->runqhead), tail = pp->runqtail;

	if (tail - head > 6 && tail - head <= RUNQ_SIZE) {
		__builtin_prefetch(ld_rlx(&pp->runq[(head + 6) % RUNQ_SIZE]));
		char *sp = ld_rlx(&pp->runq[(head + 3) % RUNQ_SIZE])->ctx.sp;

		__builtin_prefetch(sp);
		__builtin_prefetch(sp + 64);
		__builtin_prefetch(sp + 128);
		__builtin_prefetch(sp + 192);
	}
}

leaves_by_jump int schedule_g0(void)
{
	struct m *m = getm();
	struct p *pp = m->p;
	struct g *gp;

	gmp_debug_assert(!m->spinning);
	gmp_debug_assert(is_near_base(m));
	switch_check(); /* LOCK-1 */
	if (unlikely(m->bound))
		return bound_stop_g0(m);
	if (unlikely(ld_rlx(&pp->attention)))
		return attend_g0(m);
	/* by runs, not by slices: those that inherit one must not put it off */
	if (unlikely((uint32_t)pp->count.switches % GLOBAL_EVERY == 0) && (gp = check_global(pp))) {
		bump(&pp->schedtick, 1);
		return execute_g0(m, pp, gp);
	}
	if (unlikely(timers_next(pp) != NEVER) && cpu_ticks() - pp->looked > TICKS_10US &&
	    (gp = due_work(pp))) {
		bump(&pp->schedtick, 1);
		return execute_g0(m, pp, gp);
	}
	gp = local_work(pp);
	if (unlikely(!gp))
		return find_runnable_g0(m);
	prefetch_next(pp);
	return execute_g0(m, pp, gp);
}

/* --- an M's beginning --- */

/* With the P that it was started for, or asleep.  False: the runtime stops. */
static bool begin_with_p(struct m *m)
{
	lock(&sched.lock, LR_SCHED);
	bool asleep = !m->nextp && ld_rlx(&sched.state) == RUN_ON;

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
	if (!begin_with_p(m))
		return leave_g0(m);
	wake_sysmon();
	if (!m->first)
		return find_runnable_g0(m);
	wakep(); /* should it compute: its timers and the poller have somebody else */
	return execute_g0(m, m->p, m->first);
}

leaves_by_jump noinline void mstart(struct m *m)
{
	/* g0: below this frame, with room for what mcall pushes */
	uintptr_t sp = (uintptr_t)__builtin_alloca(64);

	m->g0 = (void *)((sp - 1024) & ~(uintptr_t)15);
	m->tid = os_thread_id();
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
