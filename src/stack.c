/* SPDX-License-Identifier: MIT */
/*
 * Stack allocator: carves the stacks of green threads from slabs (machine/slab.h), pools them,
 * caches them in Ps, and returns the memory of unused ones to the kernel.
 *
 * Invariants
 *  STACK-1  Of each class, made <= room, where `made` counts the stacks in use, cached in Ps,
 *           pooled here and held by the trimmer.  A new stack is carved only if the pool is empty:
 *           then at most `promised` stacks are in use or cached, the one trimmer (sysmon) holds at
 *           most trim_batch(), and promised + trim_batch() <= room.  So stack_get cannot fail after
 *           a reservation.  It is called at the first run of a green thread, where no caller could
 *           handle the error.
 *  STACK-2  free[0..clean) have returned their memory, free[clean..n) may hold some.  Stacks are
 *           put and taken at the top, so those with warm caches are reused and the others sink.  A
 *           stack is trimmed if it was used neither in this period nor in the whole period before.
 *           Stacks in the cache of a P keep their memory; sysmon flushes the caches of idle Ps
 *           when a period begins.
 *  STACK-3  No list of stacks is kept in stacks: bookkeeping never touches the pages of a free
 *           stack.
 */
#include "stack.h"

#include <errno.h>
#include <string.h>

#include "base/emit.h"
#include "base/lock.h"
#include "base/os.h"
#include "base/san.h"
#include "base/throw.h"

/* TABLE_SPAN: address space of one page table.  TRIM_BATCH: stacks that the trimmer holds at a
 * time, outside the lock.  TIGHT_CACHE: each stack in a cache is locked memory that no other P can
 * use. */
enum {
	TABLE_SPAN = 2 << 20,
	TRIM_BATCH = 16,
	TIGHT_CACHE = 2,
};

struct stackclass {
	/* all under pool.lock */
	char **free; /* address space for `limit` entries */
	uint32_t n, clean;
	uint32_t low;      /* lowest n of this period: free[0..low) was not used */
	uint32_t unwanted; /* low of the whole period before */
	uint64_t made;     /* number carved from slabs */
	uint64_t room;     /* slots of all slabs that may be carved (`ready`) */
	uint64_t promised; /* reserved by stack_reserve and stack_promise */
	uint32_t out;      /* handed out by stack_get; default-class stacks go to caches instead */
	struct slab *slabs, *last;
	struct slab *carving; /* the slab that new stacks are carved from */
	uint32_t carved;      /* number of its slots that were carved */
};

/* (l): under pool.lock, which callers of functions *_locked hold; (a), (c): types.h. */
static struct {
	struct lock lock;
	uint32_t limit; /* (c) */
	uint64_t most;  /* (c) bytes that may be promised; 0: any number */
	uint64_t bytes; /* (l) promised by stack_promise, in all classes */
	unsigned klass; /* (c) the default class */
	unsigned *ids;  /* (c) Valgrind's id of each made stack; address space for `limit` */
	uint32_t nids;  /* (l) */
	struct stackclass classes[STACK_CLASS_MAX + 1];
} pool;

static size_t free_array_bytes(void)
{
	return round_up((size_t)pool.limit * sizeof(char *), PAGE);
}

static size_t ids_bytes(void)
{
	return round_up((size_t)pool.limit * sizeof(unsigned), PAGE);
}

/* --- reservations --- */

static int class_init(struct stackclass *c)
{
	if (c->free)
		return 0;
	c->free = os_reserve(free_array_bytes());
	return c->free ? 0 : -ENOMEM;
}

static unsigned trim_batch(void)
{
	return stack_tight() ? 1 : TRIM_BATCH;
}

