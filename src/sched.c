/* SPDX-License-Identifier: MIT */
/*
 * Which green thread runs next, and where?
 *
 * A P runs, in this order: at every 61st run one of the global queue; its runnext; its ring; a
 * share of the global queue; what the poller has; half of another P's ring; another P's runnext, if
 * that P has not moved for a while.  Then its M gives the P up and sleeps.
 *
 * Invariants
 *  D1 runnext inherits the slice of the one that made it ready, INHERIT_MAX times, and on for about
 *     SLICE_TICKS; then it goes to the tail.  So a pair that wakes each other shares the slices of one.
 *  D2 If a G is in a ring or in the global queue and a P is idle, then an M spins (and will find
 *     it), or has been woken, or the submitter is just about to (see "waking").
 *     A G in a runnext alone wakes nobody: its P will run it at the next wait.  The watcher
 *     (sysmon.c) sees to a P that does not come to its next wait.
 *     Likewise a few Gs (WAKE_FROM) that the poller or a timer made ready together: they are run
 *     sooner than a thread wakes, or else the watcher sees to them.
 *  D3 Of the Ms without work at most half as many as there are busy Ps spin; the others sleep.  One
 *     of the sleepers sleeps in the poller, until the earliest timer of all.
 *  D4 A G that is locked to its thread runs on that M only (gp->lockedm), and that M, once bound,
 *     runs nothing else.  At least one M is not bound, so that there is one to do the rest.
 *  D5 A G that is pinned (gp->lockedm, TURN_PINNED) runs on that M only, which runs others too.
 *
 * Waking: who submits work, and who goes to sleep
 *  submitter                                     sleeper (under D3, or after spinning in vain)
 *   1 put the G where thieves look                1 under sched.lock: P to the idle list, M to the
 *   2 light fence                    ORD(idle)      list of sleepers               ORD(idle)
 *   3 a P idle?  then a full fence; and           2 it spun: one spinning less
 *     nobody spinning?                            3 heavy fence (membarrier)
 *     then make one spin: nmspinning 0 -> 1,      4 look at every queue once more; if there is
 *     take an idle P and a sleeping M               work: take itself and a P out of the lists,
 *     under sched.lock, give the one to the         and spin
 *     other, wake it                              5 sleep
 *  Whichever of step 1 of the submitter and steps 1, 2 of the sleeper comes first in the order of
 *  the fences, either the submitter sees the idle P and no spinner, or the sleeper sees the G.  The
 *  light fence is no instruction; membarrier makes it one in every running thread when the sleeper,
 *  who has the time, asks.  Where the kernel has no membarrier both are full fences.
 *  Who spins and finds work stops spinning and, if there is more, makes the next one spin.  It has
 *  no heavy fence between: hence the full one of step 3, which is needed only where a P is idle.
 *  That none of this loses work is checked by model/wake.pml.
 *
 * Turns of a G that is bound to its M (D4)
 *   1 the G stops: its M hands its P to another M, and sleeps on its futex, in no list
 *   2 whatever M finds the G in a queue gives its own P to the G's M, and goes to sleep itself
 *   3 the G's M wakes with that P, and resumes the G
 *   4 where the G ends: step 1, and the thread ends
 *
 * Pinned (D5)
 *   A pinned G is made ready like any other.  Whatever M finds it and is not its M gives it there,
 *   under sched.lock, as its M stands:
 *    asleep       into its M's list (m->pinned), and a P for its M: an idle one, or the finder's own
 *    with a P     into the list, and that P is told to attend (m->held; the P may have been taken
 *                 since, if its M is in blocking code: then somebody else attends in vain)
 *    given a P, and not up yet    into the list
 *    neither      (it was roused and got nothing) into the global queue again
 *   An M looks at its list when its P is told to attend, and takes one of it and one of the P's own by
 *   turns.  It is told by the finder, or, if it had no P at that time, when it gets one (p_bind).
 *   So the list is not empty only while its M has a P, or is about to have one, or is in blocking code;
 *   one that goes to sleep empties it into the global queue (midle_put), and sees that one is woken.
 *   An M that others are pinned to is not bound (D4), so every M with a list comes back to it.
 *
 * Rejected: waking a thread for every ready G (a wake costs its caller 14 us; Go does it); a
 * condition variable per P (the same); stealing single Gs (a steal is a miss each).
 */
#include "sched.h"

#include <errno.h>
#include <unistd.h>

#include "base/os.h"
#include "base/rand.h"
#include "base/throw.h"
#include "base/trace.h"
#include "chaos.h"
#include "netpoll.h"
#include "park.h"
#include "proc.h"
#include "runq.h"
#include "timer.h"
#include "vtime.h"

enum {
	INHERIT_MAX = 64,
	SLICE_TICKS = 200 * TICKS_10US,
	GLOBAL_EVERY = 61, /* a prime, so that it does not beat with a program's own rhythm */
	GLOBAL_MOST = RUNQ_SIZE / 2,
	LATENCY_EVERY = 64, /* one ready in so many is timed */
	SPIN_MOST = 3 * TICKS_10US,
	SPIN_LEAST = TICKS_10US / 8,
	POLL_TICKS = 5 * TICKS_10US,
	WAKE_FROM = 8, /* Gs that became ready together: fewer are sooner run than shared */
};

