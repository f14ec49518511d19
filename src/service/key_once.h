/* SPDX-License-Identifier: MIT */
/*
 * How does a service come to the key of its own, when it is first used?
 *
 * Where two come to it together, both make one, and the second deletes its own.  Where all keys are used up
 * nothing is kept, so the next call tries again.  0 is never a key.
 */
#ifndef GMP_KEY_ONCE_H
#define GMP_KEY_ONCE_H

#include <stdbool.h>

#include <gmp.h>

static inline bool key_once(gmp_key *key, void (*destroy)(void *value))
{
	gmp_key none = 0, mine;

	if (__atomic_load_n(key, __ATOMIC_ACQUIRE)) /* ORD(service.key): what gmp_key_create did */
		return true;
	if (gmp_key_create(&mine, destroy))
		return __atomic_load_n(key, __ATOMIC_ACQUIRE); /* ORD(service.key) */
	if (!__atomic_compare_exchange_n(key, &none, mine, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		gmp_key_delete(mine);
	return true;
}

#endif
