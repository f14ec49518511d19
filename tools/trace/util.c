/* SPDX-License-Identifier: MIT */
/*
 * Memory, hash tables, interned texts and counted warnings of gmp-trace.
 */
#include "util.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void die(const char *format, ...)
{
	va_list list;

	fflush(stdout);
	fputs("gmp-trace: ", stderr);
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fputc('\n', stderr);
	exit(1);
}

void *new_memory(size_t count, size_t size)
{
	void *at = calloc(count, size);

	if (at == NULL)
		die("out of memory: %zu * %zu bytes", count, size);
	return at;
}

/* Returns the array with room for `count` elements; the new ones are zeroed. */
void *grow(void *at, size_t old_count, size_t count, size_t size)
{
	char *more = count > SIZE_MAX / size ? NULL : realloc(at, count * size);

	if (more == NULL)
		die("out of memory: %zu * %zu bytes", count, size);
	memset(more + old_count * size, 0, (count - old_count) * size);
	return more;
}

char *copy_text(const char *text, size_t length)
{
	char *copy = new_memory(length + 1, 1);

	memcpy(copy, text, length);
	return copy;
}

static size_t home_of(const struct map *m, uint64_t key)
{
	key *= 0x9e3779b97f4a7c15;
	return (size_t)(key ^ key >> 32) & (m->size - 1);
}

/* Returns the slot of the key, or the empty slot where it belongs. */
static struct map_slot *find_slot(const struct map *m, uint64_t key)
{
	size_t i = home_of(m, key);

	while (m->slots[i].value != NULL && m->slots[i].key != key)
		i = (i + 1) & (m->size - 1);
	return &m->slots[i];
}

void *map_get(const struct map *m, uint64_t key)
{
	return m->size == 0 ? NULL : find_slot(m, key)->value;
}

static void map_resize(struct map *m)
{
	struct map old = *m;

	m->size = old.size ? 2 * old.size : 64;
	m->slots = new_memory(m->size, sizeof(*m->slots));
	for (size_t i = 0; i < old.size; i++)
		if (old.slots[i].value != NULL)
			*find_slot(m, old.slots[i].key) = old.slots[i];
	free(old.slots);
}

void map_put(struct map *m, uint64_t key, void *value)
{
	if (2 * m->used >= m->size)
		map_resize(m);
	*find_slot(m, key) = (struct map_slot){ .key = key, .value = value };
	m->used++;
}

/* Closes the gap: moves back each later slot of the run whose home is not behind the gap. */
void map_remove(struct map *m, uint64_t key)
{
	struct map_slot *slot = m->size ? find_slot(m, key) : NULL;
	size_t mask = m->size - 1, gap, i;

	if (slot == NULL || slot->value == NULL)
		return;
	m->used--;
	gap = (size_t)(slot - m->slots);
	for (i = (gap + 1) & mask; m->slots[i].value != NULL; i = (i + 1) & mask) {
		size_t home = home_of(m, m->slots[i].key);

		if (((i - home) & mask) >= ((i - gap) & mask)) {
			m->slots[gap] = m->slots[i];
			gap = i;
		}
	}
	m->slots[gap].value = NULL;
}

void map_free(struct map *m)
{
	free(m->slots);
	*m = (struct map){ 0 };
}

static uint64_t hash_text(const char *text, size_t length)
{
	uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3;
	return hash;
}

const struct text *intern(struct texts *t, const char *text, size_t length)
{
	uint64_t hash = hash_text(text, length);
	struct text *first = map_get(&t->by_hash, hash), *made;

	for (struct text *same = first; same != NULL; same = same->next)
		if (same->length == length && memcmp(same->at, text, length) == 0)
			return same;
	made = new_memory(1, sizeof(*made) + length + 1);
	made->length = (uint32_t)length;
	memcpy(made->at, text, length);
	if (first != NULL) {
		made->next = first->next;
		first->next = made;
	} else {
		map_put(&t->by_hash, hash, made);
	}
	ROOM_FOR_ONE(t->all, t->count, t->capacity);
	made->index = (uint32_t)t->count;
	t->all[t->count++] = made;
	return made;
}

void texts_free(struct texts *t)
{
	for (size_t i = 0; i < t->count; i++)
		free(t->all[i]);
	free(t->all);
	map_free(&t->by_hash);
	*t = (struct texts){ 0 };
}

bool is_damaged(const struct warnings *w)
{
	static const enum warning damage[] = { WARN_DAMAGED, WARN_UNKNOWN_TYPE, WARN_BAD_CLOCK,
					       WARN_BAD_P,   WARN_STOPS,        WARN_MISCOUNT,
					       WARN_OUTSIDE, WARN_JUMP };

	for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++)
		if (w->count[damage[i]] != 0)
			return true;
	return false;
}

void print_warnings(const struct warnings *w, const char *file)
{
	static const char *const texts[] = {
#define X(name, text) text,
		WARNINGS(X)
#undef X
	};

	for (unsigned i = 0; i < WARNING_COUNT; i++) {
		if (w->count[i] == 0)
			continue;
		if (i == WARN_TRUNCATED || i == WARN_NO_STOP || i == WARN_NO_CLOCK ||
		    i == WARN_MISCOUNT)
			fprintf(stderr, "gmp-trace: %s: %s\n", file, texts[i]);
		else
			fprintf(stderr, "gmp-trace: %s: %llu %s\n", file,
				(unsigned long long)w->count[i], texts[i]);
	}
}
