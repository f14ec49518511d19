/* SPDX-License-Identifier: MIT */
/* Helpers for the tests of groups: functions of children, and counters. */
#ifndef TESTS_RUNTIME_GROUP_UTIL_H
#define TESTS_RUNTIME_GROUP_UTIL_H

#include "util.h"

static atomic_int count, running, stop;
static gmp_group *group;

UNUSED static gmp_group *make(int limit, int64_t deadline)
{
	gmp_group *g = gmp_group_new(limit, deadline);

	CHECK(g != NULL);
	return g;
}

UNUSED static int nothing(UNUSED void *arg)
{
	atomic_fetch_add(&count, 1);
	return 0;
}

UNUSED static int return_arg(void *arg)
{
	atomic_fetch_add(&count, 1);
	return (int)(intptr_t)arg;
}

UNUSED static int until_stop(UNUSED void *arg)
{
	atomic_fetch_add(&count, 1);
	while (!atomic_load(&stop))
		gmp_yield();
	return 0;
}

UNUSED static int until_cancelled(UNUSED void *arg)
{
	atomic_fetch_add(&running, 1);
	CHECK_EQ(gmp_sleep(100 * SEC), -ECANCELED);
	CHECK_EQ(gmp_cancelled(), 1);
	atomic_fetch_add(&count, 1);
	return -ECANCELED;
}

UNUSED static int expect_cancelled(UNUSED void *arg)
{
	CHECK_EQ(gmp_cancelled(), 1);
	CHECK_EQ(gmp_sleep(100 * SEC), -ECANCELED);
	atomic_fetch_add(&count, 1);
	return 0;
}

UNUSED static int expect_not_cancelled(UNUSED void *arg)
{
	CHECK_EQ(gmp_cancelled(), 0);
	CHECK_EQ(gmp_sleep(US), 0);
	atomic_fetch_add(&count, 1);
	return 0;
}

#endif
