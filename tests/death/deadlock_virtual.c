/* SPDX-License-Identifier: MIT */
/* In virtual time, a deadlock is detected after the last timer has expired. */
#include <stddef.h>

#include <gmp.h>

static void nap(void *arg)
{
	gmp_sleep((int64_t)3600 * 1000000000);
	gmp_chan_recv(arg, NULL);
}

static void app(void *arg)
{
	gmp_chan *c = gmp_chan_new(0, 0);

	(void)arg;
	gmp_go(nap, c);
	gmp_chan_recv(c, NULL);
}

int main(void)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = 2;
	c.flags = GMP_VIRTUAL_TIME;
	return gmp_run(app, NULL, &c);
}
