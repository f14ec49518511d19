/* SPDX-License-Identifier: MIT */
/*
 * Abandon: lets a run end although a G computes, or sleeps in the kernel again and again.
 *
 * At the end of a run each M leaves at its next step of the scheduler.  The M of a G that makes no
 * call of gmp takes no such step.  GRACE_NS after the end has begun, its OS thread is abandoned: it
 * leaves the runtime, and the G continues as on an external thread, on its stack.  It ends at its
 * next call of gmp, or where its entry function returns.
 *
 * leave is m->abandon.state, and sleep m->abandon.sleep (variant_state.h).
 *
 *   the end of the run (run.c:join_ms)             the M's OS thread, in a signal handler
 *    1 wait until all Ms have ended, GRACE_NS        1 leave is ASKED, and the thread is in code
 *    2 each M that has not ended, whose leave is       of the program (ABANDON-1); otherwise
 *      NONE, and that may be signalled                 leave: ASKED -> NONE, return  ORD(abandon)
 *      (ABANDON-4): sleep; leave: NONE ->            2 the return address of that code is replaced
 *      ASKED; a signal             ORD(abandon)        by gmp__abandoned_return, and getm() is NULL
 *    3 wait until each has LEFT or ended; after      3 leave: ASKED -> LEFT          ORD(abandon)
 *      ASK_NS: step 2 again
 *    4 an M that has LEFT: unlinked from all Ms,    the same thread, later
 *      its G is killed like the others
 *    5 after the memory of the run was freed,        4 a call of gmp (end_if_abandoned), or
 *      except the stacks of abandoned Gs: detach       the return of the program's code: jump
 *      the thread; exchange leave for DETACHED.        to m->base
 *      If it was ENDED: free the stack and m         5 exchange leave for ENDED.  If it was
 *                                                      DETACHED: free the stack and m
 *
 * Invariants
 *   ABANDON-1  A thread leaves only outside of P sections, and in code of the program: no frame on
 *              its stack is the runtime's, up to g_main or run_program, which do nothing but call
 *              the program.  So it holds no lock of the runtime, and no frame of the runtime runs
 *              again that could use the memory of the run.
 *   ABANDON-2  The stack and m are freed by the second of both sides: steps 5.
 *   ABANDON-3  From step 3 on, the thread reads nothing of the run but m.
 *   ABANDON-4  A thread is signalled in two cases.  It was awake at each check, has not slept
 *              between them, and has used COMPUTED_NS of CPU time since the first of them.  Or it
 *              sleeps, and had not begun this sleep when it was checked before: it will not end by
 *              itself.  `sleep` then describes its system call.  The kernel ends the call with
 *              EINTR, and the handler begins it again.
 *   -          A call that may transfer a part of its data is not signalled (os_thread_sleep).  A
 *              thread is asked in a sleep at growing intervals, so that each sleep ends.  What
 *              remains: between the check and the signal, or while a computation lasts, the thread
 *              may enter another system call.  That call returns EINTR, or is short.
 *
 * Not abandoned, so that the end waits for it: a G in gmp_blocking, until that returns; a G that
 * runs on the thread that called gmp_run (its first G, before the first wait: pin.c); a thread that
 * blocks the signal; any, if the program handles the signal itself.  Nothing is abandoned where
 * nothing is preempted (PREEMPT-5): the end of a cooperative run waits.
 * It waits, too, for a thread in one sleep, until that ends.
 *
 * Verified by model/abandon.pml.
 */
#ifndef GMP_ABANDON_H
#define GMP_ABANDON_H

#include "types.h"

/* Steps of the end of the run.  Step 2. */
void abandon_ask(void);
/* Step 4 of an M that has LEFT, and may have ENDED since.  Returns false if there is none. */
bool abandon_one(void);
/* Step 5. */
void abandon_release(void);
/* Step 5 of the thread, on its OS thread's stack, in its last step. */
void abandon_ended(struct m *m);
/* Steps 1 to 3 of the handler, with its context. */
void abandon_sig(struct m *m, void *context);
/* The number of OS threads of ended runs that continue. */
uint64_t abandoned_threads(void);

#endif
