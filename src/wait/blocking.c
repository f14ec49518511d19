/* SPDX-License-Identifier: MIT */
/*
 * Blocking code: lets a green thread sleep in the kernel while its P runs others.
 *
 * Around blocking code the M releases its P.  After a short section the P is still there: entering
 * and leaving cost nanoseconds.  A P whose section lasts goes to another M.
 *
 *  the M                                            the taker: sysmon, an M that leaves its own
 *   1 enter: getm() is NULL until leave, so calls   section, or an M that comes out of the poller
 *     behave as on an external thread and none       1 sysmon: the P is BLOCKED by the same section
 *     touches the P                                    as at its last poll and is wanted, or for
 *   2 if the section is expected to be long and the    BUSY_NS; or is LONG and has work.
 *     P has work: hand the P off at once               An M: it has no P, and this P is LONG; under
 *     (handoff.c:sched_hand_off)                       sched.lock
 *   3 otherwise status: RUNNING -> BLOCKED with the  2 status: BLOCKED, as it was seen, -> RUNNING
 *     M's number, and LONG if a long section is        by compare-and-swap         ORD(p.blocked)
 *     expected; then BLOCK-7 may have it taken back    3 if that won, the P belongs to the taker:
 *     and handed off                ORD(p.blocked)      sysmon hands it to another M, an M runs on
 *   4 the blocking code runs                            it
 *   5 leave: the status of step 3 -> RUNNING by
 *     compare-and-swap; if that wins, continue
 *   6 if it fails: up to BLOCK_YIELDS calls of sched_yield until a P is free.  Then, under
 *     sched.lock, take the first of these:
 *       a. the same P, if it is idle
 *       b. another P, as a taker
 *       c. the P of an M that was woken for it and does not run yet (handoff.h HANDOFF-4); the G
 *          goes behind the Gs in its queue
 *       d. another idle P
 *   7 if there is none, on g0: the G to the global queue, the M to the stopped Ms
 *
 * Invariants
 *  BLOCK-1  From step 3 on this thread only reads timers_next of the P, until a compare-and-swap of
 *           its own (BLOCK-7, step 5) wins: the thread that wins one owns the P from there on.
 *           After a hand-off the P is not this M's any more.
 *  BLOCK-2  Only M number n writes BLOCKED with n.  So the compare-and-swap of step 5 fails if the
 *           P was taken meanwhile, even if another M is in blocking code with it since.
 *  BLOCK-3  A G whose P was taken counts in sched.nblocked, from the section of sched.lock in which
 *           the P gets another owner to the one in which the G has a P or is in the global queue.
 *           So a program with a G in blocking code is never reported as deadlocked.  Verified by
 *           model/block.pml.
 *  BLOCK-4  Leaving is a checkpoint: a G with one short section after the other keeps the P no
 *           longer than a G that computes.
 *  BLOCK-5  The length is learned for each call of gmp_block_enter, by its address, in each P: a
 *           moving average over WEIGHT sections, which begins with the first one.  A call that a P
 *           does not know yet counts as long if the P has work.  It is a hint.  If it says "long"
 *           for a short section, that costs one hand-off.  If it says "short" for a long one, the
 *           bound of sysmon holds: work of the P waits for at most a time slice and SHORT_NS, and
 *           for SHORT_NS while sysmon is taking Ps.
 *  BLOCK-6  Steps 1 to 3, 5 and 6 are P sections (preempt.h): sysmon preempts no M in blocking
 *           code, and siglongjmp leaves no step (RECEIVER-3).  A G whose P was preempted before
 *           enters without a P, and leaves by step 6: no status of a P has its number (BLOCK-2).
 *  BLOCK-7  During a section of a call that is known to be long, timers of the P, and events that
 *           were waited for when it began, do not wait for sysmon, which may sleep for BUSY_NS: if
 *           no M sleeps in the poller, or if it sleeps beyond a timer of the P since no P is idle,
 *           the P is handed off.  It becomes idle, so an M sleeps in the poller until the earliest
 *           timer (HANDOFF-6).  A call that the P does not know is not handed off for this.
 *  -        An M that comes out of the poller for events or a due timer, and finds no idle P, is a
 *           taker.  While a P is LONG it sleeps until the earliest timer only: step 3 comes before
 *           the check whether an M sleeps in the poller, and that M overwrites poll_until before it
 *           reads the statuses, so at least one of both sees the other (model/long.pml).
 */
