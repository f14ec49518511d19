/* SPDX-License-Identifier: MIT */
/* Write unlock of an rwmutex that nobody holds. */
#include "culprit.h"

static gmp_rwmutex m = GMP_RWMUTEX_INIT;

static void culprit(void *arg)
{
	(void)arg;
	gmp_rwmutex_lock(&m);
	gmp_rwmutex_unlock(&m);
	gmp_rwmutex_unlock(&m);
}

static void app(void *arg)
{
	(void)arg;
	run_culprit(culprit);
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
