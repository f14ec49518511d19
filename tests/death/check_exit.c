/* SPDX-License-Identifier: MIT */
/*
 * With GMP_DEBUG=check, a finding that is being written when the program calls exit is still
 * written. stderr is a full pipe until then.
 */
#include "slow_stderr.h"

#include <stdlib.h>

#include <gmp.h>

__attribute__((noinline)) void compute(void)
{
	while (!slow_is_written_to())
		for (int64_t end = gmp_deadline(1000000); gmp_now() < end;)
			;
}

static void app(void *arg)
{
	(void)arg;
	compute();
	slow_let_go();
	exit(0);
}

static int body(void)
{
	setenv("GMP_DEBUG", "check", 1);
	gmp_run(app, NULL, NULL);
	return 3;
}

int main(void)
{
	return slow_run(body);
}
