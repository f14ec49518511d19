/* SPDX-License-Identifier: MIT */
/* gmp_tick_free of a plain channel: fatal error. */
#include <gmp.h>

static void culprit(void *arg)
{
	(void)arg;
	gmp_tick_free(gmp_chan_new(sizeof(int64_t), 1));
}

int main(void)
{
	gmp_run(culprit, NULL, NULL);
	return 0;
}