static int class_reserve(unsigned klass, uint32_t n, uint64_t bytes)
{
	struct stackclass *c = &pool.classes[klass];
	int err;

	lock(&pool.lock, LR_STACK);
	err = class_init(c);
	if (!err && pool.most && (bytes > pool.most || pool.bytes > pool.most - bytes))
		err = -EAGAIN;
	while (!err && c->promised + n + trim_batch() > c->room) {
		/* a system call under the lock: once in a slab's worth of stacks, or of locked
		 * ones */
		if (c->last && c->last->ready < c->last->count) {
			int more =
				slab_lock(c->last, klass, c->promised + n + trim_batch() - c->room);

			if (more < 0)
				err = more;
			else
				c->room += (uint32_t)more;
			continue;
		}
		struct slab *s = slab_new(klass, c->room);

		if (!s) {
			err = -ENOMEM;
			break;
		}
		if (c->last)
			c->last->next = s;
		else
			c->slabs = s;
		c->last = s;
		if (!c->carving)
			c->carving = s;
		c->room += s->ready;
	}
	if (!err) {
		c->promised += n;
		pool.bytes += bytes;
	}
	unlock(&pool.lock, LR_STACK);
	return err;
}

int stack_reserve(unsigned klass, uint32_t n)
{
	return class_reserve(klass, n, 0);
}

int stack_promise(unsigned klass, uint32_t n)
{
	return class_reserve(klass, n, (uint64_t)n << klass);
}

void stack_unpromise(unsigned klass, uint32_t n)
{
	lock(&pool.lock, LR_STACK);
	pool.bytes -= (uint64_t)n << klass;
	unlock(&pool.lock, LR_STACK);
	stack_unreserve(klass, n);
}

void stack_unreserve(unsigned klass, uint32_t n)
{
	lock(&pool.lock, LR_STACK);
	pool.classes[klass].promised -= n;
	unlock(&pool.lock, LR_STACK);
}

/* --- get and put --- */

static void guard_install(char *lo)
{
	if (guard_install_light(lo))
		return;
	lock(&pool.lock, LR_STACK);
	guard_install_locked(lo);
	unlock(&pool.lock, LR_STACK);
}

/* Carves a stack.  *bare: it has no guard yet; that needs a system call, which follows after the
 * unlock.  Returns NULL if there is no slot. */
static char *carve_locked(unsigned klass, bool *bare)
{
	struct stackclass *c = &pool.classes[klass];
	char *lo;

	if (c->carving && c->carved == c->carving->count) {
		c->carving = c->carving->next;
		c->carved = 0;
	}
	if (!c->carving || c->carved == c->carving->ready)
		return NULL;
	lo = slab_stack(c->carving, klass, c->carved++);
	*bare = !c->carving->locks; /* SLAB-3 */
	c->made++;
	emit(EVENT_STACK, klass, 1, 0, 0);
	if (unlikely(pool.ids && pool.nids < pool.limit))
		pool.ids[pool.nids++] = san_stack_made(lo, class_bytes(klass));
	return lo;
}

static char *class_get_locked(struct stackclass *c)
{
	char *lo = c->free[--c->n];

	c->clean = min_of(c->clean, c->n);
	c->low = min_of(c->low, c->n);
	return lo;
}

static void class_put_locked(struct stackclass *c, char *lo)
{
	gmp_debug_assert(c->n < pool.limit);
	c->free[c->n++] = lo;
}

char *stack_get(unsigned klass)
{
	struct stackclass *c = &pool.classes[klass];

	lock(&pool.lock, LR_STACK);
	bool bare = false;
	char *lo = c->n == 0 ? carve_locked(klass, &bare) : class_get_locked(c);

	c->out += lo ? 1 : 0;
	unlock(&pool.lock, LR_STACK);
	if (bare)
		guard_install(lo);
	return lo;
}

void stack_put(char *lo, unsigned klass)
{
	lock(&pool.lock, LR_STACK);
	class_put_locked(&pool.classes[klass], lo);
	pool.classes[klass].out--;
	unlock(&pool.lock, LR_STACK);
}

