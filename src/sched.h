/* SPDX-License-Identifier: MIT */
/*
 * Work-stealing scheduler: chooses the next G for a P and switches to it.
 *
 * This head tells the whole story of scheduling.  The heads of the files that it names hold their
 * own invariants and protocols.
 *
 * 1. Choose (sched.c, pick.h).  A G that parks, yields or ends leaves its stack for g0, where
 *    schedule_g0 takes the next G from the first source that has one:
 *      fast path   at each check (PICK-3) the poller and Gs of the global queue; Gs of due timers,
 *                  runnext, the lanes of events and of new Gs, the lane of Gs that have yielded,
 *                  which has a part of the time (PICK-4, PICK-5; base/policy.def)
 *      slow path   (find_runnable_g0) a share of the global queue, the poller, due timers of other
 *                  Ps, half of another P's ring; at last the runnext of a P that has not switched
 *                  since the search began
 *    execute_g0 then jumps into the G.  Rare work of a P comes first (attend_g0, p.attention); rare
 *    work of a G comes before its jump (resume_slow_g0, g.resume).
 * 2. Sources (source.h).  Timers and the poller return lists of runnable Gs.  source.c decides how
 *    often to ask them, and how much of a P's time Gs of timers may take.
 * 3. Ready and wake (ready.h).  A G that becomes runnable goes to runnext, to a lane of its P or
 *    to the global queue.  If a P is idle and no M spins, an M is woken.  A G that yields goes to
 *    the yield lane (runq.h).
 * 4. Idle (idle.h).  If every source is empty, the M spins for a while, then releases its P and
 *    stops: one M sleeps in the poller, the others on their futex.  The wakeup protocol guarantees
 *    that no runnable G is left behind (IDLE-1).
 * 5. Hand-off (handoff.h).  An M whose G is in blocking code, or is bound and stops, gives its P to
 *    another M.  An M that returns from blocking code looks for a P.  Preemption (policy/take.h):
 *    sysmon takes the P of an M whose G computes for a time slice or sleeps in the kernel.
 * 6. Pin (policy/pin.h).  A G that is bound or pinned is forwarded to its own M.
 * 7. Park (park.h).  One wait protocol for all objects: commit on g0, claim by one waker, ready.
 *
 * Ps are in proc.h, Ms in m.h, queues in runq.h, variants in variant.h, observers in probe.h.
 *
 * Where does a change go?  ARCHITECTURE.md has the files.  Within them:
 *   work at the next switch to a G     a RESUME_* bit (g_state.h), resume_slow_g0
 *   work at the next step of a P       an ATTENTION_* bit (proc_state.h), attend_g0
 *   work at the end of a G             an AT_END_* bit (g_state.h), g.c:run_exit_hooks
 *   a new source of runnable Gs        a function that returns a struct glist; calls in source.c,
 *                                      and a count in policy/stall.c
 *
 * A function whose name ends in _g0 runs on g0 and does not return: it ends in a jump into a G, or
 * out of the scheduler.
 *
 * Invariant
 *   SCHED-1  The depth of g0 does not grow with the number of searches: a path that searches again
 *            without a switch to a G restarts g0 at its base (restart_search_g0,
 *            schedule_restart_g0). `return f()` does not ensure that: compilers make it a call at
 *            -O0 and -O1, and at any level if a local's address is passed on.
 */
#ifndef GMP_SCHED_H
#define GMP_SCHED_H

#include "types.h"

/* Run the calling OS thread as m until the runtime stops. */
void mstart(struct m *m);

/* Find a G and switch to it.  m has a P and no G; it does not spin. */
int schedule_g0(struct m *m);

/* Leave steps (variant/leave.h): the final scheduler step of an exiting G; the G of m runs without
 * a P and must not continue: it is enqueued, and m waits for a P. */
int sched_exit_g0(void *m);
int sched_without_p_g0(void *m);
/* The G of m, which has no P, waits: let the M wait for a P. */
int sched_waits_without_p_g0(struct m *m);
/* End the calling G, on its stack: exit hooks, then sched.leave.exit on g0. */
void sched_exit(void) __attribute__((noreturn));

/* Save the C++ exception state of gp, which leaves its stack, from the thread of m to that
 * stack. */
static inline void sched_leave_cxx(struct m *m, struct g *gp)
{
	if (unlikely(m->cxx && cxx_any(m->cxx))) {
		cxx_move(g_cxx(gp), m->cxx);
		gp->resume |= RESUME_CXX;
	}
}

/* Make the G that runs on pp yield at its next checkpoint. */
void sched_ask_yield(struct p *pp);

/* SCHED-1, for debug checks, on the M's g0.  Returns true if less than 4 KiB of g0 is in use at the
 * caller's frame. */
static inline bool is_near_base(struct m *m)
{
	return (uintptr_t)m->g0 - (uintptr_t)__builtin_frame_address(0) < 4096;
}

#endif
