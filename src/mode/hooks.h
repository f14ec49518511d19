/* SPDX-License-Identifier: MIT */
/*
 * Mode hooks: every place where an optional mode changes what the scheduler does.
 *
 *   mode                               set by             hooks
 *   scheduler generations              gmp_config.sched   mode_p_init, mode_has_runnext,
 *     (FIFO ring, global queue only)                      mode_takes_next, mode_has_one_lane,
 *                                                         mode_has_second_ring
 *   own thread-locals                  GMP_OWN_TLS        owntls_spawn, mode_begins_here,
 *     (mode/owntls.h)                                     mode_enter, mode_only_enters; the steps
 *                                                         of mode/leave.h; AT_END_OWN_TLS
 *   observed Gs (debug/check.h), C++   GMP_DEBUG=check    the steps of mode/leave.h
 *   Gs as OS threads (mode/thread.h)   GMP_SCHED_THREAD   mode_begins_here; thread_m,
 *                                                         thread_arm and thread_resume in
 *                                                         park.c:park_external
 *   virtual time (mode/vtime.h)        GMP_VIRTUAL_TIME   mode_time_is_virtual; vtime_sleep and
 *                                                         vtime_slept in idle.c:sleep_in_poller;
 *                                                         vtime_real in park.c:park_external
 *   replay: virtual time with one P    GMP_VIRTUAL_TIME   mode_ignores_clock, mode_ticks
 *   chaos (mode/chaos.h)               GMP_DEBUG=chaos    mode_p_init sets ATTENTION_CHAOS, so that
 *                                                         sched.c:attend_g0 calls chaos_step;
 *                                                         mode_delays_wakeup, mode_shortens_io;
 *                                                         chaos_point in calls that may wait
 *
 * Cost while a mode is off: a hook on a hot path reads a field of the P that the path reads anyway;
 * the others are on slow paths.
 */
#ifndef GMP_HOOKS_H
#define GMP_HOOKS_H

#include "mode/chaos.h"
#include "mode/owntls.h"
#include "types.h"

/* proc.c:p_new.  Choose the queues of a new P, and whether each of its steps takes the slow
 * path. */
static inline void mode_p_init(struct p *pp)
{
	pp->in_order = sched.options.c.sched > GMP_SCHED_RUNNEXT;
	pp->room = sched.options.c.sched == GMP_SCHED_GLOBAL ? 0 : RUNQ_SIZE;
	pp->yield_room = pp->in_order ? 0 : RUNQ_SIZE;
	st_rlx(&pp->attention, chaos_on() ? (uint32_t)ATTENTION_CHAOS : 0u);
}

/* ready.c, source.c.  False: Gs run in FIFO order. */
static inline bool mode_has_runnext(const struct p *pp)
{
	return !pp->in_order;
}

/* ready.c:sched_submit.  next && mode_has_runnext(pp), by one comparison on the hot path. */
static inline bool mode_takes_next(const struct p *pp, bool next)
{
	return next > pp->in_order;
}

/* runq.c:lane_of.  True: the global queue is one FIFO queue. */
static inline bool mode_has_one_lane(void)
{
	return sched.options.c.sched == GMP_SCHED_GLOBAL;
}

/* runq.c:gq_put_yielded.  False: Gs that have yielded run in FIFO order with the others. */
static inline bool mode_has_second_ring(void)
{
	return sched.options.c.sched <= GMP_SCHED_RUNNEXT;
}

/* sched.c:begin_g0.  gp, which has not run, gets what it needs beside a stack.  False: it runs on
 * an OS thread of its own, or tries again later. */
static inline bool mode_begins_here(struct p *pp, struct g *gp)
{
	if (likely(!sched.begins_otherwise))
		return true;
	return !sched.threads && (gp->resume & RESUME_OWN_TLS || owntls_supply(pp, gp));
}

/* sched.c:begin_g0, resume_g0.  On g0 of m, last before the jump to gp; first: to its start.  The
 * opposite direction is mode/leave.h. */
static inline void mode_enter(struct m *m, struct g *gp, bool first)
{
	if (!(gp->resume & RESUME_OWN_TLS))
		return;
	if (first)
		owntls_begin(m, gp);
	else
		owntls_load(m, gp);
}

/* sched.c:resume_slow_g0.  True: mode_enter is all that gp->resume asks for. */
static inline bool mode_only_enters(const struct g *gp)
{
	return gp->resume == RESUME_OWN_TLS;
}

/* source.c, idle.c, timerheap.h.  True: the clock does not move while a G can run, so it is
 * exact. */
static inline bool mode_time_is_virtual(void)
{
	return ld_rlx(&sched.virtual_now) != 0;
}

/* pick.h:pick_slice_continues.  True: no decision may depend on the machine's speed. */
static inline bool mode_ignores_clock(void)
{
	return rt_replays();
}

/* source.c: SOURCE-1; pick.c: PICK-3 and PICK-4.  cpu_ticks; in a replayed run a switch counts as
 * 10 us. */
static inline uint64_t mode_ticks(struct p *pp)
{
	return mode_ignores_clock() ? ld_rlx(&pp->count.switches) * TICKS_10US : cpu_ticks();
}

/* m.c:m_wake.  Chaos: an M is sometimes woken late. */
static inline void mode_delays_wakeup(void)
{
	if (chaos_on())
		chaos_delay();
}

/* netpoll/register.c.  Chaos: reads and writes of a TCP connection are shorter than asked for. */
static inline bool mode_shortens_io(void)
{
	return chaos_on();
}

#endif
