/* SPDX-License-Identifier: MIT */
/* What do tests of the running runtime share?  A run with a given number of Ps. */
#ifndef TESTS_RT_H
#define TESTS_RT_H

#include <gmp.h>

#include "check.h"

/* gmp_run with that many Ps; a start that fails ends the case. */
static inline int run_procs(int procs, gmp_fn fn, void *arg)
{
	gmp_config cfg = GMP_CONFIG_INIT;
	int err;

	cfg.procs = procs;
	err = gmp_run(fn, arg, &cfg);
	CHECK_EQ(err, 0);
	return err;
}

#endif