/* --- running one --- */

static void record_latency(struct p *pp, struct g *gp)
{
	uint32_t ticks = (uint32_t)cpu_ticks() - gp->ready_at;

	gp->ready_at = 0;
	bump(&pp->latency[latency_bucket(ticks)], 1);
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
	park_exit();
	return 0;
}

/* A timer's: it is to have a thread of its own (thread.c). */
leaves_by_jump static noinline int begin_thread(struct m *m, struct g *gp)
{
	m->curg = NULL;
	g_set_status(gp, G_RUNNABLE);
	if (thread_start(gp)) { /* when one has ended: again */
		lock(&sched.lock, LR_SCHED);
		gq_put(gp);
		unlock(&sched.lock, LR_SCHED);
		os_nap(100000);
	}
	return schedule_g0();
}

leaves_by_jump static noinline int begin(struct m *m, struct g *gp)
{
	if (unlikely(sched.threads))
		return begin_thread(m, gp);
	g_bind_stack(m->p, gp);
	if (unlikely(gp->turn & TURN_PINNED)) {
		gp->lockedm = m;
		m->npinned++;
	}
	san_leave(&m->san, &gp->san);
	return gmp__gstart(gp, g_main, g_cxx(gp), sched.fpwords, m->g0);
}

/* The end of a wait that had a deadline, or whose result is not 0: no trace may be left. */
leaves_by_jump static noinline int end_wait(struct m *m, struct g *gp, uint32_t state)
{
	int result = waiter_result(state);

	if (gp->turn & TURN_TIMED) {
		gp->turn &= (uint8_t)~TURN_TIMED;
		timer_del(&gp->timer);
	}
	if (gp->turn & TURN_CXX) {
		gp->turn &= (uint8_t)~TURN_CXX;
		cxx_move(m->cxx, g_cxx(gp));
	}
	if (result && gp->unwait)
		gp->unwait(&gp->w); /* may ask the waiter what the result is */
	st_rlx(&gp->w.state, W_IDLE);
	if (result == -ETIMEDOUT && ld_rlx(&gp->cancelled) && !gp->masked && !gp->uncut)
		result = -ECANCELED; /* the time came first, but this is what the caller asks for */
	san_leave(&m->san, &gp->san);
	return gmp__gogo(&gp->ctx, result, m->g0);
}

leaves_by_jump static noinline int hand_to_its_m(struct m *m, struct g *gp);
leaves_by_jump static noinline int send_to_its_m(struct m *m, struct g *gp);

/* The turn of one that begins with something. */
leaves_by_jump static noinline int special_turn(struct m *m, struct g *gp, uint32_t state)
{
	if (gp->turn & TURN_BOUND)
		return hand_to_its_m(m, gp);
	if (gp->turn & TURN_PINNED && gp->lockedm != m)
		return send_to_its_m(m, gp);
	return end_wait(m, gp, state);
}

leaves_by_jump static int execute(struct m *m, struct p *pp, struct g *gp)
{
	uint32_t state = ld_rlx(&gp->w.state);

	m->curg = gp;
	g_set_status(gp, G_RUNNING);
	bump(&pp->count.switches, 1);
	if (unlikely(gp->ready_at))
		record_latency(pp, gp);
	if (unlikely(!gp->stack))
		return begin(m, gp);
	if (unlikely(state > W_CLAIMED || gp->turn))
		return special_turn(m, gp, state);
	st_rlx(&gp->w.state, W_IDLE);
	san_leave(&m->san, &gp->san);
	return gmp__gogo(&gp->ctx, 0, m->g0);
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
		if (gp->turn & TURN_BOUND)
			m->lockedg = NULL; /* the M stays bound, and has nothing to run any more */
		if (gp->turn & TURN_PINNED)
			m->npinned--;
	}
	g_unbind_stack(pp, gp);
	if (unlikely(gp == sched.main))
		sched_stop();
	if (ld_rlx(&gp->join))
		sched.joinable_exit(gp);
	else
		g_free(pp, gp);
	return schedule_g0();
}

/* --- submitting --- */

static inline void sample(struct p *pp, struct g *gp)
{
	uint64_t n = pp->count.readies + 1;

	st_rlx(&pp->count.readies, n);
	if (unlikely(n % LATENCY_EVERY == 0))
		gp->ready_at = (uint32_t)cpu_ticks() | 1;
}

static noinline void submit_foreign(struct g *gp)
{
	/* ORD(foreign): before the G can be seen runnable, so that a run's end waits for the wake too */
	add_seq(&sched.foreign, 1);
	lock(&sched.lock, LR_SCHED);
	/* under the lock: who sees it runnable, and then gets the lock, knows that this is over */
	g_set_status(gp, G_RUNNABLE);
	gq_put(gp);
	unlock(&sched.lock, LR_SCHED);
	fence_seq(); /* ORD(idle) */
	wakep();
	sub_seq(&sched.foreign, 1); /* ORD(foreign) */
}

