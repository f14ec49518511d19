/* SPDX-License-Identifier: MIT */
/*
 * How does a green thread sleep in the kernel without keeping its P from the others?
 *
 * Around blocking code the M lets go of its P without giving it to anybody.  A short section costs
 * next to nothing: the P is there when the M comes back.  From a long one the watcher takes it.
 *
 *  the M                                          the watcher (sysmon.c)
 *   1 enter: the thread is no M for the time         1 the P has been BLOCKED by the same section
 *     being (getm() is NULL): calls behave as on       since the last look, and it is wanted, or
 *     a foreign thread, and none touches the P         10 ms have gone
 *   2 status: RUNNING -> BLOCKED, with the M's       2 status: BLOCKED, as it was seen, -> RUNNING
 *     number                      ORD(p.blocked)       by compare-and-swap          ORD(p.blocked)
 *   3 the blocking code runs                         3 if that won: the P belongs to the watcher,
 *   4 leave: BLOCKED with the same number ->           which hands it to another M
 *     RUNNING by compare-and-swap: if that wins,       (handoff.c:sched_hand_off)
 *     go on as if nothing had been
 *   5 else under sched.lock: the same P if it is
 *     idle, or another idle one
 *   6 else, on g0: the G into the global queue,
 *     the M to the sleepers
 *
 * Invariants
 *  I1 Between steps 2 and 4 nothing in this thread touches the P: whoever wins the compare-and-swap
 *     owns it from there on.
 *  I2 Only M number n writes BLOCKED with n.  So the number tells an M whether the P has been taken
 *     since, whatever has become of the P meanwhile.
 *  I3 A G whose P was taken counts in sched.nblocked, from the section of sched.lock in which the P
 *     goes on to the one in which the G has a P or stands in the global queue: a program with
 *     somebody in blocking code is never taken for deadlocked.  model/block.pml follows all schedules.
 *  I4 Leaving is a checkpoint: one who goes from one short section to the next keeps the P no longer
 *     than one who computes.
 */
#include "base/throw.h"
#include "handoff.h"
#include "park.h"
#include "runtime.h"

static uint32_t blocked_by(const struct m *m)
{
	return P_BLOCKED | (uint32_t)m->id << P_BLOCKED_M;
}

void gmp_block_enter(void)
{
	struct m *m = getm();

	if (unlikely(!m)) {
		m = gmp__blockedm();
		if (m)
			m->blocks++;
		return;
	}
	struct p *pp = m->p;

	m->blocks = 1;
	g_set_status(m->curg, G_BLOCKED);
	bump(&pp->count.blocks, 1);
	gmp__setm_blocked(m);
	st_rel(&pp->status, blocked_by(m)); /* ORD(p.blocked): all that this M did with it */
}

static noinline void leave_slow(struct m *m)
{
	if (!sched_regain_p(m))
		park_without_p();
	else
		g_set_status(m->curg, G_RUNNING);
}

void gmp_block_leave(void)
{
	struct m *m = gmp__blockedm();

	if (unlikely(!m || --m->blocks > 0))
		return;
	uint32_t mine = blocked_by(m);

	gmp__setm_unblocked(m);
	if (unlikely(!cas_acq(&m->p->status, &mine, (uint32_t)P_RUNNING))) { /* ORD(p.blocked) */
		leave_slow(m);
		return;
	}
	g_set_status(m->curg, G_RUNNING);
	if (unlikely(ld_rlx(&m->p->attention))) /* I4 */
		park_yield();
}
