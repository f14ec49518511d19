/* SPDX-License-Identifier: MIT */
/* Deadlock of a green thread that locks a mutex twice, alone on one P. */
#include <gmp.h>

static gmp_mutex m = GMP_MUTEX_INIT;

static void app(void *arg)
{
	(void)arg;
	gmp_mutex_lock(&m);
	gmp_mutex_lock(&m);
}

int main(void)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = 1;
	gmp_run(app, NULL, &c);
	return 0;
}
