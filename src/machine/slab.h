/* SPDX-License-Identifier: MIT */
/*
 * Slabs: large mappings from which the stacks of green threads are carved, and the guards of the
 * stacks.
 *
 * A slab holds many stacks of one size class.  Only pages that were touched are resident; the rest
 * is address space.
 *
 *   slab    | guard | ........ untouched ........ | touched | guard | ...
 *                     lo        2^class bytes           top^          lo of the next
 *
 * Invariants
 *   SLAB-1  The guard of a stack begins where the stack below it ends.  A page table spans 2 MiB,
 *           so the top of a stack and the guard of the next share a table, except about one pair
 *           in 32 of the classes from 2 MiB up.  A parked stack costs 8 bytes of page table for
 *           each of its pages and of its guard's, and at most about one table.
 *   SLAB-2  All 2^class bytes of a stack can be used: the guard is below them.  The guard uses no
 *           memory, is not counted by stack_promise, and its pages never become resident.
 *   SLAB-3  In a process that locks its memory (mlockall with MCL_FUTURE), slots [0, ready) of a
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
#ifndef GMP_SLAB_H
#define GMP_SLAB_H

#include "base/base.h"

enum { STACK_GUARD = 64 << 10 }; /* bytes below a stack that fault */

/* Header of a slab, in the first page above its guard. */
struct slab {
	char *map; /* the whole mapping */
	size_t bytes;
	uint32_t count;
	bool locks;       /* SLAB-3 */
	uint32_t ready;   /* (l) slots that may be carved: count, unless memory is locked */
	uint32_t guarded; /* (l) if memory is locked: slots that have their guards */
	struct slab *next;
};

static inline size_t class_bytes(unsigned klass)
{
	return (size_t)1 << klass;
}

/* Distance from one stack to the next, with the guard. */
static inline size_t slot_bytes(unsigned klass)
{
	return class_bytes(klass) + STACK_GUARD;
}

/* The lowest address of the stack in slot i. */
static inline char *slab_stack(struct slab *s, unsigned klass, uint32_t i)
{
	return (char *)s + PAGE + i * slot_bytes(klass) + STACK_GUARD;
}

/* True if one of the n bytes at `at` is in the guard of the stack `lo`.  False if lo is NULL. */
static inline bool stack_guard_overlaps(const char *lo, const void *at, size_t n)
{
	uintptr_t first = (uintptr_t)at, end = (uintptr_t)lo, begin = end - STACK_GUARD;

	return first < end && n > 0 && (first >= begin || n > begin - first);
}

/* A stack that is in use after the end of its run (variant/abandon.h). */
struct kept_stack {
	char *lo;
	unsigned klass;
	struct kept_stack *next;
};

/* Find out which guards the system has.  Returns 0 or -ENOMEM. */
int slabs_init(void);
/* After the last slab_release of a run. */
void slabs_fini(void);
void slabs_forget(void); /* the child of a fork */

/* Map a slab of class klass, whose slabs have `room` slots.  NULL: no memory. */
struct slab *slab_new(unsigned klass, uint64_t room);
/* Unmap it, except the stacks that are kept and their guards. */
void slab_release(struct slab *s);
/* SLAB-3: make up to n more slots of a locked slab usable.  Returns their number or -ENOMEM.  With
 * the lock of the pool held. */
int slab_lock(struct slab *s, unsigned klass, uint64_t n);

/* Install a light guard of the stack lo, without a lock.  False: call guard_install_locked. */
bool guard_install_light(char *lo);
/* With the lock of the pool held. */
void guard_install_locked(char *lo);

/* Return the resident pages of [from, to) to the kernel, window after window downwards: down to
 * the first window without memory, or to the end.  Returns the bytes. */
size_t slab_discard(char *from, char *to, bool to_the_end);
/* The same for the memory below sp of a stack on which no thread runs. */
size_t stack_trim_below(char *lo, const char *sp);

/* The next slab_release does not unmap the stack k->lo of class k->klass, nor its guard. */
void stack_keep(struct kept_stack *k);
/* Unmap both. */
void stack_release_kept(const struct kept_stack *k);

/* True if stacks are locked and RLIMIT_MEMLOCK binds: none may be kept in reserve. */
bool stack_tight(void);
/* True if RLIMIT_MEMLOCK has refused a stack in this run. */
bool stack_lock_refused(void);
/* Stacks without a guard, and bytes returned to the kernel, of this run. */
void slab_counts(uint64_t *unguarded, uint64_t *trimmed);

#endif
