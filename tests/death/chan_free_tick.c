/* SPDX-License-Identifier: MIT */
/* A tick is freed as if it were any channel. */
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
