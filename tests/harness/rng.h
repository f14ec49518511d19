/* SPDX-License-Identifier: MIT */
/*
 * Random numbers that a seed repeats, for programs with many threads: each thread has its own
 * generator, derived from its number.
 */
#ifndef TESTS_RNG_H
#define TESTS_RNG_H

#include <stdint.h>

struct rng {
	uint64_t s;
	unsigned actor; /* the id modulo 1000 */
};

static inline struct rng rng_of(uint64_t seed, uint64_t id)
{
	return (struct rng){ (seed * 1000003 + id) * UINT64_C(0x9e3779b97f4a7c15) | 1,
			     (unsigned)(id % 1000) };
}

/* Returns a number in 0 .. n-1. */
static inline unsigned draw(struct rng *r, unsigned n)
{
	r->s ^= r->s << 13;
	r->s ^= r->s >> 7;
	r->s ^= r->s << 17;
	return (unsigned)((r->s * UINT64_C(0x2545f4914f6cdd1d)) >> 33) % n;
}

#endif
