/* SPDX-License-Identifier: MIT */
/* Helpers for the tests of green threads: a counter, and a gate to wait at. */
#ifndef TESTS_RUNTIME_GREEN_UTIL_H
#define TESTS_RUNTIME_GREEN_UTIL_H

#include "util.h"

static atomic_int count;
static gmp_wg gate;

UNUSED static void add_one(UNUSED void *arg)
{
	atomic_fetch_add(&count, 1);
}

UNUSED static void wait_gate(UNUSED void *arg)
{
	CHECK_EQ(gmp_wg_wait(&gate), 0);
	atomic_fetch_add(&count, 1);
}

#endif
