/* SPDX-License-Identifier: MIT */
/*
 * Which timers are due?
 *
 * Each P has a heap of its own, 4-ary, with the times beside the pointers, so that arming and
 * disarming are a short section under a lock that is hardly ever contended.  A heap belongs to its
 * P, but anybody may arm, disarm, or run what is due in it: an idle P steals timers as it steals
 * green threads.
 *
 * Invariants
 *  T1 t->pp is the P whose heap holds t, NULL when none does; it changes under that P's timers.lock.
 *  T2 timers.next is the `when` of the root, NEVER without one.
 *  T3 fire runs with the heap's lock held.  So when timer_del has returned, fire of that arming
 *     has either not begun and never will, or has returned.
 *  T4 Address space for every timer that can exist is set aside in every heap: arming cannot fail.
 *  T5 Where nobody runs, timers that lie within TIMER_SLACK ns of the earliest are waited for with it: the
 *     kernel is asked to wake a thread once for all of them.  One that has no other near it is not
 *     late.  Who arms a timer by so much earlier than a sleeper means to get up lets him sleep.
 *
 * Rejected: one wheel for all (a lock for all, and cascades that wake an idle process); lazy
 * deletion (a wait that is answered in time is the rule, and would leave its timer behind).
 */
#ifndef GMP_TIMERHEAP_H
#define GMP_TIMERHEAP_H

#include "types.h"

enum { TIMER_SLACK = 50000 };

int timers_init(struct timers *ts, uint32_t limit);
void timers_fini(struct timers *ts, uint32_t limit);

/* Arm a timer that is not armed, in pp's heap.  True if it is now the earliest there. */
bool timer_add(struct p *pp, struct timer *t, int64_t when);
/* The same in the caller's P's heap (a external thread: some P's), and whoever sleeps until a later
 * timer looks up. */
void timer_arm(struct timer *t, int64_t when);
/* To another time in one step, for one that is armed in the heap of the caller's P.  timer_hold says
 * whether it is; then it cannot fire, for that heap is locked until timer_rearm. */
bool timer_hold(struct timer *t);
void timer_rearm(struct timer *t, int64_t when);
/* Disarm; false if it was not armed (has fired, or never was). */
bool timer_del(struct timer *t);
static inline bool timer_armed(struct timer *t)
{
	return ld_acq(&t->pp) != NULL; /* ORD(timer.pp): fire's effects before NULL */
}

/* Fire what is due in pp's heap, earliest first, until `most` Gs are in out or nothing is due; a timer that
 * makes several Gs ready may exceed `most`.  The Gs that became ready are appended to out, each
 * with its deadline in ready_at.  Returns how many timers fired. */
unsigned timers_run_some(struct p *pp, int64_t now, unsigned most, struct glist *out);
/* The same without a limit. */
unsigned timers_run(struct p *pp, int64_t now, struct glist *out);
/* The earliest `when` of pp's heap. */
static inline int64_t timers_next(struct p *pp)
{
	return ld_rlx(&pp->timers.next);
}

/* 0: `to` is no later.  Times of the past may be negative, and NEVER is the largest. */
static inline uint64_t time_between(int64_t from, int64_t to)
{
	return to > from ? (uint64_t)to - (uint64_t)from : 0;
}

/* T5: how late a timer may be so that those near it fire with it. */
static inline int64_t timer_slack(void)
{
	return ld_rlx(&sched.virtual_now) ? 0 : TIMER_SLACK;
}
/* Would who sleeps until `until` be too late for a timer at `when`? */
static inline bool timer_is_missed(int64_t when, int64_t until)
{
	return time_between(when, until) > (uint64_t)timer_slack();
}
/* Somebody sleeps until pp's earliest timer, which is due at `first`: what he may wait for with it,
 * the latest within the slack that can be seen at a glance. */
int64_t timers_wake_with(struct p *pp, int64_t first);

/* How many are armed in pp's heap; and the same at a glance, exact while nobody arms, disarms or
 * fires. */
uint32_t timers_count(struct p *pp);
static inline uint32_t timers_count_unlocked(struct p *pp)
{
	return ld_rlx(&pp->timers.n);
}

/* All timers of a P that goes to another. */
void timers_move(struct p *from, struct p *to);

/* --- those of the program: gmp_timer and ticks --- */

/* T4: not more of them than green threads.  False: one more has no place. */
bool timer_take_place(void);
void timer_give_place(void);
/* The runtime is there (rt_enter), and its run is the one that the timer was made in, `*run`: read when it
 * is compared, so that no register is kept for it on the way. */
static inline bool timer_enter(const uint32_t *run)
{
	if (!rt_enter())
		return false;
	if (*run == sched.run)
		return true;
	rt_leave();
	return false;
}
/* The same for who disarms it for good: false only when its run's heaps are gone. */
bool timer_enter_to_free(uint32_t run);

/* The earliest timer of all Ps; NEVER: none is armed.  Unlocked reads. */
int64_t timers_earliest(void);

#endif
