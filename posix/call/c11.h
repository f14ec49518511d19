/* SPDX-License-Identifier: MIT */
/* Results of the functions of <threads.h>, from those of POSIX. */
#ifndef GMP_POSIX_C11_H
#define GMP_POSIX_C11_H

#include <errno.h>
#include <threads.h>

/* The thrd_ value of an errno value, or of 0. */
static inline int to_thrd(int err)
{
	switch (err) {
	case 0: return thrd_success;
	case ENOMEM: return thrd_nomem;
	case ETIMEDOUT: return thrd_timedout;
	case EBUSY: return thrd_busy;
	default: return thrd_error;
	}
}

#endif
