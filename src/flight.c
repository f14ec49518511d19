/* SPDX-License-Identifier: MIT */
/*
 * How does what many ask for at the same time get computed once?
 *
 * A flight is one computation under a key.  The first who asks makes it, and runs fn; those who ask
 * while it is in the table join it, and wait.
 *
 *   table[hash(key)] ──> flight: key, riders, value ──> flight ...
 *
 * Invariants
 *  FL1 All is under the mutex but fn itself, and the value while fn writes it.
 *  FL2 A flight is in the table until it has landed or is forgotten; it is freed by the last of those
 *      who have part in it (`holders`).
 *  FL3 `riders` are those who will have the value: the one who computes, and those who wait.  Whoever
 *      gives up leaves before it lands; so when it has landed the number is what each is told.
 *  FL4 One that ends in fn (gmp_exit) lands by the destructor of a local; flights within flights are a
 *      list there, the innermost first.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <gmp.h>

struct flight {
	struct flight *next;  /* in the table */
	struct flight *outer; /* of the same thread, in whose fn this one was begun */
	gmp_flight *table;
	gmp_cond landed;
	int riders, holders;
	bool over, listed;
	int result;
	uint64_t hash;
	size_t key_size;
	char *key;
	_Alignas(max_align_t) char value[]; /* and then the key */
};

struct gmp_flight {
	gmp_mutex mutex;
	size_t value_size; /* (c) */
	size_t n, room;    /* entries of the table; lists: a power of two */
	struct flight **list;
	struct flight *forgotten; /* under way, and in no list of the table */
};

enum { FIRST_ROOM = 16 };

static gmp_key innermost; /* the flight that the thread computes */

/* --- the table, under the mutex --- */

static uint64_t hash_of(const void *key, size_t size)
{
	const unsigned char *b = key;
	uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

	for (size_t i = 0; i < size; i++)
		h = (h ^ b[i]) * UINT64_C(0x100000001b3);
	return h ^ h >> 32;
}

static struct flight **find(gmp_flight *t, uint64_t hash, const void *key, size_t size)
{
	struct flight **at = &t->list[hash & (t->room - 1)];

	while (*at && ((*at)->hash != hash || (*at)->key_size != size ||
		       (size && memcmp((*at)->key, key, size) != 0)))
		at = &(*at)->next;
	return at;
}

/* Longer lists do no harm where there is no memory. */
static void make_room(gmp_flight *t)
{
	size_t room = t->room * 2;
	struct flight **list = t->n < t->room ? NULL : calloc(room, sizeof(*list));

	if (!list)
		return;
	for (size_t i = 0; i < t->room; i++) {
		for (struct flight *f = t->list[i], *next; f; f = next) {
			next = f->next;
			f->next = list[f->hash & (room - 1)];
			list[f->hash & (room - 1)] = f;
		}
	}
	free(t->list);
	t->list = list;
	t->room = room;
}

static void enlist(gmp_flight *t, struct flight *f)
{
	make_room(t);
	struct flight **at = &t->list[f->hash & (t->room - 1)];

	f->next = *at;
	*at = f;
	f->listed = true;
	t->n++;
}

static void delist(gmp_flight *t, struct flight *f)
{
	struct flight **at = f->listed ? &t->list[f->hash & (t->room - 1)] : &t->forgotten;

	while (*at != f)
		at = &(*at)->next;
	*at = f->next;
	t->n -= f->listed;
	f->listed = false;
}

static struct flight *flight_new(gmp_flight *t, uint64_t hash, const void *key, size_t size)
{
	struct flight *f;
	size_t bytes;

	if (__builtin_add_overflow(sizeof(*f) + t->value_size, size, &bytes))
		return NULL;
	f = calloc(1, bytes);
	if (!f)
		return NULL;
	f->table = t;
	f->riders = f->holders = 1;
	f->hash = hash;
	f->key = f->value + t->value_size;
	f->key_size = size;
	if (size)
		memcpy(f->key, key, size);
	return f;
}

/* The last one to have part in it frees it. */
static void part(struct flight *f)
{
	if (--f->holders == 0)
		free(f);
}

/* --- a flight --- */

static void hand_over(struct flight *f, void *value, int *riders)
{
	if (value && f->table->value_size)
		memcpy(value, f->value, f->table->value_size);
	if (riders)
		*riders = f->riders;
}

