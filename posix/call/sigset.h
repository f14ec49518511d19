/* SPDX-License-Identifier: MIT */
/* Sets of signals as words of 64 bits. */
#ifndef GMP_POSIX_SIGSET_H
#define GMP_POSIX_SIGSET_H

#include <signal.h>

#include "base/base.h"

static inline uint64_t mask_bit(int signo)
{
	return (uint64_t)1 << (signo - 1);
}

/* The signals that the kernel raises for a write: SIGTAB-9 of signal/trampoline.c. */
static inline uint64_t mask_of_writes(void)
{
	return mask_bit(SIGPIPE) | mask_bit(SIGXFSZ);
}

static inline uint64_t mask_of(const sigset_t *set)
{
	return *(const uint64_t *)(const void *)set;
}

static inline sigset_t mask_set(uint64_t mask)
{
	sigset_t set;

	sigemptyset(&set);
	*(uint64_t *)(void *)&set = mask;
	return set;
}

#endif
