/* SPDX-License-Identifier: MIT */
/*
 * Memory, hash tables, interned texts and counted warnings of gmp-trace.
 */
#ifndef TOOLS_TRACE_UTIL_H
#define TOOLS_TRACE_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Prints "gmp-trace: " and the message, and exits with status 1. */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Allocation that ends the program if memory runs out. New memory is zeroed. */
void *new_memory(size_t count, size_t size);
void *grow(void *at, size_t old_count, size_t count, size_t size);
char *copy_text(const char *text, size_t length);

/* Makes room for one more element in an array; `size` is its capacity. */
#define ROOM_FOR_ONE(array, count, capacity)                                                       \
	do {                                                                                       \
		if ((count) == (capacity)) {                                                       \
			size_t new_capacity = (capacity) ? 2 * (size_t)(capacity) : 16;            \
                                                                                                   \
			(array) = grow((array), (count), new_capacity, sizeof(*(array)));          \
			(capacity) = new_capacity;                                                 \
		}                                                                                  \
	} while (0)

/* Adds a time to a sum, which stays at its limit: a damaged file may have times of centuries. */
static inline void add_ns(int64_t *sum, int64_t ns)
{
	if (__builtin_add_overflow(*sum, ns, sum))
		*sum = INT64_MAX;
}

/* Hash table from a number to a pointer; linear probing, at most half full. */
struct map {
	struct map_slot {
		uint64_t key;
		void *value; /* NULL: the slot is empty */
	} * slots;
	size_t size, used;
};

void *map_get(const struct map *m, uint64_t key);
void map_put(struct map *m, uint64_t key, void *value); /* the key must not be in the map */
void map_remove(struct map *m, uint64_t key);
void map_free(struct map *m);

/* Set of texts: equal texts have the same address. */
struct text {
	struct text *next; /* of the same hash */
	uint32_t index;    /* 0, 1, ... in the order of addition */
	uint32_t length;
	char at[];
};

struct texts {
	struct map by_hash;
	struct text **all;
	size_t count, capacity;
};

const struct text *intern(struct texts *t, const char *text, size_t length);
void texts_free(struct texts *t);

/* Kinds of damage. Each is reported once, with the number of times. */
#define WARNINGS(X)                                                                                \
	X(TRUNCATED, "the file ends within a block: it is truncated")                              \
	X(DAMAGED, "damaged blocks; the rest of each is skipped")                                  \
	X(UNKNOWN_TYPE, "blocks with an event of an unknown type; the rest of each is skipped")    \
	X(NO_STOP, "the file has no stop event: it is incomplete")                                 \
	X(BACKWARD, "events with a time before that of the event before them in their thread")     \
	X(NO_CLOCK, "no clock event: a tick is taken to be a nanosecond")                          \
	X(BAD_CLOCK, "clock events that contradict the ones before; they are ignored")             \
	X(LOST, "events were lost: the program made them faster than they were written")           \
	X(UNKNOWN_G, "green threads whose start is not in the trace")                              \
	X(MISSING, "changes of state that need an event that is not in the trace")                 \
	X(LATE, "events of green threads that have ended")                                         \
	X(NO_BEGIN, "ends of regions whose beginning is not in the trace")                         \
	X(DEEP, "regions that are nested too deeply; they are ignored")                            \
	X(BAD_P, "events with an impossible P; it is ignored")                                     \
	X(STOPS, "stop events after the first one")                                                \
	X(MISCOUNT, "the stop event counts other events than the file has: it is damaged")         \
	X(OUTSIDE, "events with a time outside of the trace; it is that of its start or end")      \
	X(JUMP, "events with a time more than 1 ms before that of the event before them")

enum warning {
#define X(name, text) WARN_##name,
	WARNINGS(X)
#undef X
		WARNING_COUNT
};

struct warnings {
	uint64_t count[WARNING_COUNT];
};

/* Returns true if the file has what no gmp writes, so that the figures are not reliable. */
bool is_damaged(const struct warnings *w);

/* Writes the warnings to stderr. */
void print_warnings(const struct warnings *w, const char *file);

#endif
