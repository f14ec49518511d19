/* SPDX-License-Identifier: MIT */
/*
 * Leave steps: the first function on g0 of a G that leaves its stack, chosen for the variants of
 * a run.
 *
 *   step            why the G leaves                             plain
 *   park            it waits                                     park.c:park_g0
 *   yield           it yields                                    park.c:yield_g0
 *   exit            it ends; the M has a P                       sched.c:sched_exit_g0
 *   without_p       it runs without a P, and must wait for one   sched.c:sched_without_p_g0
 *   exit_without_p  it ends without a P: waits for one, runs     sched.c:sched_without_p_g0
 *                   again, and leaves by exit
 *
 *   variant    from when on                              does before the next variant
 *   traced     a trace or CPU time is recorded           emits an event (trace/tracing.c; not
 *                                                        without_p and exit_without_p)
 *   own        the first G with own thread-locals        unloads its block (step 4 of
 *                                                        variant/owntls.h); exit also releases it
 *   observed   GMP_DEBUG=check, or a C++ runtime, from   calls up.on_leave, saves the exception
 *              the start of the run                      state (CXX-1); of a G that ends it calls
 *                                                        on_exit or on_leave only
 *   plain      always                                    the step itself
 *
 * park.c and sched.c jump to a step of sched.leave, which is the first variant of this list that is
 * in use.
 * The traced steps end in those of sched.untraced.  A variant that is not in use costs nothing.
 *
 * Invariant
 *   - A G with own thread-locals is runnable only after leave_own_tls has returned 0, and
 *     that sets the steps before owntls_is_used returns true.  The run queue orders both for
 *     the M that runs the G, so it reads steps that unload the block.  The end of a run and
 *     the child of a fork clear owntls_is_used: leave_init of the next run starts without
 *     the own steps.
 */
#ifndef GMP_LEAVE_H
#define GMP_LEAVE_H

#include "types.h"

/* Before the first G runs. */
void leave_init(void);

/* From now on with the steps of own thread-locals.  Not on g0.  Returns 0, -EAGAIN, -ENOMEM, or
 * -ENOTSUP with a text in *why. */
int leave_own_tls(const char **why);

/* The traced steps park, yield and exit, which stay valid until the next call.  NULL: none. */
void leave_trace(const struct leave_steps *traced);

#endif
