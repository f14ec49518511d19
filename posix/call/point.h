/* SPDX-License-Identifier: MIT */
/*
 * Cancellation points: a replacement that POSIX lists as one calls both functions.
 *
 * pthread_cancel notes the request in the record of the thread and cancels its green thread, which
 * ends its present wait with -ECANCELED (park.h).  PTHREAD_CANCEL_DISABLE masks that
 * (gmp_cancel_mask).  A function that waits and is no cancellation point masks it too, or uses a
 * wait that is not cut.
 */
#ifndef GMP_POSIX_POINT_H
#define GMP_POSIX_POINT_H

#include "posix/call/hook.h"

/* The calling green thread is cancelled: if pthread_cancel was the cause and cancellation is
 * enabled, does not return. */
void gmp__cancel_act(void);

/* At the start of a call that parks, before it has an effect: if pthread_cancel has been called for
 * the caller and cancellation is enabled, the caller ends. */
static inline void cancel_point(void)
{
	if (caller_is_cancelled())
		gmp__cancel_act();
}

/* A wait of the call has returned -ECANCELED, and nothing was transferred.  If pthread_cancel was
 * the cause, the caller ends; otherwise (gmp_cancel) the function returns. */
static inline void cancel_waited(void)
{
	cancel_point();
}

/* cancel_point in a caller of any kind. */
static inline void hook_point(void)
{
	if (hook_parks())
		cancel_point();
}

/* The value of libc's call, in a green thread as blocking code, for a replacement that is a
 * cancellation point and does not park. */
#define POINT_REPEATING(call)                                                                      \
	({                                                                                         \
		hook_point();                                                                      \
		HOOK_REPEATING(call);                                                              \
	})

#endif