#include "base/os.h"
#include "enter.h"
#include "handoff.h"
#include "m.h"
#include "observe/probe.h"
#include "park.h"
#include "timer/timerheap.h"
#include "types.h"
#include "variant/variant.h"

/*
 * TICKS_MOST: cap of a measured length, so that one outlier does not make a known call long.
 * WEIGHT: a new section is 1 of so many parts of the average.  TIMED_EVERY: one of so many short
 * sections is timed: two reads of the counter cost more than the rest of a section.
 */
#define TICKS_MOST (4 * LONG_TICKS)
enum { WEIGHT = 8, TIMED_EVERY = 8 };

/* Index in p.sections of a call of gmp_block_enter.  Two calls may share an entry, which makes the
 * hint worse. */
static uint32_t site_of(const void *call)
{
	uint32_t hash = (uint32_t)(uintptr_t)call * 0x9e3779b1u;

	return hash / (UINT32_MAX / SECTION_SITES + 1);
}

static uint32_t blocked_by(const struct m *m)
{
	return P_BLOCKED | (uint32_t)m->id << P_BLOCKED_M_SHIFT;
}

/* BLOCK-5: adds the length of a section, in cpu_ticks, to the average of its call. */
static void section_learn(struct p *pp, uint32_t site, uint64_t ticks)
{
	int64_t average = pp->sections[site].ticks,
		length = (int64_t)min_of(ticks, (uint64_t)TICKS_MOST);

	pp->sections[site].ticks =
		(uint32_t)(average ? average + (length - average) / WEIGHT : max_of(length, 1));
}

/* BLOCK-7: would timers or events wait for sysmon during a long section of pp? */
static bool is_unserved(struct p *pp)
{
	int64_t until = ld_rlx(&sched.poll_until);

	if (until == INT64_MIN) /* no M sleeps in the poller */
		return ld_rlx(&sched.npollwait) || timers_earliest() != NEVER;
	return timer_is_missed(timers_next(pp), until);
}

/* Step 3, then BLOCK-7.  Returns true if the P is blocked, or has been taken since. */
static bool blocks_long(struct m *m, struct p *pp)
{
	uint32_t mine = m->blocking.status |= P_LONG;

	st_rel(&pp->status, mine); /* ORD(p.blocked): after all uses of pp by this M */
	fence_seq();               /* ORD(poll.until): an M without an idle P sees it */
	return !is_unserved(pp) ||
	       !cas_acq(&pp->status, &mine, (uint32_t)P_RUNNING); /* ORD(p.blocked) */
}

/* Begins a section that is timed.  Returns false if step 3 is left to do. */
static noinline bool enter_timed(struct m *m, struct p *pp, struct section *s)
{
	bool known = s->ticks;

	if (!known) /* the next section, too, is timed */
		s->begun = 0;
	m->blocking.began = cpu_ticks();
	if ((known && s->ticks < LONG_TICKS) || rt_replays())
		return false;
	bool work = p_has_work(pp);

	if (!work && !known)
		return false;
	gmp__setm_blocked(m);
	if (!work && blocks_long(m, pp))
		return true;
	add_rlx(&sched.total.handoffs, 1);
	emit(EVENT_HANDOFF, 0, (uint64_t)pp->id, m->curg->id, 0);
	sched_hand_off(pp, true);
	return true;
}

/* Steps 2 and 3; in a P section. */
static inline void enter_with_p(struct m *m, struct p *pp, struct section *s)
{
	bump(&pp->count.blocks, 1);
	if (unlikely(s->ticks >= LONG_TICKS || s->begun++ % TIMED_EVERY == 0) &&
	    enter_timed(m, pp, s))
		return;
	gmp__setm_blocked(m);
	st_rel(&pp->status,
	       m->blocking.status); /* ORD(p.blocked): after all uses of pp by this M */
}

