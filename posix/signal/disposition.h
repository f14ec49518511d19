/* SPDX-License-Identifier: MIT */
/* The program's dispositions of signals: see disposition.c. */
#ifndef GMP_POSIX_DISPOSITION_H
#define GMP_POSIX_DISPOSITION_H

#include "base/os.h"
#include "posix/call/real.h"
#include "posix/signal/mask.h"

/* Signals that are never deferred: faults, and those of libc and the runtime. */
uint64_t signal_undeferred(void);

/* Signals with a handler. */
uint64_t signal_handled(void);

/* What the program has set; ACTION_IGNORE also if the default action does nothing, ACTION_DEFAULT
 * also if a function other than sigaction and signal has set the handler: the kernel calls it. */
enum signal_action { ACTION_DEFAULT, ACTION_IGNORE, ACTION_HANDLER };
enum signal_action signal_action(int signo);

/* A lock that a signal handler may take, too: all signals are blocked until the unlock.  Returns
 * the mask from before. */
static inline uint64_t signals_lock(pthread_spinlock_t *l)
{
	uint64_t before = os_signals_block();

	while (pthread_spin_trylock(l))
		LIBC(sched_yield)();
	return before;
}

static inline void signals_unlock(pthread_spinlock_t *l, uint64_t before)
{
	pthread_spin_unlock(l);
	os_signals_restore(before);
}

/* SIGTAB-6: how often a handler of the signal was removed. */
uint32_t signal_epoch_sig(int signo);

/* Before the signals in bits stop being delivered: signals with the default action get the
 * trampoline, so that an OS thread that does not block them yet can defer them (SIGTAB-3). */
void signal_hold_defaults(uint64_t bits);
/* The same, also when the program sets the default action later.  Before a run begins. */
void signal_hold_always(uint64_t bits);
/* After the signals in bits are delivered again. */
void signal_release_defaults(uint64_t bits);

#endif
