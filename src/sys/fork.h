/* SPDX-License-Identifier: MIT */
/* The child of a fork has no runtime.  fork.c has the hooks. */
#ifndef GMP_FORK_H
#define GMP_FORK_H

/* Registers the handler of forks, once in a process.  In state RUN_STARTING, in which one thread
 * is.  Returns 0 or a negative errno. */
int fork_register(void);

#endif