static void land_locked(struct flight *f, int result)
{
	delist(f->table, f);
	f->result = result;
	f->over = true;
	gmp_cond_broadcast(&f->landed);
}

/* FL4 */
static void crash(void *innermost_flight)
{
	for (struct flight *f = innermost_flight, *outer; f; f = outer) {
		gmp_flight *t = f->table;

		outer = f->outer;
		gmp_mutex_lock(&t->mutex);
		f->riders--;
		land_locked(f, -EOWNERDEAD);
		part(f);
		gmp_mutex_unlock(&t->mutex);
	}
}

static int compute(struct flight *f, int (*fn)(void *arg, void *value), void *arg, void *value,
		   int *riders)
{
	gmp_flight *t = f->table;

	f->outer = gmp_get(innermost);
	int result = gmp_set(innermost, f);

	if (!result) {
		result = fn(arg, f->value);
		gmp_set(innermost, f->outer);
	}
	gmp_mutex_lock(&t->mutex);
	land_locked(f, result);
	hand_over(f, value, riders);
	part(f);
	gmp_mutex_unlock(&t->mutex);
	return result;
}

/* Under the mutex, which it drops.  Who waits for a flight that it computes itself waits for ever. */
static int ride(struct flight *f, void *value, int *riders, int64_t deadline)
{
	gmp_flight *t = f->table;
	int result = 0;

	f->riders++;
	f->holders++;
	while (!f->over && !result)
		result = gmp_cond_wait_until(&f->landed, &t->mutex, deadline);
	if (f->over) {
		result = f->result;
		hand_over(f, value, riders);
	} else {
		f->riders--;
	}
	part(f);
	gmp_mutex_unlock(&t->mutex);
	return result;
}

/* --- the calls --- */

static bool key_made;

static void make_key(void *arg)
{
	(void)arg;
	key_made = gmp_key_create(&innermost, crash) == 0;
}

gmp_flight *gmp_flight_new(size_t value_size)
{
	static gmp_once once = GMP_ONCE_INIT;
	gmp_flight *t = value_size < SIZE_MAX / 2 ? calloc(1, sizeof(*t)) : NULL;

	gmp_once_do(&once, make_key, NULL);
	if (t) {
		t->value_size = value_size;
		t->room = FIRST_ROOM;
		t->list = key_made ? calloc(t->room, sizeof(*t->list)) : NULL;
	}
	if (t && !t->list) {
		free(t);
		return NULL;
	}
	return t;
}

static void free_all(struct flight *f)
{
	for (struct flight *next; f; f = next) {
		next = f->next;
		free(f);
	}
}

void gmp_flight_free(gmp_flight *t)
{
	if (!t)
		return;
	/* those that the end of a run has dropped */
	for (size_t i = 0; i < t->room; i++)
		free_all(t->list[i]);
	free_all(t->forgotten);
	free(t->list);
	free(t);
}

int gmp_flight_do_until(gmp_flight *t, const void *key, size_t size,
			int (*fn)(void *arg, void *value), void *arg, void *value, int *riders,
			int64_t deadline)
{
	if (!t || !fn || (size && !key))
		return -EINVAL;
	uint64_t hash = hash_of(key, size);

	gmp_mutex_lock(&t->mutex);
	struct flight *f = *find(t, hash, key, size);

	if (f)
		return ride(f, value, riders, deadline);
	f = flight_new(t, hash, key, size);
	if (f)
		enlist(t, f);
	gmp_mutex_unlock(&t->mutex);
	return f ? compute(f, fn, arg, value, riders) : -ENOMEM;
}

int gmp_flight_do(gmp_flight *t, const void *key, size_t size, int (*fn)(void *arg, void *value),
		  void *arg, void *value, int *riders)
{
	return gmp_flight_do_until(t, key, size, fn, arg, value, riders, GMP_FOREVER);
}

int gmp_flight_forget(gmp_flight *t, const void *key, size_t size)
{
	if (!t || (size && !key))
		return -EINVAL;
	gmp_mutex_lock(&t->mutex);
	struct flight *f = *find(t, hash_of(key, size), key, size);

	if (f) {
		delist(t, f);
		f->next = t->forgotten;
		t->forgotten = f;
	}
	gmp_mutex_unlock(&t->mutex);
	return f ? 0 : -ENOENT;
}
