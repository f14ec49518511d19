/* SPDX-License-Identifier: MIT */
/* Which code a signal handler interrupts: see handler.h. */
#include "posix/call/handler.h"

#include "posix/call/real.h"
#include "posix/call/sigset.h"

uint32_t gmp__signals_used;

bool gmp__handler_runs(void)
{
	const struct signal_state *s = gmp__signal_state();
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	return s->low <= here && here < s->high;
}

void signals_deliver(struct signal_state *s)
{
	sigset_t set = mask_set(s->deferred);

	s->deferred = 0;
	LIBC(pthread_sigmask)(SIG_UNBLOCK, &set, NULL);
}
