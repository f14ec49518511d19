/* SPDX-License-Identifier: MIT */
/* gmp_cond_wait_until with an unlocked mutex and a past deadline: fatal error. */
#include "culprit.h"

static gmp_mutex m = GMP_MUTEX_INIT;
static gmp_cond c = GMP_COND_INIT;

static void culprit(void *arg)
{
	(void)arg;
	gmp_cond_wait_until(&c, &m, 0);
}

int main(void)
{
	return run_with_culprit(culprit);
}
