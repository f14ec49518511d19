/* SPDX-License-Identifier: MIT */
/* Stall detection; see stall.h. */
#include "stall.h"

#include "netpoll.h"
#include "timerheap.h"

bool sched_all_idle(void)
{
	int n = ld_acq(&sched.nallp); /* ORD(allp) */

	for (int i = 0; i < n; i++) {
		uint32_t status = ld_rlx(&sched.allp[i]->status) & P_STATUS_MASK;

		if (status == P_RUNNING || status == P_BLOCKED)
			return false;
	}
	return true;
}

static uint32_t ignored; /* (a) timers that matter to no G of the program */

void sched_ignore_timers(uint32_t n)
{
	st_rlx(&ignored, n);
}

/* Only timers of fd deadlines are armed, which make no G runnable if no waiter waits for an fd; and
 * the ignored one.  While no P runs, the counts are constant. */
static bool no_timer_matters(void)
{
	int n = ld_acq(&sched.nallp); /* ORD(allp) */
	uint32_t armed = 0;

	for (int i = 0; i < n; i++)
		armed += timers_count_unlocked(sched.allp[i]);
	return armed == netpoll_deadlines() + ld_rlx(&ignored);
}

/* Only a debug server waits for fds: what a client asks it makes no G of the program runnable. */
static bool no_fd_matters(void)
{
	return ld_rlx(&sched.npollwait) <= ld_rlx(&sched.ndebug);
}

bool sched_only_time(void)
{
	return no_fd_matters() && sched_all_idle() && !ld_rlx(&sched.nblocked) &&
	       !ld_rlx(&sched.gqn) && ld_rlx(&sched.state) == RUN_ON;
}

bool sched_is_stalled(void)
{
	return !sched.never_deadlocked && sched_only_time() && no_timer_matters();
}

bool sched_stalled_locked(void)
{
	lock(&sched.lock, LR_SCHED);
	bool yes = sched_is_stalled() && !ld_rlx(&sched.gqn);
	unlock(&sched.lock, LR_SCHED);
	return yes;
}