/* Number of stacks that share a page table: a P carves them together.  If two Ps carved
 * alternately, they would contend for the table's lock at each first touch. */
static unsigned carve_at_once(void)
{
	return (unsigned)max_of(
		min_of(TABLE_SPAN / slot_bytes(pool.klass), (size_t)STACK_CACHE / 4), (size_t)1);
}

int stackcache_init(struct stackcache *c)
{
	c->most = stack_tight() ? TIGHT_CACHE : STACK_CACHE;
	return stack_reserve(pool.klass, c->most);
}

/* Fills an empty cache from the pool or, if that is empty, with new stacks of one slab, which have
 * no guard yet (c->raw), or all have one (SLAB-3). */
static void cache_fill(struct stackcache *c)
{
	struct stackclass *k = &pool.classes[pool.klass];

	lock(&pool.lock, LR_STACK);
	uint32_t n = min_of(k->n, (uint32_t)c->most / 2);

	for (; c->n < n; c->n++)
		c->lo[c->n] = class_get_locked(k);
	bool bare = false;

	for (n = n ? 0 : min_of(carve_at_once(), c->most); c->n < n; c->n++)
		if ((c->n > 0 && k->carved == k->carving->count) ||
		    !(c->lo[c->n] = carve_locked(pool.klass, &bare)))
			break;
	c->raw = bare ? c->n : 0;
	unlock(&pool.lock, LR_STACK);
	/* the most recently used was taken first: reverse the order, so it is used first */
	for (unsigned i = 0; i < c->n / 2; i++) {
		char *lo = c->lo[i];

		c->lo[i] = c->lo[c->n - 1 - i];
		c->lo[c->n - 1 - i] = lo;
	}
}

bool stackcache_ready(struct stackcache *c)
{
	if (c->n == 0)
		cache_fill(c);
	if (c->n == 0)
		return false;
	if (c->raw == c->n)
		guard_install(c->lo[--c->raw]);
	return true;
}

static void cache_spill(struct stackcache *c, unsigned keep)
{
	unsigned out = c->n - keep, bare = min_of(c->raw, out);

	for (unsigned i = 0; i < bare; i++)
		guard_install(c->lo[i]);
	c->raw -= bare;
	lock(&pool.lock, LR_STACK);
	for (unsigned i = 0; i < out; i++)
		class_put_locked(&pool.classes[pool.klass], c->lo[i]);
	unlock(&pool.lock, LR_STACK);
	for (unsigned i = 0; i < keep; i++)
		c->lo[i] = c->lo[out + i];
	c->n = keep;
}

void stackcache_spill(struct stackcache *c)
{
	cache_spill(c, c->most / 2);
}

void stackcache_flush(struct stackcache *c)
{
	if (c->n)
		cache_spill(c, 0);
}

char *stack_top(char *lo, unsigned klass)
{
	/* a multiplicative hash of the stack's number, about: neighbours get distant colours */
	uintptr_t colour = (((uintptr_t)lo >> klass) * 0x9e3779b1u >> 16) % STACK_COLOURS;

	return lo + class_bytes(klass) - colour * CACHE_LINE;
}

/* --- trimming --- */

/* STACK-2: removes up to TRIM_BATCH unused stacks with memory from the middle of free.  With the
 * lock held.  Returns their number. */
static unsigned take_dirty_locked(struct stackclass *c, char **batch)
{
	uint32_t end = min_of(c->low, c->unwanted);
	unsigned k = 0;

	while (k < trim_batch() && c->clean + k < end) {
		batch[k] = c->free[c->clean + k];
		k++;
	}
	if (k == 0)
		return 0;
	/* close the gap with stacks from the top or, if there are few, by moving all of them
	 * down */
	uint32_t rest = c->n - c->clean - k;
	char **gap = c->free + c->clean;

	if (rest < k)
		memmove(gap, gap + k, rest * sizeof(*gap));
	else
		for (unsigned i = 0; i < k; i++)
			gap[i] = c->free[c->n - 1 - i];
	c->n -= k;
	c->low -= k;
	c->unwanted -= k;
	return k;
}

