/* SPDX-License-Identifier: MIT */
/* The program's dispositions of signals: see signal.c. */
#ifndef GMP_POSIX_SIGNAL_H
#define GMP_POSIX_SIGNAL_H

#include "posix/mask.h"

/* Signals that are never deferred: faults, and those of libc and the runtime. */
uint64_t signal_undeferred(void);

/* SIGTAB-6: how often a handler of the signal was removed. */
uint32_t signal_epoch_sig(int signo);

/* Before the signals in bits stop being delivered: signals with the default action get the
 * trampoline, so that an OS thread that does not block them yet can defer them (SIGTAB-3). */
void signal_hold_defaults(uint64_t bits);
/* After the signals in bits are delivered again. */
void signal_release_defaults(uint64_t bits);

#endif
