/* SPDX-License-Identifier: MIT */
/*
 * Shutdown: kills the green threads that still exist when a run ends, and undoes their waits.
 *
 * A killed green thread never runs again, so its calls do not return.  What it did not finish is
 * ended by one hook for each kind of state:
 *
 *   a wait (any object)           unwait of the wait: dequeues the sudog, passes on what was
 *                                 granted
 *   a deadline                    timer_del
 *   a run of a gmp_timer          timer_run_ended
 *   its end, for joiners          green_release_joiner: an external joiner gets -ESRCH
 *   waits for fds                 netpoll_cancel_all: external threads get -ESRCH
 *   ticks                         ticks_release: external threads get -ESRCH
 *   locals                        fls_forget: frees the table, runs no destructor
 *   own thread-locals             owntls_kill: renews the block, runs no destructor
 *   what calls hold on its stack  leftovers_fini (io/cleanup.h), called by run.c afterwards
 *
 * A green thread that is an OS thread leaves by itself (variant/thread.c:variant_end), before this.
 *
 * Protocol
 *   1  Claim every waiting green thread.  If another thread has claimed one already, wait until
 *      that thread has made it runnable: it is external, and about to.
 *   2  Undo the wait of each killed green thread.  No queue of an object that outlives the run
 *      holds it after that.
 *   3  Claim the external threads that wait for the runtime with -ESRCH.  Repeat until no external
 *      thread is inside a call (sched.external): a thread that was inside may begin to wait only
 *      now.
 *
 * Invariants
 *  All green threads are claimed before the first wait is undone.  An unwait may pass a grant on (a
 *  writer that leaves lets the readers behind it in); the grant must not go to a green thread that
 *  is killed too.
 *  After step 3 no thread is in a call that uses the runtime, so its memory may be unmapped.
 */
#include "run/shutdown.h"

#include "base/os.h"
#include "g.h"
#include "netpoll/netpoll.h"
#include "park.h"
#include "ready.h"
#include "timer/timerheap.h"
#include "variant/owntls.h"
#include "wait/fls.h"
#include "wait/join.h"
#include "wait/ticker.h"
#include "waiter.h"

/* Step 1. */
static void claim_waiting_g(struct g *gp)
{
	if (ld_rlx(&gp->status) == G_WAITING && !waiter_claim(&gp->w, -ESRCH))
		while (ld_acq(&gp->status) == G_WAITING) /* ORD(g.status) */
			os_yield();
}

/* Step 2. */
static void kill_g(struct g *gp)
{
	/* also if gp was woken and has not run since: its sudog may still be queued, or what it was
	 * granted must be passed on */
	if (ld_rlx(&gp->w.state) != WAITER_IDLE) {
		if (gp->resume & RESUME_TIMED)
			timer_del(&gp->timer);
		if (gp->unwait)
			gp->unwait(&gp->w);
	}
	if (gp->at_end & AT_END_TIMER_RUN)
		timer_run_ended(gp);
}

/* Step 3. */
static void release_external(void)
{
	struct glist out = { 0 };

	netpoll_cancel_all(&out);
	ticks_release(&out);
	out = (struct glist){ .external = out.external }; /* green threads are killed */
	ready_list(&out);
	for (uint32_t i = 0; i < g_made(); i++)
		green_release_joiner(g_at(i));
}

static void for_each_green(void (*fn)(struct g *gp))
{
	for (uint32_t i = 0; i < g_made(); i++) {
		struct g *gp = g_at(i);

		/* ORD(g.status): an external thread may have just made it */
		if (ld_acq(&gp->status) != G_FREE)
			fn(gp);
	}
}

void shutdown_kill_all(void)
{
	for_each_green(claim_waiting_g);
	for_each_green(kill_g);
	release_external();
	while (ld_seq(&sched.external)) { /* ORD(external) */
		os_nap(200 * US);
		release_external();
	}
	for (uint32_t i = 0; i < g_made(); i++) {
		fls_forget(g_at(i));
		owntls_kill(g_at(i));
	}
	/* the last external thread that made a green thread runnable has left the critical
	 * section */
	lock(&sched.lock, LR_SCHED);
	unlock(&sched.lock, LR_SCHED);
}
