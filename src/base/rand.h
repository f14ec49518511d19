/* SPDX-License-Identifier: MIT */
/* Where does chance come from?  From a wyrand generator in each P and M, so that a draw costs two
 * multiplications and no shared word, and a seed repeats the draws. */
#ifndef GMP_RAND_H
#define GMP_RAND_H

#include "base/base.h"

static inline uint64_t rand_next(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15u;
	__uint128_t x = (__uint128_t)*state * (*state ^ 0xd1342543de82ef95u);

	return (uint64_t)x ^ (uint64_t)(x >> 64);
}

/* uniform in [0, n), n > 0 */
static inline uint32_t rand_below(uint64_t *state, uint32_t n)
{
	return (uint32_t)(((rand_next(state) >> 32) * n) >> 32);
}

#endif
