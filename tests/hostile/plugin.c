/* SPDX-License-Identifier: MIT */
/* A plugin that starts, uses and stops its copy of gmp. */
#include <gmp.h>

__attribute__((visibility("default"))) int plugin_start(void);
__attribute__((visibility("default"))) int plugin_stop(void);

static gmp_chan *done;

static void work(void *arg)
{
	int v = 1;

	(void)arg;
	gmp_sleep(GMP_MS);
	gmp_chan_send(done, &v);
}

int plugin_start(void)
{
	int v, err = gmp_start(NULL);

	if (err)
		return err;
	done = gmp_chan_new(sizeof(int), 0);
	if (!done || gmp_go(work, NULL) < 0)
		return -1;
	err = gmp_chan_recv(done, &v);
	gmp_chan_free(done);
	return err;
}

int plugin_stop(void)
{
	return gmp_stop();
}
