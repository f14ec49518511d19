/* SPDX-License-Identifier: MIT */
/*
 * Tests that longrun_classify distinguishes the three causes of a long run. Its cases compare
 * times: each needs a CPU.
 */
#define _GNU_SOURCE 1
#include "check.h"

#include "observe/longrun.h"

TEST(longrun_mostly_on_cpu_is_computing_in_any_state)
{
	CHECK_EQ(longrun_classify(12 * MS, 6 * MS, 6 * MS, 'R'), LONGRUN_COMPUTES);
	CHECK_EQ(longrun_classify(12 * MS, 11 * MS, 0, 'S'), LONGRUN_COMPUTES);
	CHECK_EQ(longrun_classify(12 * MS, 12 * MS, -1, 0), LONGRUN_COMPUTES);
}

TEST(longrun_mostly_runnable_is_starved)
{
	CHECK_EQ(longrun_classify(12 * MS, 2 * MS, 6 * MS, 'R'), LONGRUN_STARVED);
	CHECK_EQ(longrun_classify(12 * MS, 2 * MS, 9 * MS, 'S'), LONGRUN_STARVED);
}

TEST(longrun_mostly_asleep_is_sleeping)
{
	CHECK_EQ(longrun_classify(12 * MS, 0, 0, 'S'), LONGRUN_SLEEPS);
	CHECK_EQ(longrun_classify(12 * MS, 1 * MS, 4 * MS, 'D'), LONGRUN_SLEEPS);
	CHECK_EQ(longrun_classify(12 * MS, 1 * MS, -1, 'S'), LONGRUN_SLEEPS);
}

TEST(longrun_mixed_causes_are_decided_after_100_ms)
{
	CHECK_EQ(longrun_classify(12 * MS, 5 * MS, 4 * MS, 'S'), LONGRUN_UNKNOWN);
	CHECK_EQ(longrun_classify(12 * MS, 1 * MS, 0, 'R'), LONGRUN_UNKNOWN);
	/* a delay that has not ended is not counted */
	CHECK_EQ(longrun_classify(100 * MS, 1 * MS, 0, 'R'), LONGRUN_STARVED);
	CHECK_EQ(longrun_classify(100 * MS, 40 * MS, 35 * MS, 'S'), LONGRUN_COMPUTES);
	CHECK_EQ(longrun_classify(100 * MS, 30 * MS, 25 * MS, 'S'), LONGRUN_SLEEPS);
	CHECK_EQ(longrun_classify(100 * MS, 30 * MS, 45 * MS, 'S'), LONGRUN_STARVED);
}
