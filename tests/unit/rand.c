/* SPDX-License-Identifier: MIT */
/* Tests that the random numbers repeat with the seed, stay below their bound, and are uniform. */
#define _GNU_SOURCE 1
#include "check.h"

#include "base/rand.h"

#include <stdlib.h>

TEST(rand_same_seed_repeats_sequence)
{
	uint64_t a = 1, b = 1, c = 2;
	int same = 0;

	for (int i = 0; i < 1000; i++) {
		uint64_t v = rand_next(&a);

		CHECK(v == rand_next(&b));
		same += v == rand_next(&c);
	}
	CHECK_EQ(same, 0);
}

TEST(rand_below_stays_below_bound)
{
	static const uint32_t bound[] = { 1, 2, 3, 7, 61, 1024, UINT32_MAX };
	uint64_t state = 3;

	for (size_t i = 0; i < countof(bound); i++) {
		for (int k = 0; k < 10000; k++)
			CHECK(rand_below(&state, bound[i]) < bound[i]);
	}
}

/* Chi-square with 9 degrees of freedom: above 40 about once in 100,000 seeds; the seed is fixed. */
TEST(rand_below_is_uniform)
{
	uint64_t state = 4;
	double chi = 0;
	int seen[10] = { 0 };

	for (int i = 0; i < 100000; i++)
		seen[rand_below(&state, 10)]++;
	for (int i = 0; i < 10; i++)
		chi += (seen[i] - 10000.0) * (seen[i] - 10000.0) / 10000.0;
	CHECK(chi < 40);
}

TEST(rand_next_each_bit_is_set_half_of_the_time)
{
	uint64_t state = 5;
	int ones[64] = { 0 };

	for (int i = 0; i < 10000; i++) {
		uint64_t v = rand_next(&state);

		for (int b = 0; b < 64; b++)
			ones[b] += v >> b & 1;
	}
	for (int b = 0; b < 64; b++)
		CHECK(ones[b] > 4700 && ones[b] < 5300);
}

/* Also for the small seeds that users choose. */
TEST(rand_small_seeds_start_differently)
{
	int seen[16] = { 0 };

	for (uint64_t seed = 0; seed < 1600; seed++) {
		uint64_t state = seed;

		seen[rand_below(&state, 16)]++;
	}
	for (int i = 0; i < 16; i++)
		CHECK(seen[i] > 50 && seen[i] < 150);
}

static int cmp(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

TEST(rand_start_streams_of_one_seed_are_disjoint)
{
	enum { STREAMS = 64, DRAWS = 1000 };
	static uint64_t drawn[STREAMS * DRAWS];

	for (uint64_t seed = 0; seed < 5; seed++) {
		for (uint64_t id = 0; id < STREAMS; id++) {
			uint64_t state = rand_start(seed, id);

			for (int i = 0; i < DRAWS; i++)
				drawn[id * DRAWS + (uint64_t)i] = rand_next(&state);
		}
		qsort(drawn, STREAMS * DRAWS, sizeof(drawn[0]), cmp);
		for (int i = 1; i < STREAMS * DRAWS; i++)
			CHECK(drawn[i] != drawn[i - 1]);
	}
}
