/* SPDX-License-Identifier: MIT */
/* Variant state: what variants of the runtime keep in an M and in the scheduler (variant.h). */
#ifndef GMP_VARIANT_STATE_H
#define GMP_VARIANT_STATE_H

#include "base/base.h"

/*
 * m.leave: how the OS thread of an M whose G makes no call leaves a run that ends
 * (variant/abandon.h).
 *
 *   LEAVE_NONE      not asked
 *   LEAVE_ASKED     asked by a signal.  Entered by the end of the run; left by the thread, to NONE
 *                   if it cannot leave now
 *   LEAVE_LEFT      the thread has left the runtime.  Left by an exchange of either side
 *   LEAVE_ENDED     the thread has ended first: the end of the run frees m
 *   LEAVE_DETACHED  the run has ended first: the thread frees m
 */
enum leave { LEAVE_NONE, LEAVE_ASKED, LEAVE_LEFT, LEAVE_ENDED, LEAVE_DETACHED };

/* The step on g0 of m->curg, which has left its stack.  Ends in a jump. */
typedef int (*leave_fn)(void *m);

/* See variant/leave.h. */
struct leave_steps {
	leave_fn park, yield, exit, without_p, exit_without_p;
};

#endif
