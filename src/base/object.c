/* SPDX-License-Identifier: MIT */
/* Kind words, delayed free and their messages: see base/object.h. */
#include "base/object.h"

#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/base.h"
#include "base/os.h"
#include "base/rand.h"
#include "base/san.h"
#include "base/throw.h"
#include "base/tls.h"

enum { POISON_BYTES = 256 };

#ifdef SAN_ADDRESS

void object_keep_all(void)
{
}

void object_release_all(void)
{
}

void object_free(void *object, size_t size)
{
	(void)size;
	free(object);
}

#else

enum { RINGS_LOG2 = 4, RINGS = 1 << RINGS_LOG2, RING_SLOTS = 8 };
enum { LARGE = 1024 }; /* bytes; a larger object is cut to POISON_BYTES */
enum { KEPT_MOST = 64 << 20 };

struct ring {
	uint32_t next; /* (a) two threads may fill the same slot; an object then leaves earlier */
	void *object[RING_SLOTS]; /* (a) */
} __attribute__((aligned(CACHE_LINE)));

static struct ring rings[RINGS];

struct kept {
	struct kept *next;
	void *object;
};

static struct kept *kept; /* (a) reachable, so that leak checkers report nothing */
static uint32_t keep;     /* (a) */
static size_t kept_bytes; /* (a) */

void object_keep_all(void)
{
	st_rlx(&keep, 1u);
}

/* OBJECT-4. Returns false without memory, or if KEPT_MOST bytes are kept. */
static bool object_keep(void *object, size_t size)
{
	struct kept *k;

	if (likely(!ld_rlx(&keep)) || ld_rlx(&kept_bytes) + size > KEPT_MOST)
		return false;
	k = malloc(sizeof(*k));
	if (!k)
		return false;
	add_rlx(&kept_bytes, size + sizeof(*k));
	*k = (struct kept){ ld_rlx(&kept), object };
	while (!cas_rel(&kept, &k->next, k)) /* ORD(object) */
		;
	return true;
}

/* Give the end of a large object back to the allocator. Returns the object's address, which the
 * allocator may change. */
static void *object_shrink(void *object)
{
	void *now = realloc(object, POISON_BYTES);

	return now ? now : object;
}

/*
 * Each M has a ring of its own, with few exceptions, so Ms that make and free objects at the same
 * time neither contend for a ring nor free each other's memory.  External threads have no M: they
 * choose by the address.
 * Rejected: by the address always.  Threads whose arenas are alike choose the same ring: 37 ns
 * instead of 14 to 22 for a channel made and freed on two Ps.
 */
static struct ring *my_ring(void *object)
{
	struct m *m = getm();

	return &rings[(m ? (uintptr_t)m : (uintptr_t)object) * RAND_STEP >> (64 - RINGS_LOG2)];
}

void object_free(void *object, size_t size)
{
	memset(object, POISON & 0xff, min_of(size, (size_t)POISON_BYTES));
	if (size > LARGE) {
		object = object_shrink(object);
		size = POISON_BYTES;
	}
	if (object_keep(object, size))
		return;
	struct ring *r = my_ring(object);
	uint32_t i = ld_rlx(&r->next);

	st_rlx(&r->next, i + 1);
	free(xchg_seq(&r->object[i % RING_SLOTS], object)); /* ORD(object) */
}

void object_release_all(void)
{
	for (int i = 0; i < RINGS * RING_SLOTS; i++)
		free(xchg_seq(&rings[i / RING_SLOTS].object[i % RING_SLOTS],
			      NULL)); /* ORD(object) */
}

#endif

/* --- names --- */

enum { CLAIMS = 256, KINDS = OBJECT_CLAIMED - OBJECT_CHAN, KIND_MASK = 15 };

static const struct {
	const char *name, *remedy;
} kinds[KINDS] = {
	{ "a channel", "free it by gmp_chan_free, or gmp_tick_free if it is a tick" },
	{ "a channel of gmp_done_chan, which gmp_done_free frees", "free the gmp_done instead" },
	{ "a gmp_done", "free it by gmp_done_free" },
	{ "a gmp_timer", "free it by gmp_timer_free" },
	{ "a gmp_pool", "free it by gmp_pool_free" },
	{ "a gmp_multipool", "free it by gmp_multipool_free" },
	{ "a gmp_group", "free it by gmp_group_free" },
	{ "a gmp_singleflight", "free it by gmp_singleflight_free" },
};

/*
 * (a) Objects that were claimed last, for messages: address, and kind - OBJECT_CHAN in the bits
 * KIND_MASK, which are 0 in an address from malloc. 0: none. An object may be missing, if another
 * one with the same slot was claimed later.
 */
