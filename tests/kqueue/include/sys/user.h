/* SPDX-License-Identifier: MIT */
/* Declarations of FreeBSD's <sys/user.h> that os_task_bsd.c uses, for tests/kqueue/bsd.c. */
#ifndef TESTS_KQUEUE_SYS_USER_H
#define TESTS_KQUEUE_SYS_USER_H

#include <sys/resource.h>

struct kinfo_proc {
	int ki_tid;
	int ki_numthreads;
	int ki_tdflags;
	char ki_stat;
	struct rusage ki_rusage;
};

#endif
