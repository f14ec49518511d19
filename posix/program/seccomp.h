/* SPDX-License-Identifier: MIT */
/* Seccomp filters of a whole program: see seccomp.c. */
#ifndef GMP_POSIX_SECCOMP_H
#define GMP_POSIX_SECCOMP_H

/* The result, and errno, of syscall(SYS_seccomp, op, flags, args). */
long seccomp_call(unsigned op, unsigned flags, void *args);
/* The same of prctl with four arguments. */
int prctl_call(int option, const unsigned long *a);

#endif
