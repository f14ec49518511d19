/* SPDX-License-Identifier: MIT */
/*
 * Stack allocator: carves the stacks of green threads from large mappings (slabs), guards them,
 * caches them in Ps, and returns unused memory to the kernel.
 *
 * A slab holds many stacks of one size class.  Only pages that were touched are resident; the rest
 * is address space.
 *
 *   slab    | guard | ........ untouched ........ | touched | guard | ...
 *                     lo        2^class bytes           top^          lo of the next
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
 *  STACK-4  The guard of a stack begins where the stack below it ends.  A page table spans 2 MiB,
 *           so the top of a stack and the guard of the next share a table, except about one pair
 *           in 32 of the classes from 2 MiB up.  A parked stack costs 8 bytes of page table for
 *           each of its pages and of its guard's, and at most about one table.
 *  STACK-5  All 2^class bytes of a stack can be used: the guard is below them.  The guard uses no
 *           memory, is not counted by stack_promise, and its pages never become resident.
 *  STACK-6  In a process that locks its memory (mlockall with MCL_FUTURE), slots [0, ready) of a
 *           slab are locked on fault, and have their guards; the rest is address space.  `room`
 *           counts only these, so the first touch of a stack cannot exceed RLIMIT_MEMLOCK.  Guards
 *           are locked with their stacks, which keeps a slab one mapping.  If the limit binds, Ps
 *           cache few stacks (TIGHT_CACHE).
 *
 * Size of the guard (STACK_GUARD): each call pushes a return address, so a chain of calls whose
 * frames have up to 64 KiB touches a byte in every 64 KiB, and cannot step over the guard.  It is
 * not larger, since each page of a guard costs 8 bytes of page tables for each stack.
 *
 * A slab gets its own guard when it is mapped (mprotect), a stack before its first use.  Kinds of a
 * stack's guard:
 *   light      MADV_GUARD_INSTALL, which splits no mapping
 *   protected  if light guards are refused or have no effect: mprotect, two more mappings each, as
 *              long as vm.max_map_count leaves room
 *   none       otherwise; counted in stack_counts
 *
 * Rejected
 *   One mapping for each stack: ends at 32,750 stacks.
 *   A signal handler that grows stacks: 2.6 to 4.5 us a page, demand paging takes 1.3.
 *   Huge pages: 2 MiB for each first touch.
 *   Guards of several stacks by one process_madvise: it saves system calls, but the page-table
 *   entries of each guard and the first touch of each stack cost as much as without.
 */
#include "stack.h"

#include <errno.h>
#include <string.h>

#include "base/atomic.h"
#include "base/emit.h"
#include "base/lock.h"
#include "base/os.h"
#include "base/san.h"
#include "base/throw.h"

/*
 * SLAB_GUARD: guard below the lowest stack of a slab, which is that of the first green thread.  It
 * costs a mapping and no memory, and is larger than the stack of a main thread may be (usually 8
 * MiB).  TABLE_SPAN: address space of one page table.  TRIM_BATCH: stacks that the trimmer holds
 * at a time, outside the lock.  TIGHT_CACHE: each stack in a cache is locked memory that no other
 * P can use.
 */
enum {
	SLAB_MIN = 64 << 20,
	SLAB_MAX = 1 << 30,
	SLAB_GUARD = 16 << 20,
	TABLE_SPAN = 2 << 20,
	TRIM_BATCH = 16,
	TIGHT_CACHE = 2,
};

/* Header of a slab, in the first page above its guard. */
struct slab {
	char *map; /* the whole mapping */
	size_t bytes;
	uint32_t count;
	bool locks;       /* STACK-6 */
	uint32_t ready;   /* (l) slots that may be carved: count, unless memory is locked */
	uint32_t guarded; /* (l) if memory is locked: slots that have their guards */
	struct slab *next;
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
	uint32_t limit;     /* (c) */
	uint64_t most;      /* (c) bytes that may be promised; 0: any number */
	uint64_t bytes;     /* (l) promised by stack_promise, in all classes */
	unsigned klass;     /* (c) the default class */
	bool said_degraded; /* (l) */
	bool tight;         /* (c) see stack_tight */
	bool refused;       /* (a) RLIMIT_MEMLOCK has refused a stack */
	bool light;         /* (c) the kernel has light guards */
	int64_t maps_left;  /* (l) mappings that protected guards may still split */
	uint64_t unguarded; /* (l) */
	uint64_t trimmed;   /* (a) bytes */
	unsigned *ids;      /* (c) Valgrind's id of each made stack; address space for `limit` */
	uint32_t nids;      /* (l) */
	struct kept_stack *kept;
	struct stackclass classes[STACK_CLASS_MAX + 1];
} pool;

