/* SPDX-License-Identifier: MIT */
/* A wait group's counter below 0 by one large step. */
#include <gmp.h>

static gmp_wg w = GMP_WG_INIT;

static void culprit(void *arg)
{
	(void)arg;
	gmp_wg_add(&w, 3);
	gmp_wg_add(&w, -4);
}

static void app(void *arg)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g;

	(void)arg;
	a.name = "the-culprit";
	if (gmp_spawn(&g, culprit, NULL, &a) == 0)
		gmp_join(g);
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