void sched_submit(struct g *gp, bool next)
{
	struct p *pp = getp();

	if (unlikely(!pp)) {
		submit_foreign(gp);
		return;
	}
	g_set_status(gp, G_RUNNABLE);
	sample(pp, gp);
	if (next > pp->in_order)
		gp = runnext_swap(pp, gp);
	if (gp) {
		runq_put(pp, gp);
		wake_if_idle();
	}
}

void sched_wake_foreign(struct waiter *w)
{
	/* ORD(waiter.done): the last touch of what lies on the thread's stack */
	st_rel(&w->state, ld_rlx(&w->state) | W_DONE);
	os_futex_wake(&w->state, 1);
}

void sched_submit_list(struct glist *list)
{
	struct p *pp = getp();
	struct g *gp;

	for (struct sudog *sg = list->foreign, *next; unlikely(sg != NULL); sg = next) {
		next = sg->next;
		sched_wake_foreign(sg->w);
	}
	list->foreign = NULL;
	if (!list->head)
		return;
	if (likely(pp != NULL)) {
		while ((gp = glist_pop(list))) {
			g_set_status(gp, G_RUNNABLE);
			sample(pp, gp);
			runq_put(pp, gp);
		}
		/* curg: a green thread released them, and goes on running itself */
		if (getm()->curg || !pp->room || runq_len(pp) >= WAKE_FROM)
			wake_if_idle();
		return;
	}
	add_seq(&sched.foreign, 1); /* ORD(foreign): as above */
	lock(&sched.lock, LR_SCHED);
	while ((gp = glist_pop(list))) {
		g_set_status(gp, G_RUNNABLE);
		gq_put(gp);
	}
	unlock(&sched.lock, LR_SCHED);
	fence_seq(); /* ORD(idle) */
	wakep();
	sub_seq(&sched.foreign, 1); /* ORD(foreign) */
}

/* --- waking --- */

static void stop_spinning(struct m *m)
{
	m->spinning = false;
	sub_seq(&sched.nmspinning, 1); /* ORD(idle) */
}

/* A thread for a P, since no M sleeps; without one, a thread that sleeps. */
static noinline bool start_m(struct p *pp, bool spinning)
{
	struct m *m;

	m_join_one(true);
	m = m_new();
	if (!m)
		return false;
	m->nextp = pp;
	m->spinning = spinning;
	if (m_start(m) == 0)
		return true;
	m_free(m);
	return false;
}

