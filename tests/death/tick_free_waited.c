/* SPDX-License-Identifier: MIT */
/* A tick is freed while a green thread waits for it: fatal error. */
#include "culprit.h"

static gmp_chan *c;

static void reader(void *arg)
{
	(void)arg;
	gmp_chan_recv(c, NULL);
}

static void culprit(void *arg)
{
	(void)arg;
	c = gmp_tick_new(gmp_deadline(INT64_C(3600000000000)), 0);
	gmp_go(reader, NULL);
	gmp_yield(); /* on the only P the reader waits now */
	gmp_yield();
	gmp_tick_free(c);
}

int main(void)
{
	return run_on_one_p(culprit);
}
