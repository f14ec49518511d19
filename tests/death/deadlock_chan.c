/* SPDX-License-Identifier: MIT */
/* Deadlock on channels: one G sends, one receives, one waits for a tick that came already. */
#include <gmp.h>

static gmp_chan *full, *empty, *tick;

static void sends(void *arg)
{
	int v = 1;

	(void)arg;
	while (gmp_chan_send(full, &v) == 0)
		;
}

static void receives(void *arg)
{
	(void)arg;
	gmp_chan_recv(empty, NULL);
}

static void app(void *arg)
{
	(void)arg;
	full = gmp_chan_new(sizeof(int), 3);
	empty = gmp_chan_new(sizeof(int), 3);
	tick = gmp_tick_new(gmp_deadline(10000000), 0);
	gmp_go(sends, NULL);
	gmp_go(receives, NULL);
	while (gmp_chan_recv(tick, NULL) == 0)
		;
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
