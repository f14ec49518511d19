/* SPDX-License-Identifier: MIT */
/* Deadlock after a signal subscription was stopped: no event can occur any more. */
#include <signal.h>

#include <gmp.h>

static void app(void *arg)
{
	gmp_chan *c = gmp_chan_new(sizeof(int), 0);

	(void)arg;
	if (gmp_signal_notify(c, SIGUSR1) || gmp_signal_stop(c, SIGUSR1))
		return;
	gmp_chan_recv(c, NULL);
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
