/* SPDX-License-Identifier: MIT */
/* Deadlock through a channel: a G sends with a mutex held, and the receiver waits for the mutex. */
#include <gmp.h>

static gmp_mutex mutex;
static gmp_chan *c;
static volatile int woken; /* so that no call is a jump */

static void sender(void *arg)
{
	(void)arg;
	gmp_mutex_lock(&mutex);
	gmp_chan_send(c, NULL);
	woken = 1;
}

static void receiver(void *arg)
{
	(void)arg;
	gmp_mutex_lock(&mutex);
	gmp_chan_recv(c, NULL);
	woken = 1;
}

static void app(void *arg)
{
	gmp_g *g[2];

	(void)arg;
	c = gmp_chan_new(0, 0);
	if (gmp_spawn(&g[0], sender, NULL, NULL))
		return;
	gmp_yield();
	if (gmp_spawn(&g[1], receiver, NULL, NULL))
		return;
	gmp_join(g[1]);
	woken = 1;
}

int main(void)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.procs = 1;
	gmp_run(app, NULL, &cfg);
	return 0;
}
