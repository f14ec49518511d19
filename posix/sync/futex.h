/* SPDX-License-Identifier: MIT */
/* Futexes, the calls of syscall(SYS_futex, ...): see futex.c. */
#ifndef GMP_POSIX_FUTEX_H
#define GMP_POSIX_FUTEX_H

/* The result, and errno, of syscall(SYS_futex, ...).  a: its six arguments. */
long futex_call(const unsigned long *a);

#endif
