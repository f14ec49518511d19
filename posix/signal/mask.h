/* SPDX-License-Identifier: MIT */
/* Signal masks of green threads with own thread-locals: see mask.c. */
#ifndef GMP_POSIX_MASK_H
#define GMP_POSIX_MASK_H

#include "posix/call/hook.h"
#include "posix/call/sigset.h"

/* Add bits to the mask of the calling green thread.  Returns the mask from before. */
uint64_t mask_block(uint64_t bits);
/* Set it, and run the handlers of pending signals that it admits. */
void mask_set_own(uint64_t mask);

/* The mask of the caller as the creator of a thread; and, first thing in that thread: set it. */
uint64_t mask_to_inherit(void);
void mask_inherit(uint64_t mask);

/*
 * In blocking code, around a call of libc that sets a mask for its time (sigsuspend, ppoll,
 * pselect, epoll_pwait): mask_swap(set) before it, mask_swap_back after it.  The signals that the
 * set admits then reach the calling OS thread.  set NULL: nothing.
 */
uint64_t mask_swap(const sigset_t *set);
void mask_swap_back(const sigset_t *set, uint64_t before);

/* The value of call, which sets a signal mask for its time, in blocking code.  mask NULL: none. */
#define HOOK_MASKED(mask, call)                                                                    \
	HOOK_BLOCKING(({                                                                           \
		uint64_t masked_before_ = mask_swap(mask);                                         \
		int masked_result_ = (call), masked_errno_ = errno;                                \
		mask_swap_back(mask, masked_before_);                                              \
		errno = masked_errno_;                                                             \
		masked_result_;                                                                    \
	}))

/*
 * In blocking code, around a call that makes a child, which inherits the mask of its creator: the
 * OS thread gets exactly the mask of the calling green thread.  Returns the mask that the OS thread
 * had, for mask_after_child.
 */
uint64_t mask_for_child(void);
/* The same with this mask, a result of mask_block, and not the mask of the caller. */
uint64_t mask_for_child_as(uint64_t mask);
void mask_after_child(uint64_t before);

#endif
