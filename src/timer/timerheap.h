/* SPDX-License-Identifier: MIT */
/*
 * Timer heaps: a 4-ary heap of timers per P, with the times beside the pointers.
 *
 * Arming and disarming are a short critical section under a lock that has little contention.  Every
 * thread may arm, disarm or run timers of every heap: an idle P steals timers as it steals Gs.
 *
 * Invariants
 *   TIMER-1  t->pp is the P whose heap holds t; NULL: t is not armed.  It changes under timers.lock
 *            of that P.
 *   TIMER-2  timers.next is the `when` of the root; NEVER: the heap is empty.
 *   TIMER-3  fire runs with the heap's lock held.  So when timer_del has returned, fire of that
 *            arming has either returned or will never begin.
 *   TIMER-4  Every heap has room for every timer that can exist, so arming cannot fail: a timer of
 *            each G, those of fds, and those of the program.  If the program makes more timers
 *            than there are places for, all heaps grow first (timer_take_place).
 *   TIMER-5  Coalescing: while no P runs, the M in the poller sleeps until the latest timer that is
 *            due within TIMER_SLACK_NS of the earliest, so one wakeup of the thread serves all of
 *            these.  A timer without others near it is not late.  Arming a timer wakes that M only
 *            if the timer is earlier than the end of its sleep by more than the slack.
 *
 * Rejected
 *   One timer wheel for all Ps: a contended lock, and cascades that wake an idle process.
 *   Lazy deletion: most waits end before their deadline, and each would leave its timer behind.
 */
#ifndef GMP_TIMERHEAP_H
#define GMP_TIMERHEAP_H

#include "enter.h"
#include "types.h"
#include "variant/variant.h"

/* Reserve a heap for `limit` timers of Gs and fds, and for those of the program.  Returns 0 or
 * -ENOMEM. */
int timers_init(struct timers *ts, uint32_t limit);
void timers_fini(struct timers *ts);
/* Before the first heap of a run: how many places for timers of the program there are at first. */
void timers_set_places(uint32_t n);
void timers_forget(void); /* the child of a fork */

/* Arm a timer that is not armed, in pp's heap.  Returns true if it is the earliest there now. */
bool timer_add(struct p *pp, struct timer *t, int64_t when);
/* The same in the heap of the caller's P (external thread: of P 0); wakes the M in the poller if
 * that sleeps until a later timer. */
void timer_arm(struct timer *t, int64_t when);
/*
 * Change the time of a timer that is armed in the heap of the caller's P, in one step.  timer_hold
 * returns true if it is; then that heap is locked, so t cannot fire, until timer_rearm, which the
 * caller must call.
 */
bool timer_hold(struct timer *t);
void timer_rearm(struct timer *t, int64_t when);
/* Disarm.  Returns false if t was not armed: it has fired, or never was. */
bool timer_del(struct timer *t);
static inline bool timer_armed(struct timer *t)
{
	return ld_acq(&t->pp) != NULL; /* ORD(timer.pp): the effects of fire before NULL */
}

/* Fire the due timers of pp's heap, earliest first, until out has `most` Gs; a timer that makes
 * several Gs runnable may exceed that.  Runnable Gs are appended to out, with their deadline in
 * ready_at.  Returns how many timers fired. */
unsigned timers_run_some(struct p *pp, int64_t now, unsigned most, struct glist *out);
/* The same without a limit. */
unsigned timers_run(struct p *pp, int64_t now, struct glist *out);
/* The earliest `when` of pp's heap; NEVER: none.  Unlocked read. */
static inline int64_t timers_next(struct p *pp)
{
	return ld_rlx(&pp->timers.next);
}

/* ns from `from` to `to`; 0 if `to` is not later.  Past times may be negative; NEVER is the
 * largest. */
static inline uint64_t time_between(int64_t from, int64_t to)
{
	return to > from ? (uint64_t)to - (uint64_t)from : 0;
}

/* TIMER-5: how many ns late a timer may fire together with later ones. */
static inline int64_t timer_slack(void)
{
	return variant_time_is_virtual() ? 0 : TIMER_SLACK_NS;
}
/* Is a thread that sleeps until `until` too late for a timer at `when`? */
static inline bool timer_is_missed(int64_t when, int64_t until)
{
	return time_between(when, until) > (uint64_t)timer_slack();
}
/* The latest time within the slack of `first`, the time of pp's earliest timer, among the timers
 * near the root: until then a thread may sleep without missing a timer. */
int64_t timers_wake_with(struct p *pp, int64_t first);

/* How many timers are armed in pp's heap; and the same by an unlocked read, exact while no thread
 * arms, disarms or fires one. */
uint32_t timers_count(struct p *pp);
static inline uint32_t timers_count_unlocked(struct p *pp)
{
	return ld_rlx(&pp->timers.n);
}

/* Move all timers of a P that is retired to another P; wakes the M in the poller if that would miss
 * them. */
void timers_move(struct p *from, struct p *to);

/* --- timers of the program: gmp_timer and tickers --- */

/* TIMER-4: reserve room for a timer of the program; may grow all heaps.  Returns false without
 * memory. */
bool timer_take_place(void);
void timer_give_place(void);
/* rt_enter for a timer that was made in run *run.  Returns false if that run has ended.  By
 * pointer, so that no register is kept across rt_enter. */
static inline bool timer_enter(const uint32_t *run)
{
	if (!rt_enter())
		return false;
	if (*run == sched.run)
		return true;
	rt_leave();
	return false;
}
/* The same to free the timer: waits while its run ends, and returns false only when the heaps are
 * gone. */
bool timer_enter_to_free(uint32_t run);

/* The time of the earliest timer of all Ps; NEVER: none is armed.  Unlocked reads. */
int64_t timers_earliest(void);

#endif
