/* SPDX-License-Identifier: MIT */
/* Random numbers: a wyrand generator for each P and M. A draw costs two multiplications and touches
 * no shared memory, and a seed reproduces the sequence. */
#ifndef GMP_RAND_H
#define GMP_RAND_H

#include "base/base.h"

#define RAND_STEP 0x9e3779b97f4a7c15u

static inline uint64_t rand_next(uint64_t *state)
{
	*state += RAND_STEP;
	__uint128_t x = (__uint128_t)*state * (*state ^ 0xd1342543de82ef95u);

	return (uint64_t)x ^ (uint64_t)(x >> 64);
}

/* Return the initial state of the id-th generator of a seed. All generators walk the same cycle of
 * states, from different points. */
static inline uint64_t rand_start(uint64_t seed, uint64_t id)
{
	uint64_t state = seed ^ id * 0xd1342543de82ef95u;

	return rand_next(&state);
}

/* Return a uniform number in [0, n), n > 0. */
static inline uint32_t rand_below(uint64_t *state, uint32_t n)
{
	return (uint32_t)(((rand_next(state) >> 32) * n) >> 32);
}

#endif
