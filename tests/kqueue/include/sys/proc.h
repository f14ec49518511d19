/* SPDX-License-Identifier: MIT */
/* Declarations of FreeBSD's <sys/proc.h> that os_task_bsd.c uses, for tests/kqueue/bsd.c. */
#ifndef TESTS_KQUEUE_SYS_PROC_H
#define TESTS_KQUEUE_SYS_PROC_H

enum { SRUN = 2, SSLEEP = 3, SWAIT = 6, SLOCK = 7 };
enum { TDF_SINTR = 0x8 };

#endif
