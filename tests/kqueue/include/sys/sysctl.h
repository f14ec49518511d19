/* SPDX-License-Identifier: MIT */
/* Declarations of FreeBSD's <sys/sysctl.h> that os_task_bsd.c uses, for tests/kqueue/bsd.c. */
#ifndef TESTS_KQUEUE_SYS_SYSCTL_H
#define TESTS_KQUEUE_SYS_SYSCTL_H

#include <stddef.h>

enum { CTL_KERN = 1, KERN_PROC = 14, KERN_PROC_PID = 1, KERN_PROC_INC_THREAD = 0x10 };

int sysctl(const int *name, unsigned namelen, void *old, size_t *oldlen, const void *new_,
	   size_t newlen);

#endif
