/* SPDX-License-Identifier: MIT */
/* Tests that finding_wanted accepts each place once, and at most FINDINGS_MOST places of a kind. */
#define _GNU_SOURCE 1
#include "check.h"

#include <pthread.h>

#include "base/atomic.h"
#include "base/finding.h"

static struct findings found;

TEST(finding_place_is_wanted_once)
{
	CHECK(finding_wanted(&found, 7));
	CHECK(!finding_wanted(&found, 7));
	CHECK(finding_wanted(&found, 8));
	CHECK(finding_wanted(&found, 0)); /* an unknown place */
	CHECK(!finding_wanted(&found, 0));
	CHECK(!finding_wanted(&found, 8));
	CHECK(!finding_full(&found));
}

TEST(finding_above_maximum_is_not_wanted)
{
	for (uint64_t i = 0; i < FINDINGS_MOST; i++) {
		CHECK(!finding_full(&found));
		CHECK(finding_wanted(&found, 100 + i));
	}
	CHECK(finding_full(&found));
	CHECK(!finding_wanted(&found, 99));
	CHECK(!finding_wanted(&found, 100));
}

static int wanted;

static void *find_all(void *arg)
{
	for (uint64_t i = 1; i < FINDINGS_MOST; i++)
		add_rlx(&wanted, finding_wanted(&found, i));
	return arg;
}

TEST(finding_of_two_threads_is_wanted_once)
{
	for (int round = 1; round <= 200; round++) {
		pthread_t t;

		found = (struct findings){ { 0 } };
		CHECK_EQ(pthread_create(&t, NULL, find_all, NULL), 0);
		find_all(NULL);
		CHECK_EQ(pthread_join(t, NULL), 0);
		CHECK_EQ(wanted, round * (FINDINGS_MOST - 1));
	}
}

TEST(finding_wait_differs_by_call_and_subject)
{
	struct trace t = { .n = 1, .pc = { 1000 } };
	uint64_t first = finding_wait(&t, &t);

	CHECK_EQ(first, finding_wait(&t, &t));
	CHECK(first != finding_wait(&t, &found));
	t.pc[0] = 1001;
	CHECK(first != finding_wait(&t, &t));
}
