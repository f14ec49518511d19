/* SPDX-License-Identifier: MIT */
/* System calls that make a child: see clone.c. */
#ifndef GMP_POSIX_CLONE_H
#define GMP_POSIX_CLONE_H

#include <stdbool.h>
#include <sys/syscall.h>

static inline bool makes_child(long number)
{
	switch (number) {
	case SYS_clone:
	case SYS_clone3:
#ifdef SYS_fork
	case SYS_fork:
	case SYS_vfork:
#endif
		return true;
	default: return false;
	}
}

/* The result, and errno, of such a call by syscall(). */
long clone_call(long number, const unsigned long *a);

#endif
