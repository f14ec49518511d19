/* SPDX-License-Identifier: MIT */
/* The thread of a dump by signal does not prevent the report of a deadlock. */
#include <signal.h>

#include "deadlock_util.h"

static void app(void *arg)
{
	(void)arg;
	NEED(gmp_dump_on(SIGUSR1) == 0);
	raise(SIGUSR1);
	gmp_sleep(100 * GMP_MS);
	wait_forever();
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
