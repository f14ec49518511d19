/* SPDX-License-Identifier: MIT */
/* The same where the deadline has passed: it is misuse all the same. */
#include <gmp.h>

static gmp_mutex m = GMP_MUTEX_INIT;
static gmp_cond c = GMP_COND_INIT;

static void culprit(void *arg)
{
	(void)arg;
	gmp_cond_wait_until(&c, &m, 0);
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
