/* SPDX-License-Identifier: MIT */
/* A channel is freed as if it were a tick. */
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
