/* SPDX-License-Identifier: MIT */
/* Seccomp filters of a whole program: see seccomp.c. */
#ifndef GMP_POSIX_SECCOMP_H
#define GMP_POSIX_SECCOMP_H

/* syscall(SYS_seccomp, op, flags, args): its result, and errno. */
long seccomp_call(unsigned op, unsigned flags, void *args);

#endif
