/* SPDX-License-Identifier: MIT */
/* Handlers of this library in the child of a fork: atfork.c. */
#ifndef GMP_POSIX_ATFORK_H
#define GMP_POSIX_ATFORK_H

/* Register the handler of the child of a fork that may allocate memory.  Returns 0 or an errno
 * value. */
int atfork_late(void (*child)(void));
/* Of a child that is made without libc's fork: in its parent before it, unless in a signal handler,
 * so that the child needs no memory; and first thing in the child. */
void atfork_prepare_copy(void);
void atfork_copied(void);

#endif
