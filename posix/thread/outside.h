/* SPDX-License-Identifier: MIT */
/* OS threads of a program that gmp-run has started: outside.c. */
#ifndef GMP_POSIX_OUTSIDE_H
#define GMP_POSIX_OUTSIDE_H

#include "posix/thread/registry.h"

/* OS threads are counted. */
bool outside_counts(void);
/* libc's pthread_create for a thread that counts (PROGRAM-1). */
int outside_create(pthread_t *out, const pthread_attr_t *attr, void *(*fn)(void *), void *arg,
		   bool c11);
/* The caller is an OS thread that PROGRAM-1 counts already: it leaves when it ends. */
void outside_count_self(void);

#endif
