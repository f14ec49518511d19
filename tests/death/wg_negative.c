/* SPDX-License-Identifier: MIT */
/* The counter of a wait group falls below 0: fatal error. */
#include "culprit.h"

static gmp_wg w = GMP_WG_INIT;

static void culprit(void *arg)
{
	(void)arg;
	gmp_wg_add(&w, 1);
	gmp_wg_done(&w);
	gmp_wg_done(&w);
}

int main(void)
{
	return run_with_culprit(culprit);
}
