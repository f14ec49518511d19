/* SPDX-License-Identifier: MIT */
/*
 * Names the free of an object of the interface that has been freed already, or that is of another kind.
 *
 * Each object that a program frees by a gmp_X_free has a word that says what it is. object_claim changes that word,
 * object_free overwrites the object with POISON, that word and the object's lock included, and keeps the memory
 * from malloc for a while:
 *
 *   gmp_X_free ──> object_claim ──> object_free ──> ring of the address: RING_SLOTS objects ──> free(3)
 *
 * Invariants
 *  OB0 Of all calls that free an object, one changes its word from the kind to OBJECT_CLAIMED, and frees it.
 *  OB1 An object in a ring is POISON in its first bytes, up to POISONED of them: a second free finds POISON
 *      where the kind stands, and a lock finds it in its word (lock.h, service/service.h).
 *  OB2 A slot is emptied by the exchange that fills it, so each object goes to free(3) once.
 *  OB3 With GMP_DEBUG=check objects stay until they take KEPT_MOST together.
 *
 * With AddressSanitizer free(3) is called at once: it names a second free itself, with both places.
 */
#ifndef GMP_OBJECT_H
#define GMP_OBJECT_H

#include <stddef.h>
#include <stdint.h>

#define POISON UINT32_C(0xdbdbdbdb)

enum object_kind {
	OBJECT_CHAN = 0x67430001, /* no small number, which other memory is likely to hold */
	OBJECT_DONE_CHAN,         /* a channel that a gmp_done frees */
	OBJECT_DONE,
	OBJECT_TIMER,
	OBJECT_POOL,
	OBJECT_MULTIPOOL,
	OBJECT_GROUP,
	OBJECT_SINGLEFLIGHT,
	OBJECT_CLAIMED,
};

/* OB0. kind: the word of object. What is not of kind `is` ends the process with a line that names `call`. */
void object_claim(const void *object, uint32_t *kind, enum object_kind is, const char *call);

/*
 * `call` has found another kind word than `is` in object. Ends the process with a line that names
 * both. Returns if a free has claimed the object: it may still wait for its users, as the caller.
 */
void gmp__object_misused(const void *object, uint32_t found, enum object_kind is, const char *call)
	__attribute__((cold));

/* `calls` calls are inside the object that `call` frees. */
void gmp__object_in_use(const void *object, int calls, const char *call)
	__attribute__((noreturn, cold));

/* A lock whose word is POISON has been taken. */
void gmp__object_lock_freed(void) __attribute__((noreturn, cold));

/* free(object), later. `size`: of the object, with what stands behind it. */
void object_free(void *object, size_t size);

/* Empties the rings: at the end of a run gmp holds no memory. */
void object_release_all(void);

/* OB3, from now on. */
void object_keep_all(void);

#endif
