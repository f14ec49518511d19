/* SPDX-License-Identifier: MIT */
/* Does a runtime that cannot begin say why, and leave nothing?  And one that can, end? */
#include "faults.h"

#include <errno.h>

static void nothing(void *arg)
{
	(void)arg;
}

SWEEP(a_run_begins_and_ends)
{
	in_run(procs, nothing, NULL);
}

SWEEP(a_runtime_starts_and_stops)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.procs = procs;
	if (ASK(gmp_start(&cfg)) == 0)
		CHECK_EQ(gmp_stop(), 0);
	else
		CHECK_EQ(gmp_stop(), -ESRCH);
}

SWEEP(a_runtime_of_its_own_choice_starts_and_stops)
{
	if (ASK(gmp_start(NULL)) == 0)
		CHECK_EQ(gmp_stop(), 0);
}

static void resize(void *arg)
{
	int *procs = arg;

	for (int n = 1; n <= 6; n++)
		ASK(gmp_set_procs(n));
	ASK(gmp_set_procs(*procs));
}

SWEEP(the_number_of_ps_changes)
{
	in_run(procs, resize, &procs);
}
