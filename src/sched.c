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
 *  SCHED-8 Gs that timers made ready run before runnext and before the ring, earliest deadline first, within a
 *     budget.  While other Gs wait, firing timers and running these Gs takes at most SLICE_TICKS, plus the
 *     runs of DUE_MOST Gs, plus DUE_SHARE times the time that the others have had since.  Then the others run
 *     until DUE_SHARE times their time makes up for what timers have used in excess, DUE_DEBT at most; timers
 *     that are due meanwhile stay in the heap.  So timers take at most three quarters of a P's time from Gs that
 *     wait, unless a single run of a G that a timer made ready takes longer than DUE_DEBT / DUE_MOST.  In
 *     replayed runs a switch counts as 10 us.
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
#include "pin.h"
#include "mode/chaos.h"
#include "mode/latency.h"
#include "netpoll.h"
#include "park.h"
#include "g.h"
#include "proc.h"
#include "runq.h"
#include "ready.h"
#include "timerheap.h"
#include "idle.h"

enum {
	INHERIT_MAX = 64,
	SLICE_TICKS = 200 * TICKS_10US,
	GLOBAL_EVERY = 61, /* a prime, so that it does not beat with a program's own rhythm */
	GLOBAL_MOST = RUNQ_BATCH,
	LOOK_MOST = 32, /* D7 */
	SPIN_MOST = 3 * TICKS_10US,
	SPIN_LEAST = TICKS_10US / 8,
	POLL_TICKS = 5 * TICKS_10US,
	/* SCHED-8 */
	DUE_MOST = 8,
	DUE_DEBT = 5 * SLICE_TICKS,
	/* To start a G that sleeps takes less time than to resume and end it.  At equal shares, of 10,000,000 tasks
	 * that sleep for 10 ms 700,000 slept at a time, with a stack each: 3.8 GB; now 32,000, 0.7 GB
	 * (bench/experiments/tasks.c, 2 Ps). */
	DUE_SHARE = 3,
	/* D6 */
	SOON = 4, /* looks */
	REST_LEAST = 16,
	REST_MOST = 128, /* pauses between two looks: some 4 us */
};

/* --- running one --- */

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
	park_exit();
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

leaves_by_jump static noinline int begin(struct m *m, struct g *gp)
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
leaves_by_jump static noinline int end_wait(struct m *m, struct g *gp, uint32_t state)
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
		return pin_hand_over(m, gp);
	if (gp->turn & RESUME_PINNED && gp->lockedm != m)
		return pin_send(m, gp);
	if (gp->turn & RESUME_OBSERVED) {
		gp->turn &= (uint8_t)~RESUME_OBSERVED;
		sched.on_arrive(gp);
	}
	return end_wait(m, gp, state);
}

leaves_by_jump static int execute(struct m *m, struct p *pp, struct g *gp)
{
	uint32_t state = ld_rlx(&gp->w.state);

	m->curg = gp;
	g_set_status(gp, G_RUNNING);
	bump(&pp->count.switches, 1);
	if (unlikely(!gp->stack))
		return begin(m, gp);
	if (unlikely(state > WAITER_CLAIMED || gp->turn))
		return resume_slow_g0(m, gp, state);
	st_rlx(&gp->w.state, WAITER_IDLE);
	san_leave(&m->san, &gp->san);
	return gmp__gogo(&gp->ctx, 0, m->g0);
}

