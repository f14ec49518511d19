/* SPDX-License-Identifier: MIT */
/*
 * Trace counts: sums of samples with the same stack, entry function and labels; a hash table on the
 * heap.
 *
 * For the thread of a profile (profile.h): it allocates.
 */
#ifndef GMP_TRACE_COUNTS_H
#define GMP_TRACE_COUNTS_H

#include "base/trace.h"
#include "types.h"

enum { TRACE_COUNTS_VALUES = 2, TRACE_COUNTS_LABELS = 2, TRACE_COUNTS_TEXT = G_NAME_MAX + 24 };

struct trace_count {
	/* what is equal in all samples of the entry */
	gmp_fn fn;                     /* entry function; NULL: no label */
	char green[TRACE_COUNTS_TEXT]; /* text of the label "green thread"; "": none */
	char label[TRACE_COUNTS_LABELS][TRACE_COUNTS_TEXT]; /* texts of further labels; "": none */
	int n;                                              /* length of the stack */
	size_t at; /* index of its first pc in pc; innermost first */
	/* sums */
	int64_t value[TRACE_COUNTS_VALUES];
	uint64_t hash;
};

/* All-zero bytes are empty counts. */
struct trace_counts {
	struct trace_count *of;
	size_t n, cap;
	uintptr_t *pc;
	size_t pcs, pc_cap;
	uint32_t *slot; /* 0: free; otherwise index in `of`, plus 1 */
	size_t slots;   /* a power of two, or 0 */
};

/* Return the index of the entry with the labels and the function of key and the stack pc[0..n-1],
 * which is added if it is new; -1 without memory. Texts are compared up to their end. */
long trace_counts_find(struct trace_counts *t, const struct trace_count *key, const uintptr_t *pc,
		       int n);
void trace_counts_free(struct trace_counts *t);

/* Return the array with room for `want` elements of `size` bytes, grown by doubling *cap; NULL
 * without memory: then the array is unchanged. */
void *trace_counts_grow(void *array, size_t *cap, size_t want, size_t size);

/* Write the label of a G: its name, or "id 17". */
void trace_counts_green(char text[TRACE_COUNTS_TEXT], uint64_t id, const char *name);

#endif
