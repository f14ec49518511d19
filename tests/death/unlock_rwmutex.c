/* SPDX-License-Identifier: MIT */
/* Write unlock of an rwmutex that nobody holds. */
#include <gmp.h>

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
