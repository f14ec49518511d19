/* SPDX-License-Identifier: MIT */
/* The system's <sys/time.h>, and what os_task_bsd.c uses of FreeBSD's, for tests/kqueue/bsd.c. */
#include_next <sys/time.h>

#ifndef TESTS_KQUEUE_SYS_TIME_H
#define TESTS_KQUEUE_SYS_TIME_H

#include <time.h>

enum { CPUCLOCK_WHICH_TID = 1 };

int clock_getcpuclockid2(long id, int which, clockid_t *clock);

#endif
