/* SPDX-License-Identifier: MIT */
/* A channel with a full buffer is freed while a green thread waits to send: fatal error. */
#include "culprit.h"

static gmp_chan *c;

static void sender(void *arg)
{
	int v = 1;

	(void)arg;
	while (gmp_chan_send(c, &v) == 0)
		;
}

static void app(void *arg)
{
	(void)arg;
	c = gmp_chan_new(sizeof(int), 2);
	gmp_go(sender, NULL);
	gmp_yield(); /* on the only P the sender waits now */
	gmp_yield();
	gmp_chan_free(c);
}

int main(void)
{
	return run_on_one_p(app);
}
