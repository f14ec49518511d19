/* SPDX-License-Identifier: MIT */
/* Unlock of an unlocked mutex: fatal error. */
#include "culprit.h"

static gmp_mutex m = GMP_MUTEX_INIT;
static volatile int survived; /* so that the call is no jump */

static void culprit(void *arg)
{
	(void)arg;
	gmp_mutex_lock(&m);
	gmp_mutex_unlock(&m);
	gmp_mutex_unlock(&m);
	survived = 1;
}

int main(void)
{
	return run_with_culprit(culprit);
}
