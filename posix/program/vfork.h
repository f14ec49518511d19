/* SPDX-License-Identifier: MIT */
/* What is around a call that makes a child: see vfork.c. */
#ifndef GMP_POSIX_VFORK_H
#define GMP_POSIX_VFORK_H

#include "posix/call/hook.h"
#include "posix/signal/mask.h"

/* The value of call, which makes a child, with the errno that it has set: in a green thread as
 * blocking code, with the mask that `mask`, one of mask.h's functions, sets for the child. */
#define HOOK_CHILD_AS(mask, call)                                                                  \
	HOOK_BLOCKING(({                                                                           \
		uint64_t child_mask_ = 0;                                                          \
		if (hook_blocks_) {                                                                \
			child_attributes_begin();                                                  \
			child_mask_ = (mask);                                                      \
		}                                                                                  \
		__auto_type child_result_ = (call);                                                \
		int child_errno_ = errno;                                                          \
		if (hook_blocks_) {                                                                \
			mask_after_child(child_mask_);                                             \
			child_attributes_end();                                                    \
		}                                                                                  \
		errno = child_errno_;                                                              \
		child_result_;                                                                     \
	}))

/* The same with the mask of the green thread. */
#define HOOK_CHILD(call) HOOK_CHILD_AS(mask_for_child(), call)

/* Steps 1 and 5, in the parent.  The first returns whether it has begun blocking code, which the
 * second ends.  result: of the system call, a pid or a negative errno value; it is returned as libc
 * does. */
int gmp__vfork_begin(void);
pid_t gmp__vfork_end(int begun, long result);

#endif
