/* SPDX-License-Identifier: MIT */
/* Runs the runtime with a given number of Ps. */
#ifndef TESTS_RT_H
#define TESTS_RT_H

#include <gmp.h>

#include "check.h"

/*
 * gmp_run with that many Ps and at most max_threads threads (0: the default). A failed start ends
 * the case.
 */
static inline int run_bounded(int procs, int max_threads, gmp_fn fn, void *arg)
{
	gmp_config cfg = GMP_CONFIG_INIT;
	int err;

	cfg.procs = procs;
	cfg.max_threads = max_threads;
	err = gmp_run(fn, arg, &cfg);
	CHECK_EQ(err, 0);
	return err;
}

static inline int run_procs(int procs, gmp_fn fn, void *arg)
{
	return run_bounded(procs, 0, fn, arg);
}

#endif
