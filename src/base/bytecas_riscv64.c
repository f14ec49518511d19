/* SPDX-License-Identifier: MIT */
/*
 * Compare-and-swap of a byte for riscv64.
 *
 * The instructions lr and sc access at least four bytes.  GCC before 14 calls a function of
 * libatomic for a byte.  This file defines that function for the library alone, so that programs do
 * not need libatomic.
 */
#include "base/base.h"

bool gmp__cas_byte(volatile void *at, void *expected, uint8_t desired, int success,
		   int failure) __asm__("__atomic_compare_exchange_1");

typedef uint32_t __attribute__((may_alias)) word_of_bytes;

/* Orders as the strongest memory order does, whatever success and failure ask for. */
bool gmp__cas_byte(volatile void *at, void *expected, uint8_t desired, int success, int failure)
{
	volatile word_of_bytes *word = (volatile word_of_bytes *)((uintptr_t)at & ~(uintptr_t)3);
	unsigned shift = (unsigned)((uintptr_t)at & 3) * 8;
	uint8_t *old = expected;
	uint32_t found = __atomic_load_n(word, __ATOMIC_SEQ_CST), changed;

	(void)success;
	(void)failure;
	do {
		uint8_t byte = (uint8_t)(found >> shift);

		if (byte != *old) {
			*old = byte;
			return false;
		}
		changed = (found & ~(UINT32_C(0xff) << shift)) | (uint32_t)desired << shift;
	} while (!__atomic_compare_exchange_n(word, &found, changed, 1, __ATOMIC_SEQ_CST,
					      __ATOMIC_SEQ_CST));
	return true;
}
