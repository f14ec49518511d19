/* SPDX-License-Identifier: MIT */
/*
 * 4-ary min-heap: an array in which no slot is later than any of its four children.
 *
 *   children of slot i: 4i + 1 to 4i + 4        parent of slot i: (i - 1) / 4
 *
 * HEAP4_DEFINE(name, slot, index, place) defines two static functions. slot is the type of a slot,
 * with a member `int64_t when`; index is an unsigned type that holds five times the length. The
 * caller owns the array and its length, and excludes other threads.
 *
 *   name_up(heap, i, s)        moves later ancestors of the free slot i down, then places s
 *   name_down(heap, n, i, s)   moves earlier children up, in a heap of n slots, then places s
 *
 * Both write a slot by place(heap, i, s) only, which stores s in heap[i] and may store i in the
 * object of s. Slots with equal times are in no order.
 *
 * Four children instead of two halve the number of levels, and lie in one or two cache lines.
 */
#ifndef GMP_HEAP4_H
#define GMP_HEAP4_H

#include "base/base.h"

enum { HEAP4_ARITY = 4 };

#define HEAP4_DEFINE(name, slot, index, place)                                                     \
	static void name##_up(slot *heap, index i, slot s)                                         \
	{                                                                                          \
		while (i > 0) {                                                                    \
			index parent = (i - 1) / HEAP4_ARITY;                                      \
                                                                                                   \
			if (heap[parent].when <= s.when)                                           \
				break;                                                             \
			place(heap, i, heap[parent]);                                              \
			i = parent;                                                                \
		}                                                                                  \
		place(heap, i, s);                                                                 \
	}                                                                                          \
                                                                                                   \
	static void name##_down(slot *heap, index n, index i, slot s)                              \
	{                                                                                          \
		for (;;) {                                                                         \
			index first = i * HEAP4_ARITY + 1, least = first;                          \
                                                                                                   \
			if (first >= n)                                                            \
				break;                                                             \
			for (index c = first + 1; c < min_of(first + HEAP4_ARITY, n); c++)         \
				if (heap[c].when < heap[least].when)                               \
					least = c;                                                 \
			if (heap[least].when >= s.when)                                            \
				break;                                                             \
			place(heap, i, heap[least]);                                               \
			i = least;                                                                 \
		}                                                                                  \
		place(heap, i, s);                                                                 \
	}

#endif
