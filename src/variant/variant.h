/* SPDX-License-Identifier: MIT */
/*
 * Variant hooks: where a variant of the runtime changes what the scheduler does.  A file of the
 * core also reads the fields in_order, room and yield_room that variant_p_init sets, chaos_on and
 * rt_replays.  A scheduler generation is a line of variant/generation.c; check-floors counts what
 * else names one.
 *
 *   variant                            set by             hooks
 *   scheduler generations              gmp_config.sched   variant_p_init, variant_has_runnext,
 *     (FIFO ring, global queue only)                      variant_takes_next,
 *                                                         variant_lane, variant_has_one_lane,
 *                                                         variant_has_yield_lane
 *   own thread-locals                  GMP_OWN_TLS        owntls_spawn, variant_begins_here,
 *     (variant/owntls.h)                                  variant_enter, variant_only_enters;
 *                                                         the steps of variant/leave.h;
 *                                                         AT_END_OWN_TLS; owntls_flush,
 *                                                         owntls_end, owntls_unload
 *   observed Gs (check/check.h), C++   GMP_DEBUG=check;   the steps of variant/leave.h;
 *                                      a C++ runtime      RESUME_OBSERVED and RESUME_CXX in
 *                                                         sched.c
 *   Gs as OS threads                   GMP_SCHED_THREAD   variant_begins_here; self_m_slow; the
 *     (variant/thread.h)                                  hooks below up to variant_exit
 *   virtual time                       GMP_VIRTUAL_TIME   variant_time_is_virtual; vtime_sleep
 *     (variant/vtime.h)                                   and vtime_slept in
 *                                                         idle.c:sleep_in_poller; vtime_real in
 *                                                         park.c:park_external
 *   replay: virtual time with one P    GMP_VIRTUAL_TIME   variant_ignores_clock, variant_ticks
 *   chaos                              GMP_DEBUG=chaos    variant_p_init sets ATTENTION_CHAOS, so
 *     (variant/chaos.h)                                   that sched.c:attend_g0 calls
 *                                                         chaos_step; variant_delays_wakeup,
 *                                                         variant_shortens_io; chaos_point in
 *                                                         calls that may wait
 *
 * Cost while a variant is off: a hook on a hot path reads a field of the P that the path reads
 * anyway; the others are on slow paths.
 */
#ifndef GMP_VARIANT_H
#define GMP_VARIANT_H

#include "types.h"
#include "variant/chaos.h"
#include "variant/owntls.h"

/* --- Gs as OS threads (variant/thread.h) --- */

/* False: Gs run as OS threads, and the kernel switches. */
static inline bool variant_gs_switch(void)
{
	return likely(!sched.variant.threads);
}

/* sched.c:begin_elsewhere_g0, spawn.c.  Start an OS thread for gp, which is runnable.  Returns 0;
 * -EAGAIN if Gs do not run as OS threads, or no more can be started; -ESRCH if the run ends. */
int variant_start(struct g *gp);

/* faultsig.c:set_m_mask.  Does m run Gs?  With OS threads as Gs the M for the poller and timers
 * runs none. */
static inline bool variant_runs_gs(const struct m *m)
{
	return !sched.variant.threads || m->as_thread.alone;
}

/* m.c:m_start.  The size of the stack of m's OS thread. */
static inline size_t variant_m_stack(const struct m *m, size_t usual)
{
	return m->as_thread.alone ? (size_t)1 << m->curg->stack_class : usual;
}

/* park.c:park_external.  Steps 1 to 3, and steps 5 and 6, of a wait of the calling G, whose M is
 * m. */
void variant_arm(struct m *m, struct waiter *w, unsigned why);
int variant_resume(struct m *m, struct waiter *w, unwait_fn unwait, int result);

/* For an unwait_fn: true if the waiter is killed at shutdown, so that its wait will not return.  A
 * G is, if no M is left (the caller is none); an OS thread, if its G is killed. */
bool thread_killed(void);
static inline bool waiter_killed(const struct waiter *w)
{
	return w->gp ? !getm() : thread_killed();
}

/* spawn.c:cancel_g.  End gp's present wait, as gp is cancelled.  False: the scheduler must. */
void variant_cancel_wait(struct g *gp);
static inline bool variant_cancels(struct g *gp)
{
	if (variant_gs_switch())
		return false;
	variant_cancel_wait(gp);
	return true;
}

/* Calls without an M: the calling G leaves if the run ends.  No effect on external threads. */
void variant_checkpoint(void);

/* spawn.c:gmp_exit.  End the calling G, whose M is m. */
void variant_exit(struct m *m) __attribute__((noreturn));

/* --- abandoned threads (variant/abandon.h) --- */

/* The call or the return after which an abandoned OS thread ends. */
_Noreturn void gmp__abandoned_end(void);
/* On an OS thread that is no M: it ends here if it was abandoned. */
void end_if_abandoned(void);

/* --- time, chaos, own thread-locals --- */

/* idle.c:sleep_in_poller, before the M sleeps until `until`, of virtual time.  Returns the ns of
 * real time to sleep; 0 if the clock has jumped, NEVER without a limit. */
