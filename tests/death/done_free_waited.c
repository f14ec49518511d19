/* SPDX-License-Identifier: MIT */
/* A done object is freed while a green thread waits for it: fatal error. */
#include "culprit.h"

static gmp_done *d;

static void waiter(void *arg)
{
	(void)arg;
	gmp_done_wait(d);
}

static void culprit(void *arg)
{
	(void)arg;
	gmp_yield(); /* on the only P the waiter waits now */
	gmp_done_free(d);
}

static void app(void *arg)
{
	(void)arg;
	d = gmp_done_new();
	gmp_go(waiter, NULL);
	gmp_yield();
	run_culprit(culprit);
}

int main(void)
{
	return run_on_one_p(app);
}
