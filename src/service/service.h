/* SPDX-License-Identifier: MIT */
/*
 * Service base: what the services (pools, groups, singleflight) use of the runtime besides gmp.h.
 *
 * It consists of the atomics, struct lock with the rank LR_SERVICE, the 4-ary heap, arrays that
 * grow, and the kind words of objects.
 *
 * Invariants
 *   SERVICE-1  A section under LR_SERVICE neither waits, nor yields, nor calls code of the
 *              program. Therefore shutdown kills no G that holds the lock or waits for it.
 *   -          LR_SERVICE is the first rank: no other lock is held when a service takes it.
 *              What the service calls under it (gmp_go, gmp_timer_set) may take any other.
 *
 * Rejected
 *   A gmp_mutex: its waiters park, and shutdown kills a parked G, here in the middle of what it
 *   must do for other callers. An object outlives the run, and no killed G unlocks a mutex.
 *   A word whose waiters call gmp_yield after 400 spins: the median cost of a pool's task is 37 ns
 *   instead of 25 with 8 submitters on 2 Ps, and 80 instead of 41 with 16 on 8 Ps (2 busy CPUs).
 */
#ifndef GMP_SERVICE_H
#define GMP_SERVICE_H

#include <gmp.h>

#include "base/atomic.h"
#include "base/base.h"
#include "base/dlist.h"
#include "base/heap4.h"
#include "base/lock.h"
#include "base/mem.h" /* array_grow */
#include "base/object.h"
#include "base/trace.h" /* run_program */

/*
 * Create the fls key of a service on the first call. Returns false if no key is free: a later call
 * tries again. Of two callers at once each creates a key, and the second deletes its own.
 */
static inline bool service_key_once(gmp_key *key, void (*destroy)(void *value))
{
	gmp_key none = 0, mine;

	if (ld_acq(key)) /* ORD(service.key): what gmp_key_create wrote */
		return true;
	if (!gmp_key_create(&mine, destroy) && !cas_rel(key, &none, mine)) /* ORD(service.key) */
		gmp_key_delete(mine);
	return ld_acq(key) != 0; /* ORD(service.key) */
}

/* Ends the process if object is freed or not of kind `is`. Returns while a free waits for users. */
static inline void service_check(const void *object, const uint32_t *kind, enum object_kind is,
				 const char *call)
{
	uint32_t found = ld_rlx(kind);

	if (unlikely(found != (uint32_t)is))
		gmp__object_misused(object, found, is, call);
}

#endif
