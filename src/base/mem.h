/* SPDX-License-Identifier: MIT */
/*
 * malloc_zeroed: zeroed memory for small objects, from malloc instead of calloc.
 *
 * glibc's malloc answers from a cache of the calling thread; its calloc uses the arena. To create,
 * set, stop and free a timer takes 104 ns with malloc and 131 ns with calloc (row timer/create).
 */
#ifndef GMP_MEM_H
#define GMP_MEM_H

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* Returns n zeroed bytes, which the caller releases by free; NULL without memory. */
static inline void *malloc_zeroed(size_t n)
{
	void *p = malloc(n);

	__asm__ volatile("" : "+r"(p)); /* stops gcc from turning it into a calloc */
	return p ? memset(p, 0, n) : NULL;
}

#endif