static uintptr_t claims[CLAIMS];

_Static_assert(KINDS <= KIND_MASK + 1, "a kind fits beside an address");

static const char *name_of_kind(uint32_t kind)
{
	return kinds[kind - OBJECT_CHAN].name;
}

static bool is_kind(uint32_t word)
{
	return word >= OBJECT_CHAN && word < OBJECT_CLAIMED;
}

static void note_claim(const void *object, enum object_kind is)
{
	st_rlx(&claims[((uintptr_t)object >> 5) % CLAIMS],
	       (uintptr_t)object | (uintptr_t)(is - OBJECT_CHAN));
}

/* Return the entry of the claimed object that contains p, in its poisoned bytes; 0: not known. */
static uintptr_t claimed_around(const void *p)
{
	uintptr_t nearest = 0;

	for (int i = 0; i < CLAIMS; i++) {
		uintptr_t claim = ld_rlx(&claims[i]), object = claim & ~(uintptr_t)KIND_MASK;

		if (object && object <= (uintptr_t)p && (uintptr_t)p - object < POISON_BYTES)
			nearest = max_of(nearest, claim);
	}
	return nearest;
}

/* The position of the kind word depends on the kind: return the first word of the object that is a
 * kind, or 0. The object may be any memory, also unmapped. */
static uint32_t probe_kind(const void *object)
{
	for (uintptr_t at = 0; at < POISON_BYTES / 2; at += sizeof(uint32_t)) {
		uint32_t word;

		if (!os_peek((uintptr_t)object + at, &word, sizeof(word)))
			return 0;
		if (is_kind(word))
			return word;
	}
	return 0;
}

/* --- messages --- */

static noinline _Noreturn void die_of_claim(const void *object, uint32_t found, enum object_kind is,
					    const char *call)
{
	if (found == POISON || found == OBJECT_CLAIMED)
		gmp__fatal("%s: %p has been freed already (%s)\n"
			   "free an object once, after the last call that uses it; a build with "
			   "AddressSanitizer shows both frees",
			   call, object, name_of_kind(is));
	if (!is_kind(found))
		found = probe_kind(object);
	if (found)
		gmp__fatal("%s: %p is %s\n%s", call, object, name_of_kind(found),
			   kinds[found - OBJECT_CHAN].remedy);
	gmp__fatal("%s: %p is no object of gmp; expected %s\n"
		   "the pointer is wrong, its memory was overwritten, or the object was freed and "
		   "malloc has reused it",
		   call, object, name_of_kind(is));
}

void object_claim(const void *object, uint32_t *kind, enum object_kind is, const char *call)
{
	uint32_t found = (uint32_t)is;

	if (unlikely(!cas_rlx(kind, &found, (uint32_t)OBJECT_CLAIMED)))
		die_of_claim(object, found, is, call);
	note_claim(object, is);
}

void gmp__object_misused(const void *object, uint32_t found, enum object_kind is, const char *call)
{
	const char *name = name_of_kind(is) + sizeof("a ") - 1;

	if (found == OBJECT_CLAIMED)
		return;
	if (found == POISON)
		gmp__fatal("%s: the %s %p has been freed already (end its users before %s_free)",
			   call, name, object, name);
	gmp__fatal("%s: %p is %s, not a %s (pass what %s_new returned, before its free)", call,
		   object, is_kind(found) ? name_of_kind(found) : "no object of gmp", name, name);
}

void gmp__object_in_use(const void *object, int calls, const char *call)
{
	gmp__fatal("%s: %p is in use by %d %s\n"
		   "free it after they have returned",
		   call, object, calls, calls == 1 ? "call" : "calls");
}

void gmp__object_lock_freed(const void *lock)
{
	uintptr_t claim = claimed_around(lock);
	uint32_t kind = OBJECT_CHAN + (uint32_t)(claim & KIND_MASK);

	if (!claim)
		gmp__fatal("a call on an object of gmp that has been freed: its lock is at %p\n"
			   "free an object after the last call that uses it",
			   lock);
	gmp__fatal(
		"a call on %p, %s, which has been freed\n%s",
		(void *)(claim & ~(uintptr_t)KIND_MASK),
		kind == OBJECT_DONE_CHAN ? "a channel of gmp_done_chan" : name_of_kind(kind),
		kind == OBJECT_CHAN
			? "free a channel after the last call that uses it; if gmp_signal_notify "
			  "sends signals to it, call gmp_signal_stop before"
			: "free an object after the last call that uses it");
}
