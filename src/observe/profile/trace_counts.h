/* SPDX-License-Identifier: MIT */
/*
 * Trace counts: sums of samples with the same stack, entry function and labels; a tree on the heap.
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
	const uintptr_t *pc;                                /* innermost first */
	/* sums */
	int64_t value[TRACE_COUNTS_VALUES];
	struct trace_count *next; /* in the order of addition */
};

/* All-zero bytes are empty counts. */
struct trace_counts {
	void *tree; /* of tsearch(3) */
	struct trace_count *first, *last;
	size_t n, pcs; /* number of entries, and of addresses in their stacks */
};

/* Return the entry with the labels, the function and the stack of key, which is copied if it is
 * new; NULL without memory. */
struct trace_count *trace_counts_find(struct trace_counts *t, const struct trace_count *key);
void trace_counts_free(struct trace_counts *t);

/* Write the label of a G: its name, or "id 17". */
void trace_counts_green(char text[TRACE_COUNTS_TEXT], uint64_t id, const char *name);

#endif
