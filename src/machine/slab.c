/* SPDX-License-Identifier: MIT */
/* Slabs of stacks, guards, and memory that stacks return to the kernel; see slab.h. */
#include "machine/slab.h"

#include <errno.h>

#include "base/atomic.h"
#include "base/os.h"
#include "base/san.h"
#include "base/throw.h"

/* SLAB_GUARD: guard below the lowest stack of a slab, which is that of the first green thread.  It
 * costs a mapping and no memory, and is larger than the stack of a main thread may be (usually 8
 * MiB). */
enum {
	SLAB_MIN = 64 << 20,
	SLAB_MAX = 1 << 30,
	SLAB_GUARD = 16 << 20,
};

/* (l): under the lock of the pool of stack.c; (a), (c): types.h. */
static struct {
	bool said_degraded; /* (l) */
	bool tight;         /* (c) see stack_tight */
	bool refused;       /* (a) RLIMIT_MEMLOCK has refused a stack */
	bool light;         /* (c) the kernel has light guards */
	int64_t maps_left;  /* (l) mappings that protected guards may still split */
	uint64_t unguarded; /* (a) written under the lock */
	uint64_t trimmed;   /* (a) bytes */
	struct kept_stack *kept;
} slabs;

/* --- mappings --- */

/* Maps a slab.  Slabs grow with the room of the class, so that a million stacks need a few
 * hundred.  If address space is scarce, the slab has one stack and no guard of its own. */
struct slab *slab_new(unsigned klass, uint64_t room)
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

static void warn_lock_refused(void)
{
	struct line l = { .n = 0 };

	if (ld_rlx(&slabs.refused))
		return;
	st_rlx(&slabs.refused, true);
	line_str_sig(&l, "gmp: no more stacks: the process locks its memory (mlockall), and "
			 "RLIMIT_MEMLOCK is "
			 "used up: raise it, or set a smaller stack_size\n");
	line_write_sig(&l, 2);
}

int slab_lock(struct slab *s, unsigned klass, uint64_t n)
{
	uint32_t more = (uint32_t)min_of(n, (uint64_t)(s->count - s->ready));
	size_t slot = slot_bytes(klass);
	char *at = (char *)s + PAGE + s->ready * slot;

	/* first, since none can be installed in locked memory */
	for (; s->guarded < s->ready + more; s->guarded++) /* more, if the limit has refused some */
		guard_install_locked(slab_stack(s, klass, s->guarded));
	int err = os_lock_on_fault(at, more * slot);

	if (err != 0 && err != -ENOSYS) { /* -ENOSYS: the system has no such lock */
		warn_lock_refused();
		return -ENOMEM;
	}
	s->ready += more;
	return (int)more;
}

void slab_release(struct slab *s)
{
	char *map = s->map, *end = map + s->bytes;

	for (char *at = map, *to; at < end;) {
		const struct kept_stack *next = NULL;

		for (const struct kept_stack *k = slabs.kept; k; k = k->next)
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
	k->next = slabs.kept;
	slabs.kept = k;
}

void stack_release_kept(const struct kept_stack *k)
{
	san_forget(k->lo, class_bytes(k->klass));
	os_release_part(k->lo - STACK_GUARD, slot_bytes(k->klass));
}

/* --- guards --- */

static void warn_unguarded(void)
{
	struct line l = { .n = 0 };

	if (slabs.said_degraded)
		return;
	slabs.said_degraded = true;
	line_str_sig(&l, "gmp: stacks are made without guard pages from here on: vm.max_map_count "
			 "leaves no room for more\n");
	line_write_sig(&l, 2);
}

bool guard_install_light(char *lo)
{
	return slabs.light && os_guard_light(lo - STACK_GUARD, STACK_GUARD) == 0;
}

void guard_install_locked(char *lo)
{
	char *at = lo - STACK_GUARD;

	if (guard_install_light(lo))
		return;
	if (slabs.maps_left >= 2 && os_guard_protect(at, STACK_GUARD) == 0) {
		slabs.maps_left -= 2;
	} else {
		st_rlx(&slabs.unguarded, slabs.unguarded + 1);
		warn_unguarded();
	}
}

/* --- memory --- */

size_t slab_discard(char *from, char *to, bool to_the_end)
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
	add_rlx(&slabs.trimmed, given);
	return given;
}

/* For sysmon, which holds the waiter of a G that has waited for a second, so that it cannot run
 * (SYSMON-1). */
size_t stack_trim_below(char *lo, const char *sp)
{
	/* The page of sp stays, and so does what signal frames of other libraries may use.  Below
	 * the first window without memory there is none, except below frames of more than 256 KiB
	 * that were never written; that memory is returned after the end of the green thread. */
	return slab_discard(lo, (char *)(((uintptr_t)sp - 256) & ~(uintptr_t)(PAGE - 1)), false);
}

/* --- start and stop --- */

/* An emulator may answer success to an madvise that it does not know: check the effect.  Valgrind
 * asks the kernel; it does not survive the check, since it reads the word of a futex itself. */
int slabs_init(void)
{
	bool locks;
	char *page = os_reserve_unlocked(PAGE, &locks);

	slabs_forget();
	if (!page)
		return -ENOMEM;
	slabs.tight = locks && os_lock_limited();
	slabs.light = os_guard_light(page, PAGE) == 0 && (RUNNING_ON_VALGRIND || os_faults(page));
	os_release(page, PAGE);
	/* a quarter of the mappings stays for the program */
	slabs.maps_left = (int64_t)os_max_maps() / 4 * 3;
	return 0;
}

void slabs_fini(void)
{
	slabs.kept = NULL;
}

void slabs_forget(void)
{
	__builtin_memset(&slabs, 0, sizeof(slabs));
}

bool stack_tight(void)
{
	return slabs.tight;
}

bool stack_lock_refused(void)
{
	return ld_rlx(&slabs.refused);
}

void slab_counts(uint64_t *unguarded, uint64_t *trimmed)
{
	*unguarded = ld_rlx(&slabs.unguarded);
	*trimmed = ld_rlx(&slabs.trimmed);
}
