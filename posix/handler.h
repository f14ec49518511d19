/* SPDX-License-Identifier: MIT */
/* Whether a signal handler of the program runs on the calling green thread. */
#ifndef GMP_POSIX_HANDLER_H
#define GMP_POSIX_HANDLER_H

#include "base/base.h"

/* True in a handler, which must not park: the OS thread's signal mask would stay as it is. */
static inline bool handler_runs(void)
{
	return false;
}

/* Around a wait that a handler may interrupt; no lock is held. */
static inline void handler_wait_begin(void)
{
}

static inline void handler_wait_end(void)
{
}

/* A wait has returned -EINTR: true if the call restarts, since all handlers have SA_RESTART. */
static inline bool handler_restarts(void)
{
	return true;
}

#endif
