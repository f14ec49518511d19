/* SPDX-License-Identifier: MIT */
/* Attributes that libc notes in its objects: found by trial, since versions of glibc differ. */
#ifndef GMP_POSIX_ATTRIBUTE_H
#define GMP_POSIX_ATTRIBUTE_H

#include "base/atomic.h"

/* Where an attribute is noted: the index of a word, above 8 bits with its mask in that word.  The
 * two objects were zero bytes before libc has initialized them, `with` with the attribute.
 * Returns 0 if they are equal. */
static inline uint32_t attribute_place(const void *without, const void *with, size_t bytes)
{
	const uint32_t *a = without, *b = with;

	for (uint32_t i = 0; i < bytes / sizeof(*a); i++)
		if (a[i] != b[i])
			return i << 8 | (uint8_t)(a[i] ^ b[i]);
	return 0;
}

static inline bool attribute_is_set(const void *object, uint32_t place)
{
	const uint32_t *words = object;

	return ld_rlx(&words[place >> 8]) & (uint8_t)place;
}

#endif
