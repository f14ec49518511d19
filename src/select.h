/* SPDX-License-Identifier: MIT */
/* What does a green thread wait for that is parked in a select?  For dumps (debug/view.c). */
#ifndef GMP_SELECT_H
#define GMP_SELECT_H

#include "types.h"

struct select_place {
	const void *c;
	bool sends;
};

/* gp is held (waiter_hold) and waits for WAIT_SELECT: the first `most` of the places where it stands;
 * how many there are. */
unsigned select_places(const struct g *gp, struct select_place *out, unsigned most);

#endif
