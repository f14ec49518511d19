/* SPDX-License-Identifier: MIT */
/* Declarations of FreeBSD's <sys/thr.h> that os_task_bsd.c uses, for tests/kqueue/bsd.c. */
#ifndef TESTS_KQUEUE_SYS_THR_H
#define TESTS_KQUEUE_SYS_THR_H

#include <sys/types.h>

int thr_kill2(pid_t pid, long id, int sig);

#endif
