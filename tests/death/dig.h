/* SPDX-License-Identifier: MIT */
/* Endless recursion, DIG_BYTES of stack per call, by a function that a report can name. */
#ifndef TESTS_DEATH_DIG_H
#define TESTS_DEATH_DIG_H

#ifndef DIG_BYTES
#define DIG_BYTES 200
#endif

int dig(volatile int depth);

__attribute__((noinline)) int dig(volatile int depth)
{
	volatile char earth[DIG_BYTES];

	earth[0] = (char)depth;
	return depth < 0 ? 0 : dig(depth + 1) + earth[0];
}

#endif
