/* SPDX-License-Identifier: MIT */
/*
 * How does a green thread run as a thread of the kernel's (GMP_SCHED_THREAD)?
 *
 * From its beginning to its end it is in what blocking.c calls blocking code: it has an M of its
 * own (m->alone) without a P, getm() is NULL, and every call behaves as on a external thread,
 * whose waits sleep in the kernel.  gmp__blockedm() tells which green thread it is; so it has its
 * gmp_self, its locals, and its cancellation.  Other Ms there are too, for the poller and timers,
 * and the one that finds a green thread in a queue (a timer's) starts a thread for it.
 *
 *   made ── thread_start: an M and a thread ──> runs, waits, runs ──> ends: as any green thread
 *                                                               └──> dropped, by a jump to
 *                                                               thread_run
 *
 * What others do to one that waits (gp->awaits: the waiter, on its thread's stack)
 *  the thread                                    who cancels, or ends the run
 *   1 awaits = w, and it is armed                 1 cancelled = true, or the state of the run
 *   2 full fence                 ORD(cancel)      2 full fence                      ORD(cancel)
 *   3 cancelled, or the run ends? claim itself    3 awaits: w -> HELD
 *   4 commit, and sleep until it is done          4 claim w, wake the thread
 *   5 awaits: w -> NULL; while HELD, spin         5 awaits: HELD -> w
 *   6 does the run end?  unwait; if it does, leave
 *
 * Invariants
 *  O1 While awaits is not NULL the waiter is there: the thread does not get past step 5 while it
 *  is HELD.  O2 A thread of the kind leaves only where it stands in no queue: at the end of its
 *  function, in
 *     gmp_exit, at a yield or checkpoint, and after step 5.  What calls below it had begun is not
 *     ended.
 *  O3 Each is counted in sched.nblocked: while one lives, nobody takes the run for a deadlock.
 *  O4 m->curg is NULL, under sched.lock, before the descriptor is given back: so the end of a run,
 *     which looks at it under that lock, finds one that lives.
 */
#ifndef GMP_THREAD_H
#define GMP_THREAD_H

#include "types.h"

/* gp, which is G_RUNNABLE, belongs to m from now on. */
void thread_adopt(struct m *m, struct g *gp);
/* A thread for gp, which is G_RUNNABLE.  -EAGAIN: there can be no more of them; -ESRCH: the run
 * ends. */
int thread_start(struct g *gp);
/* The calling thread runs m->curg to its end; for the first one, and as an M's main. */
void thread_run(struct m *m);

/* Steps 1 to 3, and from 5 on, of a wait of m's green thread. */
void thread_arm(struct m *m, struct waiter *w, unsigned why);
int thread_resume(struct m *m, struct waiter *w, unwait_fn unwait, int result);

/* To an unwait_fn: the calling thread's green thread is dropped, and will not return from its
 * wait. */
bool thread_killed(void);
/* To an unwait_fn: the waiter is dropped at the end of the run: a green thread, where no M is
 * left, or one that is a thread of its own. */
static inline bool waiter_killed(const struct waiter *w)
{
	return w->gp ? !getm() : thread_killed();
}

/* End gp's wait, if it is cancelled. */
void thread_cancel_wait(struct g *gp);
/* Nothing for other threads; leaves if the run ends. */
void thread_checkpoint(void);
void thread_exit(struct m *m) __attribute__((noreturn));

/* The end of a run: until none is left. */
void threads_end(void);

#endif