noinline void wakep(void)
{
	int none = 0;
	struct p *mine = getp();

	if (ld_seq(&sched.npidle) == 0 || ld_seq(&sched.nmspinning) != 0 ||
	    !cas_seq(&sched.nmspinning, &none, 1)) /* ORD(idle) */
		return;
	lock(&sched.lock, LR_SCHED);
	bool on = ld_rlx(&sched.state) == RUN_ON;
	struct p *pp = on ? pidle_get() : NULL;
	struct m *m = pp ? midle_get() : NULL;
	bool in_poller = m && m->in_poller, may_start = pp && !m && sched.nm < sched.nmlimit;

	if (m) {
		m->nextp = pp;
		m->spinning = true;
	} else if (may_start) {
		sched.nstarting++;
	} else if (pp) {
		pidle_put(pp);
	}
	unlock(&sched.lock, LR_SCHED);
	if (mine && (m || may_start))
		bump(&mine->count.wakeups, 1);
	if (m) {
		m_wake(m, in_poller);
		return;
	}
	bool started = may_start && start_m(pp, true);

	if (may_start) {
		lock(&sched.lock, LR_SCHED);
		sched.nstarting--;
		if (!started) /* no memory or no thread: those that run will do */
			pidle_put(pp);
		unlock(&sched.lock, LR_SCHED);
	}
	if (!started)
		sub_seq(&sched.nmspinning, 1); /* ORD(idle) */
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

/* Fire what is due in from's heap; the ready ones go to pp's ring. */
static void run_timers(struct p *pp, struct p *from, int64_t now)
{
	struct glist out = { 0 };
	unsigned n = timers_run(from, now, &out);

	if (n)
		bump(&pp->count.timers_fired, n);
	sched_submit_list(&out);
}

static noinline void run_own_timers(struct p *pp)
{
	int64_t now = look_at_clock(pp);

	if (timers_next(pp) <= now)
		run_timers(pp, pp, now);
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

static void poll(int64_t ns, struct glist *out)
{
	int n = netpoll_poll(ns, out);

	add_rlx(&sched.polls, 1);
	add_rlx(&sched.poll_events, (uint64_t)n);
	st_rlx(&sched.lastpoll, cpu_ticks());
}

/* What the kernel has, without waiting. */
void sched_poll_now(void)
{
	struct glist out = { 0 };
	bool bare = !getp(); /* the watcher: what it wakes stands nowhere until it is submitted */

	if (bare) /* so that nobody takes that for a deadlock */
		add_rlx(&sched.npollwait, 1);
	poll(0, &out);
	sched_submit_list(&out);
	if (bare)
		add_rlx(&sched.npollwait, -1u);
}

/* Somebody waits for a descriptor, and no M sleeps in the poller. */
bool sched_should_poll(void)
{
	return ld_rlx(&sched.npollwait) > 0 && !ld_rlx(&sched.pollm);
}

/* --- finding one --- */

static struct g *runnext_take(struct p *pp)
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
static void poll_in_turn(struct p *pp)
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
static noinline struct g *look_round(struct p *pp)
{
	poll_in_turn(pp);
	if (runq_yielded(pp)) /* this P may never run dry */
		runq_flush_yielded(pp);
	return from_global(pp, 1);
}

/* D1: the clock is looked at once in INHERIT_MAX turns.  An end that is left over from an earlier slice
 * makes one slice short, and is no more. */
static noinline bool slice_goes_on(struct p *pp)
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

static inline struct g *own_work(struct p *pp)
{
	struct g *gp;

	if (ld_rlx(&pp->runnext)) {
		if (likely(pp->inherited < INHERIT_MAX || slice_goes_on(pp)) &&
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

/* Steal from one victim after another, from a random one on. */
static struct g *steal(struct p *pp, const uint64_t *moved_before)
{
	int n = ld_acq(&sched.nallp); /* ORD(allp) */
	int first = (int)rand_below(&pp->rand, (uint32_t)n);

	for (int k = 0; k < n; k++) {
		int i = (first + k) % n;
		struct p *victim = sched.allp[i];

		if (victim == pp)
			continue;
		/* its runnext only if it has not moved since we began to look */
		bool next = moved_before && moved_before[i] == ld_rlx(&victim->count.switches);
		struct g *gp = runq_steal(pp, victim, next);

		if (gp) {
			bump(&pp->count.steals, 1);
			bump(&pp->count.stolen, 1);
			return gp;
		}
	}
	return NULL;
}

/* Look for work for a while.  NULL: there is none, or the P has to attend to something. */
static struct g *look_for_work(struct m *m, struct p *pp)
{
	uint64_t moved[PROCS_MAX], began = cpu_ticks();
	int n = ld_acq(&sched.nallp); /* ORD(allp) */
	bool patient = sched.cpus > 1 && n > 1;
	struct g *gp;

	if (!m->spinning) {
		m->spinning = true;
		add_seq(&sched.nmspinning, 1); /* ORD(idle) */
	}
	for (int i = 0; i < n; i++)
		moved[i] = ld_rlx(&sched.allp[i]->count.switches);
	do {
		if ((gp = steal(pp, NULL)) || (gp = from_global(pp, GLOBAL_MOST)))
			return gp;
		steal_timers(pp);
		if (sched_should_poll() && cpu_ticks() - ld_rlx(&sched.lastpoll) > TICKS_10US / 2)
			sched_poll_now();
		if ((gp = own_work(pp)) || p_attends(pp))
			return gp;
		bump(&pp->count.spins, 1);
		for (int i = 0; i < 16 && patient; i++)
			cpu_relax();
	} while (patient && cpu_ticks() - began < m->patience);
	return patient ? steal(pp, moved) : NULL;
}

/* Work that a thief could take: step 4 of the sleeper. */
static bool work_in_sight(void)
{
	int n = ld_acq(&sched.nallp); /* ORD(allp) */

	if (ld_rlx(&sched.gqn))
		return true;
	for (int i = 0; i < n; i++)
		if (runq_len(sched.allp[i]) && ld_rlx(&sched.allp[i]->open))
			return true;
	return false;
}

/* An M is as patient as it pays: twice as long after a find, half as long after a vain search.  So
 * threads that exchange work find each other awake, and a server whose work comes from the poller
 * does not burn the CPU that its clients want. */
static struct g *spin(struct m *m, struct p *pp)
{
	struct g *gp = look_for_work(m, pp);

	m->patience = gp ? min_of(m->patience * 2, (uint32_t)SPIN_MOST)
			 : max_of(m->patience / 2, (uint32_t)SPIN_LEAST);
	return gp;
}

static bool may_spin(struct m *m)
{
	/* the next to sleep in the poller: the kernel wakes it as soon as there is something */
	if (!m->spinning && sched_should_poll() && !work_in_sight())
		return false;
	return m->spinning ||
	       2 * ld_rlx(&sched.nmspinning) < ld_rlx(&sched.procs) - ld_rlx(&sched.npidle);
}

/* --- sleeping --- */

leaves_by_jump static int leave_g0(struct m *m)
{
	return gmp__gogo(&m->base, 0, m->g0);
}

/* No P is run by an M; those that are to go, and are still at it, count too, and so do those whose M
 * may come back from blocking code at any time. */
bool sched_all_idle(void)
{
	int n = ld_acq(&sched.nallp); /* ORD(allp) */

	for (int i = 0; i < n; i++) {
		uint32_t status = ld_rlx(&sched.allp[i]->status) & P_STATUS;

		if (status == P_RUNNING || status == P_BLOCKED)
			return false;
	}
	return true;
}

/* How long to sleep in the poller; announces it (poll_until). */
static int64_t poll_time(void)
{
	int64_t until = sched_earliest_timer(), again;

	for (;; until = again) {
		st_seq(&sched.poll_until,
		       until); /* ORD(poll.until): announced before the last look */
		fence_seq();
		again = sched_earliest_timer();
		if (again >= until)
			break;
	}
	return until;
}

/* None but those of deadlines of descriptors, which only end waits.  Where no P runs, both counts stand
 * still. */
static bool no_timer_matters(void)
{
	int n = ld_acq(&sched.nallp); /* ORD(allp) */
	uint32_t armed = 0;

	for (int i = 0; i < n; i++)
		armed += timers_glance(sched.allp[i]);
	return armed == netpoll_deadlines();
}

bool sched_only_time(void)
{
	return !ld_rlx(&sched.npollwait) && sched_all_idle() && !ld_rlx(&sched.nblocked) &&
	       !ld_rlx(&sched.gqn) && ld_rlx(&sched.state) == RUN_ON;
}

/* And no timer would make anything ready: has everything come to an end? */
static bool stalled(void)
{
	return !sched.library && sched_only_time() && no_timer_matters();
}

bool sched_stalled_locked(void)
{
	lock(&sched.lock, LR_SCHED);
	bool yes = stalled() && !ld_rlx(&sched.gqn);
	unlock(&sched.lock, LR_SCHED);
	return yes;
}

static int64_t stall_check(int64_t until)
{
	if (!stalled())
		return until;
	int64_t ns = sched.stalled();

	return ns == NEVER ? until : min_of(until, rt_now() + ns);
}

/* Sleep as the one in the poller.  The ready ones are in *out. */
static void sleep_in_poller(struct glist *out)
{
	/* with no P to be had it can do nothing for timers; the next to give one up tells it */
	st_seq(&sched.poll_until, NEVER); /* ORD(poll.until) */
	int64_t until = ld_seq(&sched.npidle) ? stall_check(poll_time()) : NEVER;
	int64_t ns = until;

	if (unlikely(ld_rlx(&sched.virtual_now))) {
		int64_t began = os_now();

		ns = vtime_sleep(until);
		poll(ns, out);
		vtime_slept(ns, began);
	} else {
		if (until != NEVER)
			ns = max_of(until - os_now(), 0);
		poll(ns, out);
	}
	st_rlx(&sched.poll_until, INT64_MIN);
}

/* Step 4: out of the lists again, with a P, and as one that spins, if there is work after all. */
static bool second_thoughts(struct m *m)
{
	bool got = false;

	if (!work_in_sight())
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
			m->spinning = true; /* there may be more than it takes: it owes a look */
			add_seq(&sched.nmspinning, 1); /* ORD(idle) */
			got = true;
		} else {
			midle_put(m);
		}
	}
	unlock(&sched.lock, LR_SCHED);
	return got;
}

/* --- the mask of signals --- */

/* The calling thread is m's. */
static noinline void change_mask(struct m *m, uint64_t admitted)
{
	os_mask(m->admitted & ~admitted, admitted & ~m->admitted);
	m->admitted = admitted;
}

static inline void admit_signals(struct m *m)
{
	uint64_t admitted = ld_rlx(&sched.admitted);

	if (unlikely(admitted != m->admitted))
		change_mask(m, admitted);
}

/* Those that sleep get up for it: they would stay as they are for as long as nobody needs them.  They
 * stand in their list, so each finds out by itself that it has been given nothing. */
static void rouse_sleepers(void)
{
	lock(&sched.lock, LR_SCHED);
	for (struct m *m = sched.midle; m; m = m->link)
		m_wake(m, false);
	if (sched.pollm)
		m_wake(sched.pollm, true);
	unlock(&sched.lock, LR_SCHED);
}

void sched_admit(uint64_t signals)
{
	int n = ld_acq(&sched.nallp); /* ORD(allp) */

	st_rlx(&sched.admitted, signals);
	for (int i = 0; i < n; i++)
		or_seq(&sched.allp[i]->attention, ATTENTION_MASK); /* ORD(admit) */
	if (getm())
		admit_signals(getm());
	rouse_sleepers();
}

/* --- sleeping and getting up --- */

/* A wake, a timer or an event has ended the sleep: take the P that was given, or an idle one.
 * Without one, what the poller gave goes to the global queue in the same critical section in which
 * this M stops being the one who polls: nobody sees the one without the other, and takes it for a
 * deadlock. */
static struct p *take_p(struct m *m, struct glist *out)
{
	struct g *gp;

	lock(&sched.lock, LR_SCHED);
	struct p *pp = m->nextp;
	bool was_listed = !pp && midle_del(m);

	if (m->in_poller) {
		m->in_poller = false;
		sched.polling = false;
	}
	if (pp)
		m->nextp = NULL;
	else if (was_listed)
		pp = pidle_get();
	if (pp) {
		st_rlx(&pp->status, P_RUNNING);
		p_bind(pp, m);
	} else {
		while ((gp = glist_pop(out))) {
			g_set_status(gp, G_RUNNABLE);
			gq_put(gp);
		}
	}
	unlock(&sched.lock, LR_SCHED);
	admit_signals(m);
	return pp;
}

static void rouse_sysmon(void)
{
	fence_seq(); /* ORD(sysmon): the P runs before the look; the watcher announces, then looks */
	if (unlikely(ld_rlx(&sched.sysmon_asleep)) && xchg_seq(&sched.sysmon_asleep, 0)) {
		st_rlx(&sched.coarse_now, os_now()); /* nobody has set it for long */
		os_futex_wake(&sched.sysmon_asleep, 1);
	}
}

/* From no P to a P.  False: the runtime stops. */
static bool sleep_until_p(struct m *m)
{
	for (;;) {
		struct glist out = { 0 };

		if (m->in_poller)
			sleep_in_poller(&out);
		else
			m_sleep(m);
		struct p *pp = take_p(m, &out);

		sched_submit_list(&out); /* without a P: the foreign ones that are left */
		if (pp) {
			rouse_sysmon();
			return true;
		}
		if (ld_rlx(&sched.state) != RUN_ON)
			return false;
		fence_seq(); /* ORD(idle): for what went to the global queue */
		wakep();
		lock(&sched.lock, LR_SCHED);
		bool stopping = ld_rlx(&sched.state) != RUN_ON;

		if (!stopping)
			midle_put(m);
		unlock(&sched.lock, LR_SCHED);
		if (stopping)
			return false;
	}
}

/* Give the P up.  False: there was work, or the P has to attend to something. */
static bool give_up_p(struct m *m, struct p *pp, bool *spun)
{
	lock(&sched.lock, LR_SCHED);
	if (ld_rlx(&sched.gqn) || p_attends(pp) || ld_rlx(&sched.state) != RUN_ON) {
		unlock(&sched.lock, LR_SCHED);
		return false;
	}
	m->p = NULL;
	bump(&pp->count.parks, 1);
	*spun = m->spinning; /* from here on it is the waker's to set */
	m->spinning = false;
	pidle_put(pp);
	midle_put(m);
	unlock(&sched.lock, LR_SCHED);
	return true;
}

/* The M in the poller fell asleep before this M did.  The timers of the P that it has given up are
 * the poller's business now, and so is it to find that nothing can run any more. */
static void tell_poller(struct p *pp)
{
	int64_t until = ld_seq(&sched.poll_until); /* ORD(poll.until): our timers stand already */

	if (timers_next(pp) < until ||
	    (until != INT64_MIN && (ld_rlx(&sched.virtual_now) || stalled())))
		gmp__poller.wake();
}

/* Step 3 of the sleeper.  ORD(idle): the heavy side; where no P runs, all submitters are foreign,
 * and go by the lock. */
static void after_giving_up(void)
{
	if (sched.asymmetric && !sched_all_idle())
		os_membarrier();
	else
		fence_seq(); /* ORD(idle) */
}

/* Steps 1 to 5 of the sleeper, and getting up.  False: the runtime stops. */
static bool rest(struct m *m, struct p *pp)
{
	bool spun;

	if (!give_up_p(m, pp, &spun))
		return true;
	if (spun)
		sub_seq(&sched.nmspinning, 1); /* ORD(idle) */
	after_giving_up();
	if (second_thoughts(m)) {
		rouse_sysmon();
		return true;
	}
	if (!m->in_poller)
		tell_poller(pp);
	return sleep_until_p(m);
}

/* --- a G bound to its M --- */

leaves_by_jump static noinline int find_g0(struct m *m);

/* An M has joined the sleepers that did not come from its last look: who had work for one before
 * may have found none to wake, in a section of sched.lock before this M's. */
static void wake_for_what_waited(void)
{
	if (work_in_sight())
		wakep();
}

leaves_by_jump static int find_from_the_top(void *m)
{
	return find_g0(m);
}

/* From the top of g0, so that calls in turns do not fill it where the compiler makes no jumps of
 * them. */
leaves_by_jump static int find_afresh(struct m *m)
{
	struct context left;

	return gmp__mcall(&left, find_from_the_top, m, m->g0);
}

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
		start = !other && sched.nm < sched.nmlimit && ld_rlx(&sched.state) == RUN_ON;
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

/* Step 3 of a bound G's turn. */
leaves_by_jump static int resume_bound(struct m *m, struct g *gp)
{
	uint32_t state = ld_rlx(&gp->w.state);

	m->curg = gp;
	g_set_status(gp, G_RUNNING);
	bump(&m->p->count.switches, 1);
	return end_wait(m, gp, state);
}

/* Step 2: m has found a G that is another M's. */
leaves_by_jump static noinline int hand_to_its_m(struct m *m, struct g *gp)
{
	struct m *its = gp->lockedm;

	m->curg = NULL;
	g_set_status(gp, G_RUNNABLE);
	lock(&sched.lock, LR_SCHED);
	bool stopping = ld_rlx(&sched.state) != RUN_ON;

	if (!stopping) {
		its->nextp = m->p;
		m->p = NULL;
		midle_put(m);
	}
	unlock(&sched.lock, LR_SCHED);
	if (stopping)
		return leave_g0(m);
	m_wake(its, false);
	wake_for_what_waited();
	return sleep_until_p(m) ? find_afresh(m) : leave_g0(m);
}

/* m has found a pinned G of another M's: see "pinned". */
leaves_by_jump static noinline int send_to_its_m(struct m *m, struct g *gp)
{
	struct m *its = gp->lockedm;
	bool lie_down = false;

	m->curg = NULL;
	g_set_status(gp, G_RUNNABLE);
	lock(&sched.lock, LR_SCHED);
	if (ld_rlx(&sched.state) != RUN_ON) {
		unlock(&sched.lock, LR_SCHED);
		return leave_g0(m);
	}
	bool in_poller = its->in_poller, asleep = !its->held && !its->nextp && midle_del(its);

	if (asleep || its->nextp || its->held)
		glist_push(&its->pinned, gp);
	else
		gq_put(gp);
	if (asleep) {
		its->nextp = pidle_get();
		lie_down = !its->nextp;
		if (lie_down) {
			its->nextp = m->p;
			m->p = NULL;
			midle_put(m);
		}
	} else if (its->held) {
		or_rlx(&its->held->attention, ATTENTION_PINNED);
	}
	unlock(&sched.lock, LR_SCHED);
	if (asleep)
		m_wake(its, in_poller);
	if (!lie_down)
		return find_afresh(m);
	wake_for_what_waited();
	return sleep_until_p(m) ? find_afresh(m) : leave_g0(m);
}

/* One that is pinned to m, or, by turns, one of its P's own; NULL: the P was told in vain. */
static struct g *take_pinned(struct m *m, struct p *pp)
{
	struct g *gp;

	m->pinned_turn = !m->pinned_turn;
	if (!m->pinned_turn && (gp = own_work(pp)))
		return gp;
	and_rlx(&pp->attention, ~(uint32_t)ATTENTION_PINNED);
	lock(&sched.lock, LR_SCHED);
	gp = glist_pop(&m->pinned);
	if (m->pinned.head)
		or_rlx(&pp->attention, ATTENTION_PINNED);
	unlock(&sched.lock, LR_SCHED);
	return gp;
}

void sched_pin(struct m *m)
{
	m->curg->lockedm = m;
	m->curg->turn |= TURN_PINNED;
	m->npinned++;
}

void sched_unpin(struct m *m)
{
	m->curg->turn &= (uint8_t)~TURN_PINNED;
	m->npinned--;
}

/* Until somebody has found its G in a queue. */
leaves_by_jump static int sleep_bound(struct m *m)
{
	if (!m->lockedg && m->ours)
		return leave_g0(m); /* the thread ends; the caller of gmp_run has to stay */
	struct p *pp;

	do /* it may have been roused for its mask alone */
		m_sleep(m);
	while (!(pp = take_p(m, &(struct glist){ 0 })) && ld_rlx(&sched.state) == RUN_ON);
	return pp ? resume_bound(m, m->lockedg) : leave_g0(m);
}

/* Step 1: the G of a bound M has stopped, or ended. */
leaves_by_jump static noinline int rest_bound_g0(struct m *m)
{
	struct p *pp = m->p;

	if (ld_rlx(&sched.state) != RUN_ON)
		return leave_g0(m);
	admit_signals(m);
	m->p = NULL;
	sched_hand_off(pp, false);
	return sleep_bound(m);
}

/* Under sched.lock: there will be an M for the others.  0 or -EAGAIN. */
static int spare_m_locked(void)
{
	while (sched.nm - sched.nbound < 2) {
		if (ld_rlx(&sched.state) != RUN_ON)
			return 0; /* all that is left to do is to leave */
		if (sched.nm >= sched.nmlimit)
			return -EAGAIN;
		sched.nstarting++;
		unlock(&sched.lock, LR_SCHED);
		bool started = start_m(NULL, false);

		lock(&sched.lock, LR_SCHED);
		sched.nstarting--;
		if (!started)
			return -EAGAIN;
	}
	return 0;
}

int sched_bind(struct m *m)
{
	if (m->npinned > (m->curg->pins > 0))
		return -EAGAIN;
	lock(&sched.lock, LR_SCHED);
	int err = spare_m_locked();

	if (!err) {
		m->bound = true;
		sched.nbound++;
		m->lockedg = m->curg;
	}
	unlock(&sched.lock, LR_SCHED);
	return err;
}

void sched_unbind(struct m *m)
{
	lock(&sched.lock, LR_SCHED);
	m->bound = false;
	sched.nbound--;
	m->lockedg = NULL;
	unlock(&sched.lock, LR_SCHED);
}

/* --- back from blocking code, see syscall.c --- */

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

/* --- something else to do --- */

static void chaos_turn(struct p *pp)
{
	chaos_shuffle(pp);
	wake_if_idle(); /* for what is in the global queue now */
	if (sched_should_poll() && chaos_draw(8) == 0)
		sched_poll_now();
}

/* The end of a search. */
leaves_by_jump static int execute_found(struct m *m, struct g *gp)
{
	if (m->spinning) {
		stop_spinning(m);
		if (work_in_sight())
			wake_if_idle();
	}
	return execute(m, m->p, gp);
}

/* Something that cannot wait for work to run out. */
leaves_by_jump static noinline int attend_g0(struct m *m)
{
	struct p *pp = m->p;

	if (ld_rlx(&sched.state) != RUN_ON) /* the only way in from RUN_STOPPING */
		return leave_g0(m);
	and_seq(&pp->attention, ~(uint32_t)(ATTENTION_YIELD | ATTENTION_MASK)); /* ORD(admit) */
	admit_signals(m);
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
			tell_poller(sched.allp[0]); /* which has got the timers */
		if (stopping || !sleep_until_p(m))
			return leave_g0(m);
	} else if (unlikely(ld_rlx(&pp->attention) & ATTENTION_CHAOS)) {
		chaos_turn(pp);
	}
	if (unlikely(ld_rlx(&m->p->attention) & ATTENTION_PINNED)) {
		struct g *gp = take_pinned(m, m->p);

		if (gp)
			return execute_found(m, gp);
	}
	return find_afresh(m);
}

/* The M may be spinning: only here does that end, so an M that has just got its P comes this way. */
leaves_by_jump static noinline int find_g0(struct m *m)
{
	struct g *gp;

	gmp_debug_assert(!m->bound);

	for (;;) {
		struct p *pp = m->p;

		if (p_attends(pp))
			return attend_g0(m);
		if (timers_next(pp) != NEVER)
			run_own_timers(pp);
		if ((gp = own_work(pp)))
			break;
		if (runq_yielded(pp))
			runq_flush_yielded(pp);
		if ((gp = from_global(pp, GLOBAL_MOST)))
			break;
		if (sched_should_poll()) {
			sched_poll_now();
			if ((gp = own_work(pp)))
				break;
		}
		if (may_spin(m)) {
			if ((gp = spin(m, pp)))
				break;
		}
		steal_timers(pp);
		if ((gp = own_work(pp)))
			break;
		if (!rest(m, pp))
			return leave_g0(m);
	}
	return execute_found(m, gp);
}

/* Descriptors and stack tops are fetched while those before them run: far enough ahead that a miss
 * is over by then. */
static inline void prefetch_next(struct p *pp)
{
	uint32_t head = ld_rlx(&pp->runqhead), tail = pp->runqtail;

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
	switch_check(); /* L1 */
	if (unlikely(m->bound))
		return rest_bound_g0(m);
	if (unlikely(ld_rlx(&pp->attention)))
		return attend_g0(m);
	if (unlikely(timers_next(pp) != NEVER) && cpu_ticks() - pp->looked > TICKS_10US)
		run_own_timers(pp);
	/* by runs, not by slices: those that inherit one must not put it off */
	if (unlikely((uint32_t)pp->count.switches % GLOBAL_EVERY == 0) && (gp = look_round(pp))) {
		bump(&pp->schedtick, 1);
		return execute(m, pp, gp);
	}
	gp = own_work(pp);
	if (unlikely(!gp))
		return find_g0(m);
	prefetch_next(pp);
	return execute(m, pp, gp);
}

/* --- an M's beginning, and everybody's end --- */

/* With the P that it was started for, or asleep.  False: the runtime stops. */
static bool begin_with_p(struct m *m)
{
	lock(&sched.lock, LR_SCHED);
	bool asleep = !m->nextp && ld_rlx(&sched.state) == RUN_ON;

	if (asleep)
		midle_put(m);
	unlock(&sched.lock, LR_SCHED);
	if (asleep)
		wake_for_what_waited();
	return asleep ? sleep_until_p(m) : take_p(m, &(struct glist){ 0 }) != NULL;
}

leaves_by_jump static int mstart_g0(void *arg)
{
	struct m *m = arg;

	san_head((char *)m->g0 - G0_HEAD, G0_HEAD);
	if (!begin_with_p(m))
		return leave_g0(m);
	rouse_sysmon();
	if (!m->first)
		return find_g0(m);
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

void sched_stop(void)
{
	struct m *m;

	lock(&sched.lock, LR_SCHED);
	st_seq(&sched.state, RUN_STOPPING); /* ORD(foreign): who enters after this does not stay */
	for (int i = 0, n = ld_acq(&sched.nallp); i < n; i++) /* ORD(allp) */
		or_rlx(&sched.allp[i]->attention, ATTENTION_STOP);
	while ((m = midle_get()))
		m_wake(m, m->in_poller);
	for (m = sched.allm; m; m = m->alllink)
		if (m->bound &&
		    !m->nextp) /* else it is woken by who gave it a P, and not gone before */
			m_wake(m, false);
	unlock(&sched.lock, LR_SCHED);
}
