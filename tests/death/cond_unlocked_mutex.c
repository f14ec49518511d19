/* SPDX-License-Identifier: MIT */
/* Waiting on a condition variable with an unlocked mutex. */
#include <gmp.h>

static gmp_mutex m = GMP_MUTEX_INIT;
static gmp_cond c = GMP_COND_INIT;
static volatile int survived; /* so that the call is no jump */

static void culprit(void *arg)
{
	(void)arg;
	gmp_mutex_lock(&m);
	gmp_mutex_unlock(&m);
	gmp_cond_wait(&c, &m);
	survived = 1;
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
