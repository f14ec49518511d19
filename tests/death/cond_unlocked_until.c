/* SPDX-License-Identifier: MIT */
/* The same where the deadline has passed: it is misuse all the same. */
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
