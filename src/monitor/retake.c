/* SPDX-License-Identifier: MIT */
/*
 * Retake: takes the P of an M that is in blocking code, and hands it to another M.
 *
 * The P is taken if it is wanted, or after a time slice; the protocol is at the head of
 * wait/blocking.c.  After a P with work was taken, sysmon polls every SHORT_NS for a while.  If a
 * section is seen for the first time, it polls once more after SHORT_NS: otherwise consecutive
 * sections of a millisecond would never be seen twice.
 */
#include "base/emit.h"
#include "base/os.h"
#include "handoff.h"
#include "monitor/monitor.h"
#include "timer/timerheap.h"

/* Polls after SHORT_POLLS whose interval doubles, beyond BUSY_NS. */
enum { DOUBLINGS = 10 };

static struct {
	struct {
		uint64_t blocks;
		int64_t since; /* when the present section was first seen */
	} seen[PROCS_MAX];
	unsigned fast; /* polls until the interval has grown */
	bool fresh;    /* this poll has seen a section for the first time */
	bool again;    /* the next poll is the additional one for a fresh section */
} retake;

/* True if another M should get pp: it has work, or no P is idle and no M spins. */
static bool p_is_wanted(struct p *pp)
{
	return p_has_work(pp) || ld_rlx(&sched.npidle) + ld_rlx(&sched.nmspinning) == 0;
}

/* Step 1 of the taker in blocking.c. */
static bool blocked_for_long(struct p *pp, int i, uint32_t status, int64_t now)
{
	uint64_t blocks = ld_rlx(&pp->count.blocks);
	bool wanted = p_is_wanted(pp);

	if (blocks == retake.seen[i].blocks)
		return wanted ||
		       now - retake.seen[i].since >= min_of(sched.slice, (int64_t)BUSY_NS);
	retake.seen[i].blocks = blocks;
	retake.seen[i].since = os_now(); /* `now` may be out of date */
	/* The section is expected to be long.  An M that needs a P takes this one itself, so it is
	 * wanted only if it has work, or must wait for work: for timers, or for file descriptors
	 * while no M sleeps.  Otherwise sysmon would idle one such P every millisecond, each time
	 * with a membarrier and a wakeup: 50 Gs in sections of 20 us took 10 % longer. */
	if (status & P_LONG)
		return wanted &&
		       (p_has_work(pp) || timers_next(pp) != NEVER || ld_rlx(&sched.nmidle) == 0);
	retake.fresh |= wanted;
	return false;
}

/* A fresh section gets one additional poll and not a second: sections may be shorter than
 * SHORT_NS. */
static int64_t retake_blocked_ps(int64_t now)
{
	int n = ld_acq(&sched.nallp); /* ORD(allp) */
	bool some_long = false;

	if (retake.fast)
		retake.fast--;
	retake.fresh = false;
	for (int i = 0; i < n; i++) {
		struct p *pp = sched.allp[i];
		uint32_t status = ld_rlx(&pp->status);

		if ((status & P_STATUS_MASK) != P_BLOCKED)
			continue;
		some_long |= (status & P_LONG) != 0;
		if (!blocked_for_long(pp, i, status, now) ||
		    !cas_acq(&pp->status, &status, (uint32_t)P_RUNNING)) /* ORD(p.blocked) */
			continue;
		if (p_has_work(pp)) /* otherwise the P becomes idle, and nothing is gained yet */
			retake.fast = SHORT_POLLS + DOUBLINGS;
		add_rlx(&sched.total.handoffs, 1);
		emit(EVENT_HANDOFF, 0, (uint64_t)pp->id, 0, 0);
		sched_hand_off(pp, true);
	}
	retake.again = retake.fresh && !retake.again;
	unsigned longer = DOUBLINGS - min_of(retake.fast, (unsigned)DOUBLINGS);
	int64_t pause = retake.again ? SHORT_NS : (int64_t)SHORT_NS << longer;

	if (some_long)
		pause = min_of(pause, (int64_t)MIXED_NS);
	return pause < BUSY_NS ? now + pause : NEVER;
}

struct monitor monitor_retake = { retake_blocked_ps, &retake, sizeof(retake) };
