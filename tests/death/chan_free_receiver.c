/* SPDX-License-Identifier: MIT */
/* A channel is freed while a green thread waits to receive from it: fatal error. */
#include "culprit.h"

static gmp_chan *c;

static void receiver(void *arg)
{
	(void)arg;
	gmp_chan_recv(c, NULL);
}

static void culprit(void *arg)
{
	(void)arg;
	gmp_yield(); /* on the only P the receiver waits now */
	gmp_chan_free(c);
}

static void app(void *arg)
{
	(void)arg;
	c = gmp_chan_new(sizeof(int), 0);
	gmp_go(receiver, NULL);
	gmp_yield();
	run_culprit(culprit);
}

int main(void)
{
	return run_on_one_p(app);
}
