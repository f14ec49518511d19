/* SPDX-License-Identifier: MIT */
/* OS threads of a program that gmp-run has started: outside.c. */
#ifndef GMP_POSIX_OUTSIDE_H
#define GMP_POSIX_OUTSIDE_H

#include "posix/thread.h"

/* libc's functions; the thread counts (PROGRAM-1). */
int outside_create(pthread_t *out, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);
int outside_create_c11(thrd_t *out, thrd_start_t fn, void *arg);
/* The caller is an OS thread that PROGRAM-1 counts already: it leaves when it ends. */
void outside_count_self(void);

#endif
