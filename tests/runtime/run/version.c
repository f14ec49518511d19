/* SPDX-License-Identifier: MIT */
/* Tests the values and types of the version macros and of the time units. */
#include "rt.h"

#include <stdio.h>
#include <string.h>

TEST(version_string_is_the_version_of_the_header)
{
	char want[64];

	snprintf(want, sizeof(want), "%d.%d.%d", GMP_VERSION_MAJOR, GMP_VERSION_MINOR,
		 GMP_VERSION_PATCH);
	CHECK(strcmp(gmp_version_string(), want) == 0);
}

TEST(time_units_are_int64_nanoseconds)
{
	CHECK(_Generic(GMP_US, int64_t : 1, default : 0));
	CHECK(_Generic(GMP_MS, int64_t : 1, default : 0));
	CHECK(_Generic(GMP_S, int64_t : 1, default : 0));
	CHECK(GMP_US == 1000 && GMP_MS == 1000 * GMP_US && GMP_S == 1000 * GMP_MS);
}
