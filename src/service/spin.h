/* SPDX-License-Identifier: MIT */
/*
 * How do services guard what they change in a moment?
 *
 * The lock spins, and yields after a while: what it guards is short and never waits.  Who waits for a
 * gmp_mutex parks, and may be dropped there by the end of the run, in the middle of what it had to do for
 * others.
 *
 * Invariant: who holds it does not wait, yield, or call the user's code; so the end of a run drops nobody
 * who holds it.
 */
#ifndef GMP_SPIN_H
#define GMP_SPIN_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/object.h"
#include "gmp.h"

static inline bool spin_try(uint32_t *locked)
{
	return !__atomic_exchange_n(locked, 1, __ATOMIC_ACQUIRE); /* ORD(spin) */
}

static __attribute__((noinline, unused)) void spin_lock_slow(uint32_t *locked)
{
	enum { SPINS = 400 };

	do {
		for (int i = 0; __atomic_load_n(locked, __ATOMIC_RELAXED); i++)
			if (i >= SPINS)
				gmp_yield();
	} while (!spin_try(locked));
}

/* By one that holds memory which nobody else knows of: it yields its thread, for in gmp_yield the end of the
 * run drops it. */
static __attribute__((noinline, unused)) void spin_lock_undropped(uint32_t *locked)
{
	while (!spin_try(locked))
		sched_yield();
}

static inline void spin_lock(uint32_t *locked)
{
	uint32_t was = __atomic_exchange_n(locked, 1, __ATOMIC_ACQUIRE); /* ORD(spin) */

	if (__builtin_expect(was != 0, 0)) {
		if (was == POISON)
			gmp__object_lock_freed(locked);
		spin_lock_slow(locked);
	}
}

static inline void spin_unlock(uint32_t *locked)
{
	__atomic_store_n(locked, 0, __ATOMIC_RELEASE); /* ORD(spin) */
}

#endif
