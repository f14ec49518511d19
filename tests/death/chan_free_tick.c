/* SPDX-License-Identifier: MIT */
/* gmp_chan_free of a tick channel: fatal error. */
#include <gmp.h>

static void culprit(void *arg)
{
	(void)arg;
	gmp_chan_free(gmp_tick_new(gmp_deadline(1000000000), 0));
}

int main(void)
{
	gmp_run(culprit, NULL, NULL);
	return 0;
}
