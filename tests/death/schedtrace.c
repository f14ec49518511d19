/* SPDX-License-Identifier: MIT */
/* GMP_DEBUG=schedtrace,scheddetail writes reports, also while all Ps are idle. */
#include <stdlib.h>

#include <gmp.h>

static void app(void *arg)
{
	(void)arg;
	gmp_sleep(2500 * GMP_MS);
	exit(7);
}

int main(void)
{
	gmp_config c = GMP_CONFIG_INIT;

	setenv("GMP_DEBUG", "schedtrace=400,scheddetail=1", 1);
	c.procs = 2;
	return gmp_run(app, NULL, &c) != 0;
}