/* The reverse: moves what filled the gap back to the top, in its old order, and puts the trimmed
 * stacks into the gap. */
static void put_clean_locked(struct stackclass *c, char **batch, unsigned k)
{
	uint32_t rest = c->n - c->clean;
	char **gap = c->free + c->clean;

	if (rest < k)
		memmove(gap + k, gap, rest * sizeof(*gap));
	else
		for (unsigned i = 0; i < k; i++)
			c->free[c->n + k - 1 - i] = gap[i];
	memcpy(gap, batch, k * sizeof(*gap));
	c->n += k;
	c->clean += k;
	c->low += k;
	c->unwanted += k;
}

/* Trims one batch.  Other threads may get and put stacks meanwhile, but not trim (STACK-1).
 * Returns the number of stacks. */
static unsigned class_trim(unsigned klass)
{
	struct stackclass *c = &pool.classes[klass];
	char *batch[TRIM_BATCH];

	lock(&pool.lock, LR_STACK);
	unsigned k = take_dirty_locked(c, batch);
	unlock(&pool.lock, LR_STACK);
	if (k == 0)
		return 0;
	for (unsigned i = 0; i < k; i++)
		slab_discard(batch[i], batch[i] + class_bytes(klass), true);
	lock(&pool.lock, LR_STACK);
	put_clean_locked(c, batch, k);
	unlock(&pool.lock, LR_STACK);
	return k;
}

bool stack_trim_pool(unsigned most, bool new_period)
{
	bool more = false;

	for (unsigned k = STACK_CLASS_MIN; k <= STACK_CLASS_MAX; k++) {
		struct stackclass *c = &pool.classes[k];
		unsigned done = 0, got;

		while (done < most && (got = class_trim(k)) > 0)
			done += got;
		lock(&pool.lock, LR_STACK);
		if (new_period) {
			c->unwanted = c->low;
			c->low = c->n;
		}
		more |= c->clean < c->n;
		unlock(&pool.lock, LR_STACK);
	}
	return more;
}

/* --- start and stop --- */

void stack_limit(uint64_t bytes)
{
	pool.most = bytes;
}

int stack_init(uint32_t limit, unsigned klass)
{
	pool.limit = limit;
	pool.klass = klass;
	pool.most = pool.bytes = 0;
	if (RUNNING_ON_VALGRIND)
		pool.ids = os_reserve(ids_bytes());
	return slabs_init();
}

void stack_fini(void)
{
	for (uint32_t i = 0; i < pool.nids; i++)
		san_stack_gone(pool.ids[i]);
	if (pool.ids)
		os_release(pool.ids, ids_bytes());
	pool.ids = NULL;
	pool.nids = 0;
	for (unsigned k = STACK_CLASS_MIN; k <= STACK_CLASS_MAX; k++) {
		struct stackclass *c = &pool.classes[k];

		for (struct slab *s = c->slabs, *next; s; s = next) {
			next = s->next;
			slab_release(s);
		}
		if (c->free)
			os_release(c->free, free_array_bytes());
		*c = (struct stackclass){ 0 };
	}
	slabs_fini();
}

void stack_forget(void)
{
	__builtin_memset(&pool, 0, sizeof(pool));
	slabs_forget();
}

struct stack_counts stack_counts(void)
{
	struct stack_counts out = { 0 };

	lock(&pool.lock, LR_STACK);
	for (unsigned k = STACK_CLASS_MIN; k <= STACK_CLASS_MAX; k++) {
		const struct stackclass *c = &pool.classes[k];

		out.made += c->made;
		out.special += c->out;
		out.special_bytes += (uint64_t)c->out << k;
	}
	unlock(&pool.lock, LR_STACK);
	slab_counts(&out.unguarded, &out.trimmed_bytes);
	return out;
}
