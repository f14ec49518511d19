/* SPDX-License-Identifier: MIT */
/*
 * Deadlock in selects: one on both sides of a channel without a partner, one of NULL channels, one
 * without cases.
 */
#include <stddef.h>

#include <gmp.h>

static gmp_chan *c;

static void both_sides(void *arg)
{
	int v = 1;
	gmp_case cs[] = { GMP_SEND_CASE(c, &v), GMP_RECV_CASE(c, &v) };

	(void)arg;
	gmp_select(cs, 2);
}

static void null_channels(void *arg)
{
	gmp_case cs[] = { GMP_SEND_CASE(NULL, NULL), GMP_RECV_CASE(NULL, NULL) };

	(void)arg;
	gmp_select(cs, 2);
}

static void app(void *arg)
{
	(void)arg;
	c = gmp_chan_new(sizeof(int), 0);
	gmp_go(both_sides, NULL);
	gmp_go(null_channels, NULL);
	gmp_select(NULL, 0);
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
