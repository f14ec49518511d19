/* SPDX-License-Identifier: MIT */
/* The child of a fork has no runtime until it starts one.  fork.c has the hooks. */
#ifndef GMP_FORK_H
#define GMP_FORK_H

#include "types.h"

/* Registers the handler of forks, once in a process.  Before the state changes from RUN_NONE, which
 * a child must find.  Any thread.  Returns 0 or a negative errno. */
int fork_register(void);

/* A green thread that the calling OS thread becomes: FORK-3. */
struct adoption {
	gmp_fn fn; /* what the green thread counts as: fn(arg) is never called */
	void *arg;
	const struct g *on; /* of the parent: the caller is on its stack, which is not freed */
	uint8_t masked;     /* depth of gmp_cancel_mask */
	bool cancelled;
};
/* Start a runtime whose first green thread is the caller, an external thread.  Returns 0 on the
 * green thread, or a negative errno on the OS thread.  After the end of the run the process ends by
 * _exit(0). */
int run_adopt(const struct adoption *a, const gmp_config *cfg);

#endif
