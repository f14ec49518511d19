/* SPDX-License-Identifier: MIT */
/* A profile delays the report of a deadlock until its green thread has ended, no longer. */
#include <errno.h>
#include <fcntl.h>

#include "deadlock_util.h"

static void profile(void *arg)
{
	(void)arg;
	int err = gmp_profile_write("cpu", 1, open("/dev/null", O_WRONLY));

	NEED(err == 0 || err == -ENOTSUP);
}

static void app(void *arg)
{
	(void)arg;
	NEED(gmp_go(profile, NULL) == 0);
	wait_forever();
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
