/* SPDX-License-Identifier: MIT */
/* What is around a call that makes a child: see spawn.c. */
#ifndef GMP_POSIX_VFORK_H
#define GMP_POSIX_VFORK_H

#include "posix/hook.h"

/* The value of call, which makes a child, with the errno that it has set: in a green thread as
 * blocking code, with the mask of the green thread. */
#define HOOK_CHILD(call)                                                                           \
	HOOK_BLOCKING(({                                                                           \
		uint64_t child_mask_ = hook_blocks_ ? mask_for_child() : 0;                        \
		__auto_type child_result_ = (call);                                                \
		int child_errno_ = errno;                                                          \
		if (hook_blocks_)                                                                  \
			mask_after_child(child_mask_);                                             \
		errno = child_errno_;                                                              \
		child_result_;                                                                     \
	}))

/* Steps 1 and 5, in the parent.  The first returns whether it has begun blocking code, which the
 * second ends.  result: of the system call, a pid or a negative errno value; it is returned as libc
 * does. */
int gmp__vfork_begin(void);
pid_t gmp__vfork_end(int begun, long result);

#endif
