/* SPDX-License-Identifier: MIT */
/*
 * Leave steps: the first function on g0 of a G that leaves its stack, chosen for the modes of a
 * run.
 *
 *   step            why the G leaves                             plain
 *   park            it waits                                     park.c:park_g0
 *   yield           it yields                                    park.c:yield_g0
 *   exit            it ends; the M has a P                       sched.c:sched_exit_g0
 *   without_p       it runs without a P, and must wait for one   sched.c:sched_without_p_g0
 *   exit_without_p  the same, and then it ends                   sched.c:sched_without_p_g0
 *
 *   variant    from when on                              does before the next variant
 *   traced     a trace or CPU time is recorded           emits an event (debug/tracing.c; not
 *                                                        without_p and exit_without_p)
 *   own        the first G with own thread-locals        unloads its block: step 4 of mode/owntls.h
 *   observed   GMP_DEBUG=check, or a C++ runtime, from   calls sched.on_leave or on_exit, saves the
 *              the start of the run                      exception state (CXX-1)
 *   plain      always                                    the step itself
 *
 * park.c and sched.c jump to sched.leave, which is the first variant of this list that is in use.
 * The traced steps end in those of sched.untraced.  A variant that is not in use costs nothing.
 *
 * Invariant
 *   LEAVE-1  A G with own thread-locals is runnable only after leave_own_tls has returned.  So each
 *            M that runs it reads steps that unload its block.
 */
#ifndef GMP_LEAVE_H
#define GMP_LEAVE_H

#include "types.h"

/* Before the first G runs. */
void leave_init(void);

/* From now on with the steps of own thread-locals.  Not on g0.  Returns 0, -EAGAIN, -ENOMEM, or
 * -ENOTSUP with a text in *why. */
int leave_own_tls(const char **why);

/* The traced steps park, yield and exit; NULL: without them. */
void leave_trace(const struct leave_steps *traced);

#endif