void gmp_block_enter(void)
{
	struct m *m = getm();

	if (unlikely(!m)) {
		m = gmp__blockedm();
		if (m)
			m->blocks++;
		else
			end_if_abandoned();
		return;
	}
	uint32_t site = site_of(__builtin_return_address(0));

	m->blocks = 1;
	m->blocking.status = blocked_by(m);
	m->blocking.site = site;
	m->blocking.began = 0;
	bool has_p = p_hold_last(m);

	g_set_status(m->curg, G_BLOCKED);
	probe_block(m);
	if (likely(has_p))
		enter_with_p(m, m->p, &m->p->sections[site]);
	else
		gmp__setm_blocked(m); /* BLOCK-6 */
	p_drop(m);
}

/*
 * Measured: LONG.  50 green threads in sections of 50 us, two Ps, two CPUs.  Without LONG, each
 * section ends without a P: sysmon takes the P after 20 us (a wakeup of an M, 14 us for the
 * waker), and the M that comes back queues its G globally and sleeps (40 us until it runs again).
 * With LONG, an M that comes back takes the P of a section that has just begun, by one
 * compare-and-swap, and wakes no thread.
 *
 * Measured: step 6c.  50 green threads send 400 commands each to a server on the same two CPUs.
 * They begin with 50 Gs queued, so each entry hands its P off.  Without 6c, the M that was woken
 * for the P waits for a CPU while the M that comes back finds no P, queues its G and sleeps: two
 * futex calls and a switch for each command, until the queue happens to be empty.  The first 1,000
 * commands take 1.5 times as long as with pthreads; with 6c, 1.2 times.
 *
 * Measured: BLOCK-7.  10 Gs sleep for 20 ms, another one is in sections of 4 ms, two Ps.  Without
 * it 1 of 10 sleeps ends 0.8 to 5 ms late, with it 0.05 ms late.
 *
 * Rejected
 *   A hand-off at each entry to a long section, also if the P has no work: the P becomes idle,
 *   with a membarrier each time. No sched_yield in step 6: the M with the P is often preempted in
 *   the two microseconds between two sections.  Of 20,000 sections 153 to 20,002 then end in step
 *   7; with four calls 74 to 178.
 */

/* Steps 6 and 7: the P was taken, or the G entered without one.  Ends the P section. */
static noinline void leave_slow(struct m *m)
{
	uint32_t site = m->blocking.site;
	uint64_t began = m->blocking.began, ticks = began ? cpu_ticks() - began : TICKS_MOST;
	uint64_t back = cpu_ticks();
	bool overtook, had_p = ld_rlx(&m->taken) != P_TAKEN; /* otherwise it entered without one */

	for (int i = 0; i < BLOCK_YIELDS && !sched_p_is_free() && cpu_ticks() - back < LONG_TICKS;
	     i++)
		os_yield();
	bool has_p = sched_regain_p(m, &overtook);

	probe_unblock(m, has_p);
	if (has_p) {
		g_set_status(m->curg, G_RUNNING);
		p_drop(m);
	} else {
		park_without_p();
	}
	struct p *pp = hold_p(); /* on another M, perhaps */

	if (pp && had_p)
		section_learn(pp, site, ticks);
	drop_p();
	if (overtook)
		park_yield();
}

static noinline void leave_timed(struct m *m)
{
	section_learn(m->p, m->blocking.site, cpu_ticks() - m->blocking.began);
}

void gmp_block_leave(void)
{
	struct m *m = gmp__blockedm();

	if (unlikely(!m || --m->blocks > 0)) {
		variant_checkpoint(); /* of a G that is an OS thread: it leaves if the run ends */
		return;
	}
	uint32_t mine = m->blocking.status;

	p_hold_last(m); /* ends a request of sysmon before the P is RUNNING again */
	gmp__setm_unblocked(m);
	if (unlikely(!cas_acq(&m->p->status, &mine, (uint32_t)P_RUNNING))) { /* ORD(p.blocked) */
		leave_slow(m);
		return;
	}
	if (unlikely(m->blocking.began != 0))
		leave_timed(m);
	g_set_status(m->curg, G_RUNNING);
	probe_unblock(m, true);
	p_drop(m);
	if (unlikely(ld_rlx(&m->p->attention) & ~(uint32_t)ATTENTION_AT_SWITCH)) /* BLOCK-4 */
		park_yield();
}
