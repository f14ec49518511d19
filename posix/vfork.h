/* SPDX-License-Identifier: MIT */
/* The steps around a call that makes a child: see spawn.c. */
#ifndef GMP_POSIX_VFORK_H
#define GMP_POSIX_VFORK_H

#include <sys/types.h>

/* Steps 1 and 5, in the parent.  The first returns whether it has begun blocking code, which the
 * second ends.  result: of the system call, a pid or a negative errno value; it is returned as libc
 * does. */
int gmp__vfork_begin(void);
pid_t gmp__vfork_end(int begun, long result);

#endif
