/* SPDX-License-Identifier: MIT */
/* Write unlock of an rwmutex held for reading: fatal error. */
#include "culprit.h"

static gmp_rwmutex m = GMP_RWMUTEX_INIT;

static void culprit(void *arg)
{
	(void)arg;
	gmp_rwmutex_rlock(&m);
	gmp_rwmutex_unlock(&m);
}

int main(void)
{
	return run_with_culprit(culprit);
}
