/* SPDX-License-Identifier: MIT */
/* Declarations of FreeBSD's <sys/cpuset.h> that os_bsd.c uses, for tests/kqueue/bsd.c. */
#ifndef TESTS_KQUEUE_SYS_CPUSET_H
#define TESTS_KQUEUE_SYS_CPUSET_H

#include <sched.h>
#include <stddef.h>
#include <stdint.h>

typedef cpu_set_t cpuset_t;

enum { CPU_LEVEL_WHICH = 3, CPU_WHICH_PID = 2 };

int cpuset_getaffinity(int level, int which, int64_t id, size_t size, cpuset_t *mask);

#endif
