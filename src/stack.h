/* SPDX-License-Identifier: MIT */
/* Stack allocator for green threads.  stack.c has the invariants; guards: machine/slab.h. */
#ifndef GMP_STACK_H
#define GMP_STACK_H

#include "base/base.h"
#include "machine/slab.h"

enum {
	STACK_CLASS_MIN = 14, /* 16 KiB; a class is the binary logarithm of a reservation */
	STACK_CLASS_MAX = 30, /* 1 GiB */
	STACK_CACHE = 64,     /* stacks in the cache of a P, at most */
	STACK_COLOURS = 32,   /* cache lines over which the tops of stacks are spread */
};

/* Stacks of the default class that a P owns, last in first out, so the next one is likely in the
 * CPU's cache.  The first `raw` are newly carved and get their guards when they are used. */
struct stackcache {
	unsigned n, raw;
	unsigned most; /* (c) STACK_CACHE, or TIGHT_CACHE of stack.c */
	char *lo[STACK_CACHE];
};

struct stack_counts {
	uint64_t made, unguarded, trimmed_bytes;
	uint64_t special, special_bytes; /* in use, and not of the default class */
};

/* Prepares for at most `limit` stacks at once, of 2^klass bytes by default.  Returns 0 or
 * -ENOMEM. */
int stack_init(uint32_t limit, unsigned klass);
/* Limits the bytes that stack_promise may reserve, in all classes together. */
void stack_limit(uint64_t bytes);
/* Unmaps everything but the stacks that are kept.  No other stack may be in use. */
void stack_fini(void);

/* Fork: in the child, forgets everything without unmapping: the caller may run on one of the
 * stacks. */
void stack_forget(void);

/* Reserves n more stacks of the class: stack_get then succeeds for them.  Returns 0 or -ENOMEM. */
int stack_reserve(unsigned klass, uint32_t n);
void stack_unreserve(unsigned klass, uint32_t n); /* the reverse, once they are put back */
/* The same for the stack of a green thread, which stack_limit limits: returns -EAGAIN beyond it. */
int stack_promise(unsigned klass, uint32_t n);
void stack_unpromise(unsigned klass, uint32_t n);

/* Returns a stack: its lowest address, below which the guard is.  NULL without memory; not after
 * stack_reserve. */
char *stack_get(unsigned klass);
void stack_put(char *lo, unsigned klass);
/* Sets the size of the cache, and reserves as many stacks of the default class.  Returns 0 or
 * -ENOMEM. */
int stackcache_init(struct stackcache *c);
/* Fills c if it is empty, with at least one stack after stack_reserve, and installs the guard of
 * the last one.  Returns false without memory. */
bool stackcache_ready(struct stackcache *c);
/* Moves half of a full cache to the pool. */
void stackcache_spill(struct stackcache *c);
/* Moves all of c to the pool. */
void stackcache_flush(struct stackcache *c);

/* Returns a stack with its guard; NULL as for stack_get. */
static inline char *stackcache_take(struct stackcache *c)
{
	if (unlikely(c->n == c->raw) && !stackcache_ready(c))
		return NULL;
	return c->lo[--c->n];
}

/* Returns the end of the stack of a new green thread: aligned to 16, and coloured: distributed
 * over STACK_COLOURS cache lines, so that the tops of stacks do not share cache sets. */
char *stack_top(char *lo, unsigned klass);

/* Returns the memory of pooled stacks that were not used for a whole period and since, of at most
 * `most` stacks.  Returns true if more are left. */
bool stack_trim_pool(unsigned most, bool new_period);

struct stack_counts stack_counts(void);

#endif