static size_t class_bytes(unsigned klass)
{
	return (size_t)1 << klass;
}

/* Distance from one stack to the next, with the guard. */
static size_t slot_bytes(unsigned klass)
{
	return class_bytes(klass) + STACK_GUARD;
}

static size_t free_array_bytes(void)
{
	return round_up((size_t)pool.limit * sizeof(char *), PAGE);
}

static size_t ids_bytes(void)
{
	return round_up((size_t)pool.limit * sizeof(unsigned), PAGE);
}

/* --- slabs --- */

/* Maps a slab.  Slabs grow with the room of the class, so that a million stacks need a few
 * hundred.  If address space is scarce, the slab has one stack and no guard of its own. */
static struct slab *slab_new(unsigned klass, uint64_t room)
{
	size_t slot = slot_bytes(klass), least = max_of(slot, (size_t)SLAB_MIN);
	size_t bytes = max_of(least, min_of((size_t)room * slot, (size_t)SLAB_MAX));
	size_t guard = SLAB_GUARD;
	bool locks;
	char *map = os_reserve_unlocked(guard + PAGE + bytes, &locks);

	if (!map) {
		guard = 0;
		bytes = slot;
		map = os_reserve_unlocked(PAGE + bytes, &locks);
	}
	if (!map)
		return NULL;
	if (guard)
		os_guard_protect(map, guard); /* may fail: stacks have guards of their own */
	struct slab *s = (struct slab *)(map + guard);

	*s = (struct slab){ .map = map,
			    .bytes = guard + PAGE + bytes,
			    .count = (uint32_t)(bytes / slot),
			    .locks = locks,
			    .ready = locks ? 0 : (uint32_t)(bytes / slot) };
	return s;
}

static void guard_install_locked(char *lo);

static void warn_lock_refused(void)
{
	struct line l = { .n = 0 };

	if (ld_rlx(&pool.refused))
		return;
	st_rlx(&pool.refused, true);
	line_str_sig(&l, "gmp: no more stacks: the process locks its memory (mlockall), and "
			 "RLIMIT_MEMLOCK is "
			 "used up: raise it, or set a smaller stack_size\n");
	line_write_sig(&l, 2);
}

/* STACK-6: makes up to n more slots of a locked slab usable.  Returns their number or -ENOMEM.
 * Guards come first, since none can be installed in locked memory. */
static int slab_lock(struct slab *s, unsigned klass, uint64_t n)
{
	uint32_t more = (uint32_t)min_of(n, (uint64_t)(s->count - s->ready));
	size_t slot = slot_bytes(klass);
	char *at = (char *)s + PAGE + s->ready * slot;

	for (; s->guarded < s->ready + more; s->guarded++) /* more, if the limit has refused some */
		guard_install_locked((char *)s + PAGE + s->guarded * slot + STACK_GUARD);
	int err = os_lock_on_fault(at, more * slot);

	if (err != 0 && err != -ENOSYS) { /* -ENOSYS: the system has no such lock */
		warn_lock_refused();
		return -ENOMEM;
	}
	s->ready += more;
	return (int)more;
}

static int class_init(struct stackclass *c)
{
	if (c->free)
		return 0;
	c->free = os_reserve(free_array_bytes());
	return c->free ? 0 : -ENOMEM;
}

static unsigned trim_batch(void)
{
	return pool.tight ? 1 : TRIM_BATCH;
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

/* --- guards --- */

static void warn_unguarded(void)
{
	struct line l = { .n = 0 };

	if (pool.said_degraded)
		return;
	pool.said_degraded = true;
	line_str_sig(&l, "gmp: stacks are made without guard pages from here on: vm.max_map_count "
			 "leaves no room for more\n");
	line_write_sig(&l, 2);
}

static void guard_install_locked(char *lo)
{
	char *at = lo - STACK_GUARD;

	if (pool.light && os_guard_light(at, STACK_GUARD) == 0)
		return;
	if (pool.maps_left >= 2 && os_guard_protect(at, STACK_GUARD) == 0) {
		pool.maps_left -= 2;
	} else {
		pool.unguarded++;
		warn_unguarded();
	}
}

static void guard_install(char *lo)
{
	if (pool.light && os_guard_light(lo - STACK_GUARD, STACK_GUARD) == 0)
		return;
	lock(&pool.lock, LR_STACK);
	guard_install_locked(lo);
	unlock(&pool.lock, LR_STACK);
}

/* An emulator may answer success to an madvise that it does not know: check the effect.  Valgrind
 * asks the kernel; it does not survive the check, since it reads the word of a futex itself. */
static int guard_probe(void)
{
	bool locks;
	char *page = os_reserve_unlocked(PAGE, &locks);

	if (!page)
		return -ENOMEM;
	pool.tight = locks && os_lock_limited();
	pool.light = os_guard_light(page, PAGE) == 0 && (RUNNING_ON_VALGRIND || os_faults(page));
	os_release(page, PAGE);
	/* a quarter of the mappings stays for the program */
	pool.maps_left = (int64_t)os_max_maps() / 4 * 3;
	return 0;
}

/* --- get and put --- */

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
	lo = (char *)c->carving + PAGE + (size_t)c->carved++ * slot_bytes(klass) + STACK_GUARD;
	*bare = !c->carving->locks; /* STACK-6 */
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
	c->most = pool.tight ? TIGHT_CACHE : STACK_CACHE;
	return stack_reserve(pool.klass, c->most);
}

