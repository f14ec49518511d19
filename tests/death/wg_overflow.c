/* SPDX-License-Identifier: MIT */
/* The counter of a wait group exceeds INT32_MAX: fatal error. */
#include "culprit.h"

static gmp_wg w = GMP_WG_INIT;

static void culprit(void *arg)
{
	(void)arg;
	gmp_wg_add(&w, INT32_MAX);
	gmp_wg_add(&w, 1);
}

int main(void)
{
	return run_with_culprit(culprit);
}