leaves_by_jump int resume_bound_g0(struct m *m, struct g *gp)
{
	uint32_t state = ld_rlx(&gp->w.state);

	m->curg = gp;
	g_set_status(gp, G_RUNNING);
	bump(&m->p->count.switches, 1);
	return end_wait(m, gp, state);
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

/* --- timers and the poller, as sources --- */

static int64_t look_at_clock(struct p *pp)
{
	int64_t now = ld_rlx(&sched.virtual_now);

	if (unlikely(now)) {
		pp->looked = 0; /* it looks at every turn: real time is not to decide when */
		return now;
	}
	now = os_now();
	pp->looked = cpu_ticks();
	st_rlx(&sched.coarse_now, now);
	return now;
}

/* Fire what is due in from's heap, until `most` Gs are ready. */
static struct glist fire_timers(struct p *pp, struct p *from, int64_t now, unsigned most)
{
	struct glist out = { 0 };
	uint64_t late = time_between(timers_next(from), now);
	unsigned n = timers_run_some(from, now, most, &out);

	if (n)
		bump(&pp->count.timers_fired, n);
	if (unlikely(late >= LATENCY_LATE_NS) && out.head)
		latency_stamp(out.head, LATENCY_TIMER, false);
	glist_prefetch(&out);
	return out;
}

/* Fire all that is due in from's heap; the ready ones go to the tail of pp's ring. */
static void run_timers(struct p *pp, struct p *from, int64_t now)
{
	struct glist out = fire_timers(pp, from, now, UINT32_MAX);

	sched_submit_due(&out);
}

/* --- SCHED-8 --- */

static uint64_t due_clock(struct p *pp)
{
	return rt_replays() ? ld_rlx(&pp->count.switches) * TICKS_10US : cpu_ticks();
}

/* Gs that timers put in front of the ring are there; thieves may have taken some. */
static bool due_in_front(struct p *pp)
{
	uint32_t left = pp->due_end - (uint32_t)ld_rlx(&pp->runqhead);

	return left - 1 < pp->due;
}

/*
 * The time since due_since was used by firing timers and by the runs of n Gs that they made ready.  If no
 * timer was armed, the switch after the last of these went unnoticed; then each run since counts as equally
 * long, and the rest of the time as the others'.
 */
static void charge_timers(struct p *pp, uint32_t n)
{
	uint32_t runs = (uint32_t)ld_rlx(&pp->count.switches) - pp->due_from;
	uint64_t now = due_clock(pp);
	int64_t used = (int64_t)(now - pp->due_since), theirs = runs > n ? used / runs * n : used;
	int64_t budget = pp->due_budget - theirs + DUE_SHARE * (used - theirs);

	pp->due_budget = max_of(min_of(budget, (int64_t)SLICE_TICKS), -(int64_t)DUE_DEBT);
	pp->due_since = now;
}

/* The others have used the time since due_since.  Returns false if they run on. */
static bool timers_may_run(struct p *pp)
{
	uint64_t now = due_clock(pp);

	int64_t earned = DUE_SHARE * (int64_t)(now - pp->due_since);

	pp->due_budget = min_of(pp->due_budget + earned, (int64_t)SLICE_TICKS);
	pp->due_since = now;
	return pp->due_budget > 0;
}

/* Gs that no timer made runnable wait on pp. */
static bool others_wait(struct p *pp)
{
	return pp->runqtail != (uint32_t)ld_rlx(&pp->runqhead) || ld_rlx(&pp->runnext) ||
	       ld_rlx(&sched.gqn) || pp->yieldtail != (uint32_t)ld_rlx(&pp->yieldhead);
}

static void run_timers_first(struct p *pp, int64_t now)
{
	struct glist out = fire_timers(pp, pp, now, DUE_MOST);

	pp->due_from = (uint32_t)ld_rlx(&pp->count.switches);
	pp->due = sched_submit_first(&out, &pp->due_end);
	if (pp->due)
		pp->looked = 0; /* the next switch ends the charge, if the last of them has run */
	else
		charge_timers(pp, 0);
}

static noinline void run_own_timers(struct p *pp)
{
	if (pp->due) {
		if (due_in_front(pp)) {
			if (pp->wake_deferred && due_clock(pp) - pp->due_since > TICKS_10US)
				sched_submit_late(pp);
			return;
		}
		charge_timers(pp, pp->due);
		pp->due = 0;
	}
	int64_t now = look_at_clock(pp);

	if (unlikely(pp->wake_deferred))
		sched_submit_late(pp);
	if (timers_next(pp) > now)
		return;
	if (pp->in_order || !others_wait(pp)) {
		pp->due_budget = SLICE_TICKS;
		run_timers(pp, pp, now);
	} else if (timers_may_run(pp)) {
		run_timers_first(pp, now);
	}
}

/* NULL: no G of a timer is to run before the others. */
static noinline struct g *due_work(struct p *pp)
{
	run_own_timers(pp);
	return pp->due ? runq_get(pp) : NULL;
}

/* Other Ps' timers that are due: their owners are busy, or gone. */
static void steal_timers(struct p *pp)
{
	int n = ld_acq(&sched.nallp); /* ORD(allp) */
	int64_t now = 0;

	for (int i = 0; i < n; i++) {
		struct p *other = sched.allp[i];
		int64_t next = timers_next(other);

		if (other == pp || next == NEVER)
			continue;
		if (!now)
			now = look_at_clock(pp);
		if (next <= now)
			run_timers(pp, other, now);
	}
}

int64_t sched_earliest_timer(void)
{
	int n = ld_acq(&sched.nallp); /* ORD(allp) */
	int64_t least = NEVER;

	for (int i = 0; i < n; i++)
		least = min_of(least, timers_next(sched.allp[i]));
	return least;
}

void sched_poll(int64_t ns, struct glist *out)
{
	int n = netpoll_poll(ns, out);

	add_rlx(&sched.polls, 1);
	add_rlx(&sched.poll_events, (uint64_t)n);
	st_rlx(&sched.lastpoll, cpu_ticks());
}

void sched_poll_now(void)
{
	struct glist out = { 0 };
	bool bare = !getp(); /* the watcher: what it wakes stands nowhere until it is submitted */

	if (bare) /* so that nobody takes that for a deadlock */
		add_rlx(&sched.npollwait, 1);
	sched_poll(0, &out);
	sched_submit_list(&out);
	if (bare)
		add_rlx(&sched.npollwait, -1u);
}

bool sched_should_poll(void)
{
	return ld_rlx(&sched.npollwait) > 0 && !ld_rlx(&sched.pollm);
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

/* The kernel keeps events in order; here they would overtake, for a full ring drives the first of its
 * Gs to the global queue, and who is there waits until the ring runs dry.  So this P has to run as many
 * as were ready at its last look before the next. */
static void poll_if_due(struct p *pp)
{
	if ((int32_t)(pp->schedtick - pp->poll_from) < 0)
		return;
	pp->poll_from = pp->schedtick; /* never far behind, for the sake of the sign */
	if (!sched_should_poll() || cpu_ticks() - ld_rlx(&sched.lastpoll) <= POLL_TICKS)
		return;
	sched_poll_now();
	pp->poll_from += runq_len(pp) + ld_rlx(&sched.gqn);
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

static void chaos_step(struct p *pp)
{
	chaos_shuffle(pp);
	wake_if_idle(); /* for what is in the global queue now */
	if (sched_should_poll() && chaos_draw(8) == 0)
		sched_poll_now();
}

/* The end of a search.  few: as for has_work_except. */
leaves_by_jump static int execute_found_g0(struct m *m, struct g *gp, struct p *few)
{
	if (m->spinning) {
		stop_spinning(m);
		if (has_work_except(few))
			wake_if_idle();
	}
	return execute(m, m->p, gp);
}

leaves_by_jump static noinline int find_runnable_g0(struct m *m);

leaves_by_jump static int find_base_g0(void *m)
{
	return find_runnable_g0(m);
}

leaves_by_jump int restart_search_g0(struct m *m)
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
	switch_check(); /* L1 */
	if (unlikely(m->bound))
		return pin_stop(m);
	if (unlikely(ld_rlx(&pp->attention)))
		return attend_g0(m);
	/* by runs, not by slices: those that inherit one must not put it off */
	if (unlikely((uint32_t)pp->count.switches % GLOBAL_EVERY == 0) && (gp = check_global(pp))) {
		bump(&pp->schedtick, 1);
		return execute(m, pp, gp);
	}
	if (unlikely(timers_next(pp) != NEVER) && cpu_ticks() - pp->looked > TICKS_10US &&
	    (gp = due_work(pp))) {
		bump(&pp->schedtick, 1);
		return execute(m, pp, gp);
	}
	gp = local_work(pp);
	if (unlikely(!gp))
		return find_runnable_g0(m);
	prefetch_next(pp);
	return execute(m, pp, gp);
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
	return execute(m, m->p, m->first);
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
