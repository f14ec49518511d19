/* SPDX-License-Identifier: MIT */
/* A trace by gmp_trace_start does not prevent the report of a deadlock. */
#include "deadlock_util.h"

static void app(void *arg)
{
	(void)arg;
	NEED(gmp_trace_start("/dev/null") == 0);
	wait_forever();
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
