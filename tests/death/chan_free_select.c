/* SPDX-License-Identifier: MIT */
/* A channel is freed that stands in a select that waits. */
#include <gmp.h>

static gmp_chan *a, *b;

static void selector(void *arg)
{
	gmp_case cs[] = { GMP_RECV_CASE(a, NULL), GMP_RECV_CASE(b, NULL) };

	(void)arg;
	gmp_select(cs, 2);
}

static void culprit(void *arg)
{
	(void)arg;
	gmp_yield(); /* on the only P the select waits now */
	gmp_chan_free(b);
}

static void app(void *arg)
{
	gmp_attr at = GMP_ATTR_INIT;
	gmp_g *g;

	(void)arg;
	a = gmp_chan_new(sizeof(int), 0);
	b = gmp_chan_new(sizeof(int), 0);
	gmp_go(selector, NULL);
	gmp_yield();
	at.name = "the-culprit";
	if (gmp_spawn(&g, culprit, NULL, &at) == 0)
		gmp_join(g);
}

int main(void)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.procs = 1;
	gmp_run(app, NULL, &cfg);
	return 0;
}
