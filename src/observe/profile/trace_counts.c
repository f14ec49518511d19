/* SPDX-License-Identifier: MIT */
/* Sums of samples: see observe/profile/trace_counts.h. */
#include "observe/profile/trace_counts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CAP_MIN = 64 };

static uint64_t trace_counts_mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15u;
	return h ^ h >> 29;
}

static uint64_t hash_text(uint64_t h, const char *text)
{
	for (; *text; text++)
		h = trace_counts_mix(h, (unsigned char)*text);
	return trace_counts_mix(h, 0);
}

static uint64_t hash_key(const struct trace_count *key, const uintptr_t *pc, int n)
{
	uint64_t h = trace_counts_mix((uint64_t)n, (uintptr_t)key->fn);

	h = hash_text(h, key->green);
	for (int i = 0; i < TRACE_COUNTS_LABELS; i++)
		h = hash_text(h, key->label[i]);
	for (int i = 0; i < n; i++)
		h = trace_counts_mix(h, pc[i]);
	return h;
}

static bool is_entry(const struct trace_counts *t, const struct trace_count *e,
		     const struct trace_count *key, const uintptr_t *pc, int n)
{
	if (e->hash != key->hash || e->n != n || e->fn != key->fn ||
	    strcmp(e->green, key->green) != 0 || memcmp(t->pc + e->at, pc, (size_t)n * sizeof(*pc)))
		return false;
	for (int i = 0; i < TRACE_COUNTS_LABELS; i++)
		if (strcmp(e->label[i], key->label[i]) != 0)
			return false;
	return true;
}

void *trace_counts_grow(void *array, size_t *cap, size_t want, size_t size)
{
	size_t more = max_of(*cap * 2, (size_t)CAP_MIN);
	void *p;

	if (array && want <= *cap)
		return array;
	while (more < want)
		more *= 2;
	p = realloc(array, more * size);
	if (p)
		*cap = more;
	return p;
}

static bool trace_counts_room(struct trace_counts *t, int n)
{
	struct trace_count *of = trace_counts_grow(t->of, &t->cap, t->n + 1, sizeof(*of));
	uintptr_t *pc = trace_counts_grow(t->pc, &t->pc_cap, t->pcs + (size_t)n, sizeof(*pc));

	if (of)
		t->of = of;
	if (pc)
		t->pc = pc;
	return of && pc;
}

static uint32_t *slot_of(struct trace_counts *t, const struct trace_count *key, const uintptr_t *pc,
			 int n)
{
	size_t i = key->hash & (t->slots - 1);

	while (t->slot[i] && !is_entry(t, &t->of[t->slot[i] - 1], key, pc, n))
		i = (i + 1) & (t->slots - 1);
	return &t->slot[i];
}

/* Keep at least half of the slots free. */
static bool grow_slots(struct trace_counts *t)
{
	size_t slots = max_of(t->slots * 2, (size_t)2 * CAP_MIN);
	uint32_t *slot;

	if (t->n * 2 < t->slots)
		return true;
	slot = calloc(slots, sizeof(*slot));
	if (!slot)
		return false;
	free(t->slot);
	t->slot = slot;
	t->slots = slots;
	for (size_t k = 0; k < t->n; k++) {
		size_t i = t->of[k].hash & (slots - 1);

		while (slot[i])
			i = (i + 1) & (slots - 1);
		slot[i] = (uint32_t)k + 1;
	}
	return true;
}

long trace_counts_find(struct trace_counts *t, const struct trace_count *key, const uintptr_t *pc,
		       int n)
{
	struct trace_count e = *key;
	uint32_t *slot;

	e.hash = hash_key(key, pc, n);
	if (!grow_slots(t))
		return -1;
	slot = slot_of(t, &e, pc, n);
	if (*slot)
		return (long)*slot - 1;
	if (!trace_counts_room(t, n))
		return -1;
	e.n = n;
	e.at = t->pcs;
	memset(e.value, 0, sizeof(e.value));
	memcpy(t->pc + t->pcs, pc, (size_t)n * sizeof(*pc));
	t->pcs += (size_t)n;
	t->of[t->n++] = e;
	*slot = (uint32_t)t->n;
	return (long)t->n - 1;
}

void trace_counts_free(struct trace_counts *t)
{
	free(t->of);
	free(t->pc);
	free(t->slot);
	memset(t, 0, sizeof(*t));
}

void trace_counts_green(char text[TRACE_COUNTS_TEXT], uint64_t id, const char *name)
{
	if (*name)
		snprintf(text, TRACE_COUNTS_TEXT, "%s", name);
	else
		snprintf(text, TRACE_COUNTS_TEXT, "id %" PRIu64, id);
}
