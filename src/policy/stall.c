/* SPDX-License-Identifier: MIT */
/* Stall detection; see stall.h. */
#include "policy/stall.h"

#include "base/os.h"
#include "g.h"
#include "netpoll/netpoll.h"
#include "timer/timerheap.h"

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

bool sched_external_threads(bool exact)
{
	int of_run = !sched.library; /* the caller of gmp_run */

	return os_thread_count_others(exact) > of_run;
}

static uint32_t ignored; /* (a) timers that matter to no G of the program */

void sched_ignore_timers(uint32_t n)
{
	st_rlx(&ignored, n);
}

/* Only timers are armed that make no G runnable: those of fd deadlines, if no waiter waits for an
 * fd; timers whose green thread is deferred until another one ends; and the ignored one.  While no
 * P runs, the counts are constant. */
static bool no_timer_matters(void)
{
	int n = ld_acq(&sched.nallp); /* ORD(allp) */
	uint32_t armed = 0;

	for (int i = 0; i < n; i++)
		armed += timers_count_unlocked(sched.allp[i]);
	return armed == netpoll_deadlines() + g_deferred() + ld_rlx(&ignored) &&
	       !g_deferred_can_begin();
}

/* Besides n Gs that wait for fds, only time can make a G runnable. */
static bool only_time_beside(uint32_t n)
{
	return ld_rlx(&sched.npollwait) <= n && sched_all_idle() && !ld_rlx(&sched.nblocked) &&
	       !ld_rlx(&sched.gqn) && ld_rlx(&sched.state) == RUN_ON;
}

/* The deadlines of a client that is connected are virtual, too. */
bool sched_only_time(void)
{
	return only_time_beside(ld_rlx(&sched.naccepts));
}

/* What a client asks a debug server makes no G of the program runnable. */
bool sched_is_stalled(void)
{
	return !sched.never_deadlocked && only_time_beside(ld_rlx(&sched.ndebug)) &&
	       no_timer_matters();
}

bool sched_stalled_locked(void)
{
	lock(&sched.lock, LR_SCHED);
	bool yes = sched_is_stalled() && !ld_rlx(&sched.gqn);
	unlock(&sched.lock, LR_SCHED);
	return yes;
}
