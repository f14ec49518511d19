/* SPDX-License-Identifier: MIT */
#include "base/object.h"

#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/base.h"
#include "base/san.h"
#include "base/throw.h"

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

enum { RINGS = 16, RING_SLOTS = 8 };
enum { POISONED = 256 };
enum { LARGE = 1024 }; /* what is larger is cut to POISONED */
enum { KEPT_MOST = 64 << 20 };

struct ring {
	uint32_t next; /* (a) two threads may fill one slot: that shortens a stay, no more */
	void *object[RING_SLOTS]; /* (a) */
} __attribute__((aligned(CACHE_LINE)));

static struct ring rings[RINGS];

struct kept {
	struct kept *next;
	void *object;
};

static struct kept *kept; /* (a) reachable, so that leak checkers find nothing */
static uint32_t keep;     /* (a) */
static size_t kept_bytes; /* (a) */

void object_keep_all(void)
{
	st_rlx(&keep, 1u);
}

/* OB3. False: no memory, or enough is kept. */
static bool keep_it(void *object, size_t size)
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

/* Cuts a large object, where the allocator leaves it at its address. */
static void *cut(void *object)
{
	void *now = realloc(object, POISONED);

	return now ? now : object;
}

void object_free(void *object, size_t size)
{
	memset(object, POISON & 0xff, min_of(size, (size_t)POISONED));
	if (size > LARGE) {
		object = cut(object);
		size = POISONED;
	}
	if (keep_it(object, size))
		return;
	struct ring *r = &rings[((uintptr_t)object >> 6) % RINGS];
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

static const char *name_of(uint32_t kind)
{
	switch (kind) {
	case OBJECT_CHAN: return "a channel";
	case OBJECT_DONE_CHAN: return "a channel of gmp_done_chan, which gmp_done_free frees";
	case OBJECT_DONE: return "a gmp_done";
	case OBJECT_TIMER: return "a gmp_timer";
	case OBJECT_POOL: return "a gmp_pool";
	case OBJECT_MULTIPOOL: return "a gmp_multipool";
	case OBJECT_GROUP: return "a gmp_group";
	case OBJECT_SINGLEFLIGHT: return "a gmp_singleflight";
	}
	return "no object of gmp";
}

void object_claim(const void *object, uint32_t *kind, enum object_kind is, const char *call)
{
	uint32_t found = (uint32_t)is;

	if (likely(cas_rlx(kind, &found, (uint32_t)OBJECT_CLAIMED)))
		return;
	if (found == POISON || found == OBJECT_CLAIMED)
		gmp__fatal("%s: %p has been freed already", call, object);
	gmp__fatal("%s: %p is %s", call, object, name_of(found));
}

void gmp__object_misused(const void *object, uint32_t found, enum object_kind is, const char *call)
{
	const char *name = name_of(is) + sizeof("a ") - 1;

	if (found == OBJECT_CLAIMED)
		return;
	if (found == POISON)
		gmp__fatal("%s: the %s %p has been freed already (end its users before %s_free)",
			   call, name, object, name);
	gmp__fatal("%s: %p is %s, not a %s (pass what %s_new returned, before its free)", call,
		   object, name_of(found), name, name);
}

void gmp__object_in_use(const void *object, int calls, const char *call)
{
	gmp__fatal("%s: %p is in use by %d calls: wait for them first", call, object, calls);
}

void gmp__object_lock_freed(void)
{
	gmp__fatal("a call on an object (channel, timer, pool ...) that has been freed");
}
