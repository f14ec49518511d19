/* SPDX-License-Identifier: MIT */
/* Where do green threads' stacks come from, and when does their memory go back?  See stack.c. */
#ifndef GMP_STACK_H
#define GMP_STACK_H

#include "base/base.h"

enum {
	STACK_CLASS_MIN = 14,   /* 16 KiB; a class is the binary logarithm of a reservation */
	STACK_CLASS_MAX = 30,   /* 1 GiB */
	STACK_CACHE = 64,       /* stacks that a P keeps at most */
	STACK_COLOURS = 32,     /* cache lines over which the tops of stacks are spread */
	STACK_GUARD = 64 << 10, /* bytes below a stack that fault; stack.c says why so many */
};

/* A P's own stacks of the default class, last in first out: the last one is still in the cache.  The first
 * `raw` are new, and get their guards when their turn comes. */
struct stackcache {
	unsigned n, raw;
	unsigned most; /* (c) as many at most: stackcache_init */
	char *lo[STACK_CACHE];
};

struct stack_counts {
	uint64_t made, unguarded, trimmed_bytes;
	uint64_t special, special_bytes; /* used, and not of the default class */
};

/* Prepare for at most `limit` stacks at once, of 2^klass bytes by default.  0 or -ENOMEM. */
int stack_init(uint32_t limit, unsigned klass);
/* At most so many bytes are promised to green threads from now on, in all classes. */
void stack_limit(uint64_t bytes);
/* Unmap everything; no stack may be in use. */
void stack_fini(void);
/* Forget it all without unmapping: the child of a fork may stand on one of them. */
void stack_forget(void);

/* Make sure that n more stacks of the class can be had.  0 or -ENOMEM. */
int stack_reserve(unsigned klass, uint32_t n);
void stack_unreserve(unsigned klass, uint32_t n); /* the reverse, once they are put back */
/* The same for green threads, which stack_limit is about: -EAGAIN beyond it. */
int stack_promise(unsigned klass, uint32_t n);
void stack_unpromise(unsigned klass, uint32_t n);

/* One stack, its lowest address, below which the guard lies; NULL without memory, which cannot be after
 * stack_reserve. */
char *stack_get(unsigned klass);
void stack_put(char *lo, unsigned klass);
/* Set its size, and reserve as many stacks of the default class.  0 or -ENOMEM. */
int stackcache_init(struct stackcache *c);
/* Fill the cache if it is empty (at least one, after stack_reserve), and see that the last has its guard;
 * empty a full one; empty it all. */
bool stackcache_ready(struct stackcache *c);
void stackcache_spill(struct stackcache *c);
void stackcache_flush(struct stackcache *c);

/* NULL: as for stack_get. */
static inline char *stackcache_take(struct stackcache *c)
{
	if (unlikely(c->n == c->raw) && !stackcache_ready(c))
		return NULL;
	return c->lo[--c->n];
}

/* Where a new green thread's stack pointer begins: 16-aligned, coloured. */
char *stack_top(char *lo, unsigned klass);

/* One byte or more of the n at `at` lies in the guard of the stack `lo`.  False for lo == NULL. */
static inline bool stack_guard_overlaps(const char *lo, const void *at, size_t n)
{
	uintptr_t first = (uintptr_t)at, end = (uintptr_t)lo, begin = end - STACK_GUARD;

	return first < end && n > 0 && (first >= begin || n > begin - first);
}

/* Give back what lies below sp of a stack on which no thread runs; bytes given back. */
size_t stack_trim_below(char *lo, const char *sp);
/* Give back the memory of pooled stacks that were not wanted for a whole period and since; at most
 * `most` stacks.  True when there is more to do. */
bool stack_trim_pool(unsigned most, bool new_period);

/* Stacks are locked, and RLIMIT_MEMLOCK binds: none may be kept in reserve. */
bool stack_tight(void);
/* RLIMIT_MEMLOCK has refused a stack in this run. */
bool stack_lock_refused(void);

struct stack_counts stack_counts(void);

#endif
