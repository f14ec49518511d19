/* SPDX-License-Identifier: MIT */
/* A runtime that cannot start reports an error and leaks nothing; a started runtime stops. */
#include "faults.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

static void nothing(void *arg)
{
	(void)arg;
}

SWEEP(run_starts_and_ends)
{
	in_run(procs, nothing, NULL);
}

SWEEP(run_with_check_mode_starts_and_ends)
{
	setenv("GMP_DEBUG", "check", 1);
	in_run(procs, nothing, NULL);
	unsetenv("GMP_DEBUG");
}

SWEEP(runtime_starts_and_stops)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.procs = procs;
	if (ASK(gmp_start(&cfg)) == 0)
		CHECK_EQ(gmp_stop(), 0);
	else
		CHECK_EQ(gmp_stop(), -ESRCH);
}

SWEEP(runtime_with_options_starts_and_stops)
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

SWEEP(procs_change_succeeds_or_keeps_old_number)
{
	in_run(procs, resize, &procs);
}

static atomic_int started;

static void count_start(void *arg)
{
	(void)arg;
	atomic_fetch_add(&started, 1);
}

/* Thread mode ignores stack_size.  The timer's G needs an OS thread of its own. */
static void use_threads(void *arg)
{
	gmp_g *g[4] = { NULL };
	gmp_attr a = GMP_ATTR_INIT;
	int n = 0, before = atomic_load(&started);

	(void)arg;
	a.stack_size = 64 << 10;
	for (int i = 0; i < 4; i++) {
		if (ASK_OR(gmp_spawn(&g[n], count_start, NULL, i % 2 ? &a : NULL), -EAGAIN) == 0)
			n++;
	}
	for (int i = 0; i < n; i++)
		CHECK_EQ(gmp_join(g[i]), 0);
	CHECK_EQ(atomic_load(&started), before + n);
	gmp_timer *t = ASK_PTR(gmp_timer_new(count_start, NULL));

	if (t) {
		CHECK_EQ(gmp_timer_set(t, gmp_now(), 0), 0);
		gmp_sleep(1000000);
		plan_end();
		while (atomic_load(&started) == before + n)
			gmp_yield();
		gmp_timer_free(t);
	}
}

SWEEP(thread_mode_spawns_start_or_report_error)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.procs = procs;
	cfg.max_green = 5000;
	cfg.sched = GMP_SCHED_THREAD;
	ASK_OR(gmp_run(use_threads, NULL, &cfg), -EAGAIN);
}
