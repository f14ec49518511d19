/* SPDX-License-Identifier: MIT */
/* schedtrace while stderr is a full pipe without a reader: the program runs on and ends. */
#include "slow_stderr.h"

#include <gmp.h>

static void app(void *arg)
{
	(void)arg;
	gmp_sleep(100 * GMP_MS);
}

int main(void)
{
	int fd[2];

	(void)!write(2, "about to run\n", 13);
	if (pipe(fd) != 0)
		return 1;
	slow_fill(fd[1]);
	dup2(fd[1], 2);
	setenv("GMP_DEBUG", "schedtrace=1,scheddetail=1", 1);
	return gmp_run(app, NULL, NULL) == 0 ? 7 : 1;
}