/* Fills an empty cache from the pool or, if that is empty, with new stacks of one slab, which have
 * no guard yet (c->raw), or all have one (STACK-6). */
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

/* Discards the resident pages of [from, to), window after window downwards: down to the first
 * window without memory, or to the end.  Returns the bytes discarded. */
static size_t discard_down(char *from, char *to, bool to_the_end)
{
	unsigned char vec[64];
	size_t given = 0;

	while (to > from) {
		char *at =
			to - from > (ptrdiff_t)sizeof(vec) * PAGE ? to - sizeof(vec) * PAGE : from;
		size_t pages = (size_t)(to - at) / PAGE, resident = 0;

		if (!os_resident(at, (size_t)(to - at), vec))
			break;
		for (size_t i = 0; i < pages; i++)
			resident += vec[i] & 1;
		if (resident)
			os_discard(at, (size_t)(to - at));
		else if (!to_the_end)
			break;
		given += resident * PAGE;
		to = at;
	}
	add_rlx(&pool.trimmed, given);
	return given;
}

/* For sysmon, which holds the waiter of a G that has waited for a second, so that it cannot run
 * (SYSMON-1). */
size_t stack_trim_below(char *lo, const char *sp)
{
	/* The page of sp stays, and so does what signal frames of other libraries may use.  Below
	 * the first window without memory there is none, except below frames of more than 256 KiB
	 * that were never written; that memory is returned after the end of the green thread. */
	return discard_down(lo, (char *)(((uintptr_t)sp - 256) & ~(uintptr_t)(PAGE - 1)), false);
}

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
		discard_down(batch[i], batch[i] + class_bytes(klass), true);
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
	pool.said_degraded = false;
	st_rlx(&pool.refused, false);
	pool.unguarded = 0;
	pool.trimmed = 0;
	if (RUNNING_ON_VALGRIND)
		pool.ids = os_reserve(ids_bytes());
	return guard_probe();
}

/* Unmaps a slab, except the stacks that are kept and their guards. */
static void slab_release(char *map, size_t bytes)
{
	for (char *at = map, *end = map + bytes, *to; at < end;) {
		const struct kept_stack *next = NULL;

		for (const struct kept_stack *k = pool.kept; k; k = k->next)
			if (k->lo > at && k->lo < end && (!next || k->lo < next->lo))
				next = k;
		to = next ? next->lo - STACK_GUARD : end;
		san_forget(at, (size_t)(to - at));
		if (at == map)
			os_release(at, (size_t)(to - at)); /* the header is in the first page */
		else if (to > at)
			os_release_part(at, (size_t)(to - at));
		at = next ? next->lo + class_bytes(next->klass) : end;
	}
}

void stack_keep(struct kept_stack *k)
{
	k->next = pool.kept;
	pool.kept = k;
}

void stack_release_kept(const struct kept_stack *k)
{
	san_forget(k->lo, class_bytes(k->klass));
	os_release_part(k->lo - STACK_GUARD, slot_bytes(k->klass));
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
			slab_release(s->map, s->bytes);
		}
		if (c->free)
			os_release(c->free, free_array_bytes());
		*c = (struct stackclass){ 0 };
	}
	pool.kept = NULL;
}

void stack_forget(void)
{
	__builtin_memset(&pool, 0, sizeof(pool));
}

bool stack_tight(void)
{
	return pool.tight;
}

bool stack_lock_refused(void)
{
	return ld_rlx(&pool.refused);
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
	out.unguarded = pool.unguarded;
	out.trimmed_bytes = ld_rlx(&pool.trimmed);
	unlock(&pool.lock, LR_STACK);
	return out;
}
