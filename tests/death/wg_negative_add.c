/* SPDX-License-Identifier: MIT */
/* The counter of a wait group falls below 0 by one large step: fatal error. */
#include "culprit.h"

static gmp_wg w = GMP_WG_INIT;

static void culprit(void *arg)
{
	(void)arg;
	gmp_wg_add(&w, 3);
	gmp_wg_add(&w, -4);
}

int main(void)
{
	return run_with_culprit(culprit);
}
