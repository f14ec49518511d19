/* SPDX-License-Identifier: MIT */
/*
 * Tests cycle detection: a cycle of waits is reported once while other green threads run; a cycle
 * that a timeout can end is not.
 */
#include "stderr_util.h"

#include <stdbool.h>

static void wait_caught(const char *what)
{
	int64_t limit = gmp_deadline(PATIENCE);

	while (!strstr(caught(), what)) {
		if (gmp_now() > limit)
			check_failed("\"%s\" is not in:\n%s", what, caught());
		gmp_sleep(20 * MS);
	}
}

static gmp_mutex a, b, timed_a, timed_b, held;
static gmp_rwmutex rw;
static gmp_barrier both = GMP_BARRIER_INIT(2), timed_both = GMP_BARRIER_INIT(2),
		   mixed_both = GMP_BARRIER_INIT(2);
static gmp_g *joined;

static void a_then_b(UNUSED void *arg)
{
	gmp_mutex_lock(&a);
	gmp_barrier_wait(&both);
	gmp_mutex_lock(&b);
	no_more();
}

static void b_then_a(UNUSED void *arg)
{
	gmp_mutex_lock(&b);
	gmp_barrier_wait(&both);
	gmp_mutex_lock(&a);
	no_more();
}

/* This cycle ends by a timeout. */
static void timed_a_then_b(UNUSED void *arg)
{
	gmp_mutex_lock(&timed_a);
	gmp_barrier_wait(&timed_both);
	gmp_mutex_lock_until(&timed_b, gmp_deadline(3600 * SEC));
	no_more();
}

static void timed_b_then_a(UNUSED void *arg)
{
	gmp_mutex_lock(&timed_b);
	gmp_barrier_wait(&timed_both);
	gmp_mutex_lock(&timed_a);
	no_more();
}

static void wait_rlock(UNUSED void *arg)
{
	gmp_barrier_wait(&mixed_both);
	gmp_rwmutex_rlock(&rw);
	no_more();
}

static void join_reader(UNUSED void *arg)
{
	gmp_rwmutex_lock(&rw);
	gmp_barrier_wait(&mixed_both);
	gmp_join(joined);
	no_more();
}

static void wait_held(UNUSED void *arg)
{
	gmp_mutex_lock(&held);
	no_more();
}

/* Everything waits until the end of the run, except the caller, which holds `held`. */
RT(cycle_of_waits_is_reported_once_while_others_run)
{
	char want[128];
	gmp_g *g[2], *h;

	catch_stderr();
	gmp_mutex_lock(&held);
	spawn(wait_held, NULL); /* a long wait, but in no cycle */
	spawn(timed_a_then_b, NULL);
	spawn(timed_b_then_a, NULL);
	g[0] = spawn_named("first", a_then_b, NULL);
	g[1] = spawn_named("second", b_then_a, NULL);
	wait_caught("gmp: cycle of mutexes: ");
	snprintf(want, sizeof(want), "gmp: cycle of mutexes: %llu -> %llu -> %llu; ",
		 (unsigned long long)gmp_id(g[0]), (unsigned long long)gmp_id(g[1]),
		 (unsigned long long)gmp_id(g[0]));
	if (!strstr(caught(), want))
		snprintf(want, sizeof(want), "gmp: cycle of mutexes: %llu -> %llu -> %llu; ",
			 (unsigned long long)gmp_id(g[1]), (unsigned long long)gmp_id(g[0]),
			 (unsigned long long)gmp_id(g[1]));
	check_has(caught(), want);
	wait_caught("\"first\" (entry a_then_b), waiting for ");
	wait_caught("\"second\" (entry b_then_a), waiting for ");
	wait_caught(" b_then_a+0x");

	/* a second waiter makes sysmon search again */
	joined = spawn(wait_rlock, NULL);
	h = spawn(join_reader, NULL);
	wait_caught("gmp: cycle of waits: ");
	snprintf(want, sizeof(want), " %llu -> ", (unsigned long long)gmp_id(h));
	check_has(strstr(caught(), "gmp: cycle of waits: "), want);
	CHECK_EQ(count(caught(), "gmp: cycle of mutexes: "), 1);
	CHECK_EQ(count(caught(), "gmp: cycle of "), 2);
	restore_stderr();
}
