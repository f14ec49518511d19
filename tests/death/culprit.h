/* SPDX-License-Identifier: MIT */
/* Runs a misuse on a green thread named "the-culprit", which the report must name. */
#ifndef TESTS_DEATH_CULPRIT_H
#define TESTS_DEATH_CULPRIT_H

#include <gmp.h>

static inline void run_culprit(gmp_fn culprit)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g;

	a.name = "the-culprit";
	if (gmp_spawn(&g, culprit, NULL, &a) == 0)
		gmp_join(g);
}

static inline void culprit_app(void *arg)
{
	run_culprit(*(gmp_fn *)arg);
}

/* A run without other green threads; returns the exit status for main. */
static inline int run_with_culprit(gmp_fn culprit)
{
	gmp_run(culprit_app, &culprit, NULL);
	return 0;
}

/* A run on one P. */
static inline int run_on_one_p(gmp_fn app)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.procs = 1;
	gmp_run(app, NULL, &cfg);
	return 0;
}

#endif
