/* SPDX-License-Identifier: MIT */
/* The channels that a green thread parked in a select waits for, for dumps
 * (observe/dump/snapshot.c). */
#ifndef GMP_SELECT_H
#define GMP_SELECT_H

#include "types.h"

struct select_op {
	const void *c;
	bool sends;
};

/* Writes the first `most` cases for which gp is queued to out.  gp is held (waiter_hold) and waits
 * for WAIT_SELECT.  Returns the number of all such cases. */
unsigned select_ops(const struct g *gp, struct select_op *out, unsigned most);

#endif
