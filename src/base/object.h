/* SPDX-License-Identifier: MIT */
/*
 * Detection of double free, use-after-free, and a free by the function of another kind, for the
 * objects of the interface.
 *
 * Each object that the program frees by a gmp_X_free has a kind word. object_claim changes that
 * word. object_free overwrites the object, including its kind word and its lock, with POISON, and
 * delays free(3):
 *
 *   gmp_X_free ──> object_claim ──> object_free ──> ring of RING_SLOTS objects ──> free(3)
 *
 * Invariants
 *   OBJECT-1  Of all calls that free an object, exactly one changes its kind word to
 *             OBJECT_CLAIMED, and that call frees it.
 *   -         The first bytes of an object in a ring, up to POISON_BYTES of them, are POISON. A
 *             second free finds POISON in the kind word, and a lock operation finds it in the
 *             lock's word (lock.h, service/service.h).
 *   -         The exchange that fills a slot also empties it. So each object reaches free(3) once.
 *   OBJECT-4  With GMP_DEBUG=check freed objects are kept until their sizes reach KEPT_MOST bytes.
 *
 * With AddressSanitizer free(3) is called at once, and AddressSanitizer reports the second free.
 */
#ifndef GMP_OBJECT_H
#define GMP_OBJECT_H

#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/base.h"

#define POISON UINT32_C(0xdbdbdbdb)

/*
 * Kind word of an object.
 *
 *   OBJECT_CHAN ... OBJECT_SINGLEFLIGHT   alive; set by the function that makes the object
 *   OBJECT_CLAIMED                        a call frees the object; set by object_claim only
 *   POISON                                freed; set by object_free only
 */
enum object_kind {
	OBJECT_CHAN = 0x67430001, /* not a small number: other memory seldom holds this value */
	OBJECT_DONE_CHAN = 0x67430002, /* a channel that gmp_done_free frees */
	OBJECT_DONE = 0x67430003,
	OBJECT_TIMER = 0x67430004,
	OBJECT_POOL = 0x67430005,
	OBJECT_MULTIPOOL = 0x67430006,
	OBJECT_GROUP = 0x67430007,
	OBJECT_SINGLEFLIGHT = 0x67430008,
	OBJECT_CLAIMED = 0x67430009,
};

/*
 * Claim an object for its free (OBJECT-1). kind: its kind word; is: the kind that `call`, a
 * function of the interface, frees. If the object is of another kind or freed, the process ends
 * with a message.
 */
void object_claim(const void *object, uint32_t *kind, enum object_kind is, const char *call);

/*
 * `call` has found another kind word than `is` in object. Ends the process with a line that names
 * both. Returns if a free has claimed the object: it may still wait for its users, as the caller.
 */
void gmp__object_misused(const void *object, uint32_t found, enum object_kind is, const char *call)
	__attribute__((cold));

/* End the process: `calls` calls use the object that `call` is about to free. */
void gmp__object_in_use(const void *object, int calls, const char *call)
	__attribute__((noreturn, cold));

/* End the process: a call has found POISON in the word of this lock. */
void gmp__object_lock_freed(const void *lock) __attribute__((noreturn, cold));

/* For a call that does not take the object's lock: end the process as gmp__object_lock_freed if the
 * kind word says that the object has been freed. */
static inline void object_check(const uint32_t *kind, const void *lock)
{
	if (unlikely(ld_rlx(kind) == POISON))
		gmp__object_lock_freed(lock);
}

/* Poison a claimed object, and release it by free(3) later. size: its bytes, trailing data
 * included. */
void object_free(void *object, size_t size);

/* End of a run: release all objects in the rings. */
void object_release_all(void);

/* From now on keep freed objects (OBJECT-4). */
void object_keep_all(void);

#endif
