/* SPDX-License-Identifier: MIT */
/* Read unlock of an rwmutex held for writing: fatal error. */
#include "culprit.h"

static gmp_rwmutex m = GMP_RWMUTEX_INIT;

static void culprit(void *arg)
{
	(void)arg;
	gmp_rwmutex_lock(&m);
	gmp_rwmutex_runlock(&m);
}

int main(void)
{
	return run_with_culprit(culprit);
}
