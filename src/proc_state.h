/* SPDX-License-Identifier: MIT */
/* P state: the status word of a P, and the bits that ask for its attention (proc.h). */
#ifndef GMP_PROC_STATE_H
#define GMP_PROC_STATE_H

#include "base/base.h"

enum { PROCS_MAX = 1024 };

/*
 * Status word of a P.
 *
 *   bits 0..1   enum p_status
 *   bit  2      P_LONG, with P_BLOCKED only: the section is expected to be long, so any M that
 *               needs a P takes this one at once (blocking.c, BLOCK-5).  A hint: it may be wrong
 *               either way.
 *   bits 3..31  with P_BLOCKED only: the number of the M in blocking code.  An M therefore never
 *               mistakes a section of another M in the same P for its own.
 *
 *   state    meaning                                    entered from    by
 *   IDLE     on sched.pidle, no M, empty queues         RUNNING         its M: pidle_put       (l)
 *                                                       RETIRED         p_revive               (l)
 *   RUNNING  an M runs it, or is about to: between a    IDLE            pidle_get, sched_regain_p,
 *            hand-off and acquirep it has no M                          acquirep               (l)
 *                                                       BLOCKED         its M or a taker, by
 *                                                                       compare-and-swap
 *   RETIRED  beyond procs: no M, empty queues           IDLE            p_dismiss              (l)
 *                                                       RUNNING         p_retire, p_idle_locked (l)
 *   BLOCKED  its M is in blocking code                  RUNNING         its M: gmp_block_enter
 *
 * Staleness: an unlocked read may be outdated in every direction.  Under sched.lock only the change
 * between RUNNING and BLOCKED can happen meanwhile, so a taker decides by the compare-and-swap.
 */
enum p_status { P_IDLE = 0, P_RUNNING = 1, P_RETIRED = 2, P_BLOCKED = 3 };
enum { P_STATUS_MASK = 3, P_LONG = 1 << 2, P_BLOCKED_M_SHIFT = 3 };

_Static_assert(P_BLOCKED == (int)P_STATUS_MASK, "the states fill the mask");
_Static_assert((P_LONG & P_STATUS_MASK) == 0 && P_LONG < 1 << P_BLOCKED_M_SHIFT,
	       "P_LONG lies between the state and the number of the M");

/*
 * p.attention: why the M of a P leaves the fast path of schedule_g0 (attend_g0) at its next step.
 * A bit that is set although the cause is gone costs one slow step; a bit that is missing would
 * delay its cause without bound.  Set by other threads with an atomic or; cleared by the owner, and
 * RETIRE also under sched.lock.
 */
enum {
	/* The runtime stops.  Set by sched_stop; never cleared. */
	ATTENTION_STOP = 1 << 0,
	/* The P is beyond procs: retire it (p_retire).  Set by p_dismiss, also cleared by
	 * p_revive. */
	ATTENTION_RETIRE = 1 << 1,
	/* Thieves may come: call p_open.  Set by p_share. */
	ATTENTION_SHARE = 1 << 2,
	/* The running G yields at its next checkpoint, except for PREEMPT-6, where the checkpoint
	 * clears the bit.  Set by sched_ask_yield. */
	ATTENTION_YIELD = 1 << 3,
	/* GMP_DEBUG=chaos: each step takes the slow path (variant/chaos.c).  Constant. */
	ATTENTION_CHAOS = 1 << 4,
	/* Gs that are pinned to the P's M may be in m->pinned.  Set by pin_send and p_bind, cleared
	 * by pin_take.  May be set although the list is empty, or the P has another M. */
	ATTENTION_PINNED = 1 << 5,
	/* PICK-3 at the next switch: the P has switched only a few times for a while, or a G in the
	 * global queue must not wait longer.  Set by sched_ask_check. */
	ATTENTION_CHECK = 1 << 6,
	/* A quantum of the yield lane is due: PICK-4.  Set and cleared by pick.c. */
	ATTENTION_YIELDED = 1 << 7,
	/* Work of the next switch: no checkpoint yields for it.  A yield would move a G of an event
	 * behind all Gs that have yielded, for a bit that its wakeup may have set itself; and a G
	 * that computes would wait for all of them at each event. */
	ATTENTION_AT_SWITCH = ATTENTION_CHECK | ATTENTION_YIELDED,
};

#endif
