/* SPDX-License-Identifier: MIT */
/* A wait group's counter below 0 by one large step. */
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
