/* SPDX-License-Identifier: MIT */
/* Calls that change the rights of a whole program: see rights.c. */
#ifndef GMP_POSIX_RIGHTS_H
#define GMP_POSIX_RIGHTS_H

#include <stdbool.h>

enum { RIGHTS_ARGS = 5 };

/* True for a green thread of a whole program, also in blocking code and in its signal handlers. */
bool rights_are_of_program(void);
/* If the system call changes rights of the program, make it on all OS threads: true, with *result,
 * and errno.  a: RIGHTS_ARGS arguments. */
bool rights_call(long number, const unsigned long *a, long *result);

#endif
