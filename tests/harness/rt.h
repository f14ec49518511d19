/* SPDX-License-Identifier: MIT */
/* Runs the runtime with a given number of Ps. */
#ifndef TESTS_RT_H
#define TESTS_RT_H

#include <gmp.h>

#include "check.h"

/*
 * gmp_run with that many Ps, at most max_threads threads (0: the default) and the flags of
 * gmp_config. A failed start ends the case.
 */
static inline int run_configured(int procs, int max_threads, unsigned flags, gmp_fn fn, void *arg)
{
	gmp_config cfg = GMP_CONFIG_INIT;
	int err;

	cfg.procs = procs;
	cfg.max_threads = max_threads;
	cfg.flags = flags;
	err = gmp_run(fn, arg, &cfg);
	CHECK_EQ(err, 0);
	return err;
}

static inline int run_bounded(int procs, int max_threads, gmp_fn fn, void *arg)
{
	return run_configured(procs, max_threads, 0, fn, arg);
}

/* Without preemption: a green thread keeps its P while it computes. */
static inline int run_cooperative(int procs, gmp_fn fn, void *arg)
{
	return run_configured(procs, 0, GMP_COOPERATIVE, fn, arg);
}

static inline int run_procs(int procs, gmp_fn fn, void *arg)
{
	return run_bounded(procs, 0, fn, arg);
}

#endif
