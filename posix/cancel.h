/* SPDX-License-Identifier: MIT */
/* Cancellation points: a replacement that POSIX lists as one calls both functions. */
#ifndef GMP_POSIX_CANCEL_H
#define GMP_POSIX_CANCEL_H

#include "base/base.h"

/* At the begin of a call that parks, before it has an effect: if pthread_cancel has been called for
 * the caller and cancellation is enabled, the caller ends. */
static inline void cancel_point(void)
{
}

/* A wait of the call has returned -ECANCELED, and nothing was transferred.  If pthread_cancel was
 * the cause, the caller ends; otherwise (gmp_cancel) the function returns. */
static inline void cancel_waited(void)
{
}

#endif
