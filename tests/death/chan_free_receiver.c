/* SPDX-License-Identifier: MIT */
/* A channel is freed that a green thread waits on to receive. */
#include <gmp.h>

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
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g;

	(void)arg;
	c = gmp_chan_new(sizeof(int), 0);
	gmp_go(receiver, NULL);
	gmp_yield();
	a.name = "the-culprit";
	if (gmp_spawn(&g, culprit, NULL, &a) == 0)
		gmp_join(g);
}

int main(void)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.procs = 1;
	gmp_run(app, NULL, &cfg);
	return 0;
}
