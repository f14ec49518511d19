/* SPDX-License-Identifier: MIT */
/* Tests of SipHash: the vector of the paper, and others that CPython 3.11 has computed. */
#include "check.h"

#include "siphash.h"

static const char *count_up(char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		bytes[i] = (char)i;
	return bytes;
}

/* Appendix A of the paper: key 00 01 ... 0f, message 00 01 ... 0e. */
TEST(siphash24_vector_of_paper_matches)
{
	const struct siphash_key key = { { 0x0706050403020100u, 0x0f0e0d0c0b0a0908u } };
	char bytes[15];

	CHECK(siphash24(&key, count_up(bytes, 15), 15) == 0xa129ca6149be45e5u);
}

/* hash(bytes(range(n))) of CPython with PYTHONHASHSEED=0, which makes the key 0. */
TEST(siphash13_vectors_of_cpython_match)
{
	static const struct {
		size_t n;
		uint64_t hash;
	} vectors[] = {
		{ 1, 0x68a914128e01e473u },  { 7, 0x2f098ab0c751325au },
		{ 8, 0xead411e67ebe2eeau },  { 9, 0x75927f9d95124362u },
		{ 15, 0xf30eb725bb91c9eau }, { 16, 0x8972188433a5c5b7u },
		{ 17, 0x4883c49a2c009c1du }, { 63, 0x385d3e39e5f37359u },
	};
	const struct siphash_key key = { { 0, 0 } };
	char bytes[64];

	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++)
		CHECK(siphash13(&key, count_up(bytes, vectors[i].n), vectors[i].n) ==
		      vectors[i].hash);
}

TEST(siphash13_depends_on_key_and_length)
{
	const struct siphash_key zero = { { 0, 0 } };
	const struct siphash_key one = { { 1, 0 } };
	const struct siphash_key high = { { 0, UINT64_C(1) << 63 } };
	const char bytes[2] = { 0 };

	CHECK(siphash13(&zero, bytes, 0) != siphash13(&zero, bytes, 1));
	CHECK(siphash13(&zero, bytes, 1) != siphash13(&zero, bytes, 2));
	CHECK(siphash13(&zero, bytes, 2) != siphash13(&one, bytes, 2));
	CHECK(siphash13(&zero, bytes, 2) != siphash13(&high, bytes, 2));
}
