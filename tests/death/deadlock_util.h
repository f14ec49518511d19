/* SPDX-License-Identifier: MIT */
/* A wait that no thread ends, for tests of the report of a deadlock. */
#include <stdio.h>
#include <stdlib.h>

#include <gmp.h>

static inline void wait_forever(void)
{
	static gmp_wg never = GMP_WG_INIT;

	gmp_wg_add(&never, 1);
	gmp_wg_wait(&never);
}

static inline void need(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "failed: %s\n", what);
	exit(1);
}
#define NEED(condition) need(condition, #condition)