int64_t vtime_sleep(int64_t until);
/* After that sleep: advances the clock.  ns: result of vtime_sleep; began: os_now() before it. */
void vtime_slept(int64_t ns, int64_t began);
/* A deadline of an external thread, which sleeps in the kernel, by the clock of the machine. */
int64_t vtime_real(int64_t deadline);

/* sched.c:attend_g0, with ATTENTION_CHAOS. */
void chaos_step(struct p *pp);

/* spawn.c.  gp, which is not runnable yet, gets a block, except in a run of Gs as OS threads.  Any
 * thread, not on g0.  Returns as owntls_enable. */
int owntls_spawn(struct g *gp);

/* What a scheduler generation (gmp_config.sched) changes. */
struct generation {
	uint32_t ring; /* Gs in a ring of a P; 0: only the global queue is used */
	bool in_order; /* FIFO order: no runnext, and only the event lane */
	bool one_lane; /* the global queue is one FIFO queue */
	bool threads;  /* Gs run as OS threads: variant/thread.h */
};

/* By enum gmp_sched. */
extern const struct generation generations[GMP_SCHED_THREAD + 1];

static inline const struct generation *sched_generation(void)
{
	return &generations[sched.options.c.sched];
}

/* run/run.c.  Why these options cannot be combined; NULL: they can. */
const char *variant_refuses(const struct options *options);
/* run/run.c: the options of a new run are set. */
void variant_begin(void);
/* run/run.c: Gs may have thread-locals of their own from their first run on. */
static inline bool variant_owns_tls(void)
{
	return sched.variant.begins_otherwise && variant_gs_switch();
}

/* proc.c:p_new.  Choose the queues of a new P, and whether each of its steps takes the slow
 * path. */
static inline void variant_p_init(struct p *pp)
{
	pp->in_order = sched_generation()->in_order;
	pp->room = sched_generation()->ring;
	pp->yield_room = pp->in_order ? 0 : RUNQ_SIZE;
	st_rlx(&pp->attention, chaos_on() ? (uint32_t)ATTENTION_CHAOS : 0u);
}

/* ready.c, source.c.  False: Gs run in FIFO order. */
static inline bool variant_has_runnext(const struct p *pp)
{
	return !pp->in_order;
}

/* ready.c:sched_submit_here.  next && variant_has_runnext(pp), by one comparison. */
static inline bool variant_takes_next(const struct p *pp, bool next)
{
	return next > pp->in_order;
}

/* runq.h:runq_put.  The lane of pp for gp, which has not yielded: LANE_NEW, if it has not run. */
static inline enum lane variant_lane(const struct p *pp, const struct g *gp)
{
	return !ld_rlx(&gp->stack) > pp->in_order ? LANE_NEW : LANE_EVENT;
}

/* runq.c:lane_of.  True: the global queue is one FIFO queue. */
static inline bool variant_has_one_lane(void)
{
	return sched_generation()->one_lane;
}

/* runq.c:gq_put_yielded.  False: Gs that have yielded run in FIFO order with the others. */
static inline bool variant_has_yield_lane(void)
{
	return !sched_generation()->in_order;
}

/* sched.c:begin_g0.  gp, which has not run, gets what it needs beside a stack.  False: it runs on
 * an OS thread of its own, or tries again later. */
static inline bool variant_begins_here(struct p *pp, struct g *gp)
{
	if (likely(!sched.variant.begins_otherwise))
		return true;
	return variant_gs_switch() && (gp->resume & RESUME_OWN_TLS || owntls_supply_late(pp, gp));
}

/* sched.c:begin_g0, resume_g0.  On g0 of m, last before the jump to gp; first: to its start.  The
 * opposite direction is variant/leave.h. */
static inline void variant_enter(struct m *m, struct g *gp, bool first)
{
	if (!(gp->resume & RESUME_OWN_TLS))
		return;
	if (first)
		owntls_begin(m, gp);
	else
		owntls_load(m, gp);
}

/* sched.c:resume_slow_g0.  True: variant_enter is all that gp->resume asks for. */
static inline bool variant_only_enters(const struct g *gp)
{
	return gp->resume == RESUME_OWN_TLS;
}

/* idle.c, timerheap.h; source.c:read_clock reads the word.  True: the clock does not move while a G
 * can run, so it is exact. */
static inline bool variant_time_is_virtual(void)
{
	return ld_rlx(&sched.virtual_now) != 0;
}

/* pick.h:pick_slice_continues.  True: no decision may depend on the machine's speed. */
static inline bool variant_ignores_clock(void)
{
	return rt_replays();
}

/* source.c: SOURCE-1; pick.c: PICK-3 and PICK-4.  cpu_ticks; in a replayed run a switch counts as
 * 10 us. */
static inline uint64_t variant_ticks(struct p *pp)
{
	return variant_ignores_clock() ? ld_rlx(&pp->count.switches) * TICKS_10US : cpu_ticks();
}

/* m.c:m_wake.  Chaos: an M is sometimes woken late. */
static inline void variant_delays_wakeup(void)
{
	if (chaos_on())
		chaos_delay();
}

/* netpoll/register.c.  Chaos: reads and writes of a TCP connection are shorter than asked for. */
static inline bool variant_shortens_io(void)
{
	return chaos_on();
}

#endif
