/* SPDX-License-Identifier: MIT */
/* Declarations of FreeBSD's <sys/umtx.h> that os_bsd.c uses, for tests/kqueue/bsd.c. */
#ifndef TESTS_KQUEUE_SYS_UMTX_H
#define TESTS_KQUEUE_SYS_UMTX_H

#include <stdint.h>
#include <time.h>

enum { UMTX_OP_WAIT_UINT_PRIVATE = 15, UMTX_OP_WAKE_PRIVATE = 16 };
enum { UMTX_ABSTIME = 1 };

struct _umtx_time {
	struct timespec _timeout;
	uint32_t _flags;
	uint32_t _clockid;
};

int _umtx_op(void *obj, int op, unsigned long val, void *uaddr, void *uaddr2);

#endif
