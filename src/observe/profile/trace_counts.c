/* SPDX-License-Identifier: MIT */
/* Sums of samples: see observe/profile/trace_counts.h. */
#include "observe/profile/trace_counts.h"

#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The texts come first: they differ the most, and lie in the entry. */
static int by_sample(const void *a, const void *b)
{
	const struct trace_count *x = a, *y = b;
	int order = strcmp(x->green, y->green);

	for (int i = 0; i < TRACE_COUNTS_LABELS && !order; i++)
		order = strcmp(x->label[i], y->label[i]);
	if (!order)
		order = memcmp(&x->fn, &y->fn, sizeof(x->fn));
	if (!order)
		order = x->n - y->n;
	return order ? order : memcmp(x->pc, y->pc, (size_t)x->n * sizeof(*x->pc));
}

static struct trace_count *trace_counts_add(struct trace_counts *t, const struct trace_count *key)
{
	size_t bytes = (size_t)key->n * sizeof(*key->pc);
	struct trace_count *e = malloc(sizeof(*e) + bytes);

	if (!e)
		return NULL;
	*e = *key;
	e->pc = memcpy(e + 1, key->pc, bytes);
	e->next = NULL;
	memset(e->value, 0, sizeof(e->value));
	if (!tsearch(e, &t->tree, by_sample)) {
		free(e);
		return NULL;
	}
	*(t->last ? &t->last->next : &t->first) = e;
	t->last = e;
	t->n++;
	t->pcs += (size_t)e->n;
	return e;
}

struct trace_count *trace_counts_find(struct trace_counts *t, const struct trace_count *key)
{
	struct trace_count **found = tfind(key, &t->tree, by_sample);

	return found ? *found : trace_counts_add(t, key);
}

void trace_counts_free(struct trace_counts *t)
{
	for (struct trace_count *e; (e = t->first); free(e)) {
		tdelete(e, &t->tree, by_sample);
		t->first = e->next;
	}
	memset(t, 0, sizeof(*t));
}

void trace_counts_green(char text[TRACE_COUNTS_TEXT], uint64_t id, const char *name)
{
	if (*name)
		snprintf(text, TRACE_COUNTS_TEXT, "%s", name);
	else
		snprintf(text, TRACE_COUNTS_TEXT, "id %" PRIu64, id);
}
