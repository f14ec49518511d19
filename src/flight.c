/* SPDX-License-Identifier: MIT */
/*
 * How does what many ask for at the same time get computed once?
 *
 * A flight is one computation under a key.  The first who asks makes it, and runs fn; those who ask
 * while it is in the table join it, and wait.
 *
 *   table[hash(key)] ──> flight: key, riders, value ──> flight ...
 *   aside ──> flights that are in no list of the table
 *
 * Invariants
 *  FL1 All is under the lock but fn itself, the value while fn writes it, and what a flight that has
 *      landed says.
 *  FL2 A flight is in the table until it has landed or is forgotten, then aside; it is freed by the last
 *      of those who have part in it (`holders`), or, where the end of a run has dropped some of them,
 *      with the table.
 *  FL3 `riders` are those who will have the value: the one who computes, and those who wait.  Whoever
 *      gives up leaves before it lands; so when it has landed the number is what each is told.
 *  FL4 One that ends in fn (gmp_exit) lands by the destructor of a local; flights within flights are a
 *      list there, the innermost first.
 *  FL5 The lock is spin.h's: the table goes on when the run has ended.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <gmp.h>

#include "have_key.h"
#include "spin.h"

struct flight {
	struct flight *next, **at; /* in a list of the table, or aside; who points here */
	struct flight *outer;      /* of the same thread, in whose fn this one was begun */
	gmp_flight *table;
	gmp_sem landed; /* a permit for each who waits */
	int riders, holders;
	bool over, listed;
	int result;
	uint64_t hash;
	size_t key_size;
	char *key;
	_Alignas(max_align_t) char value[]; /* and then the key */
};

struct gmp_flight {
	uint32_t locked;
	size_t value_size; /* (c) */
	size_t n, room;    /* entries of the table; lists: a power of two */
	struct flight **list;
	struct flight *aside;
};

enum { FIRST_ROOM = 16 };

static gmp_key innermost; /* the flight that the thread computes */

/* --- the table, under the lock --- */

static void put_in(struct flight **list, struct flight *f)
{
	f->next = *list;
	f->at = list;
	if (f->next)
		f->next->at = &f->next;
	*list = f;
}

static void take_out(struct flight *f)
{
	*f->at = f->next;
	if (f->next)
		f->next->at = f->at;
}

static uint64_t hash_of(const void *key, size_t size)
{
	const unsigned char *b = key;
	uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

	for (size_t i = 0; i < size; i++)
		h = (h ^ b[i]) * UINT64_C(0x100000001b3);
	return h ^ h >> 32;
}

static struct flight *find(gmp_flight *t, uint64_t hash, const void *key, size_t size)
{
	struct flight *f = t->list[hash & (t->room - 1)];

	while (f &&
	       (f->hash != hash || f->key_size != size || (size && memcmp(f->key, key, size) != 0)))
		f = f->next;
	return f;
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
			put_in(&list[f->hash & (room - 1)], f);
		}
	}
	free(t->list);
	t->list = list;
	t->room = room;
}

static void enlist(gmp_flight *t, struct flight *f)
{
	make_room(t);
	put_in(&t->list[f->hash & (t->room - 1)], f);
	f->listed = true;
	t->n++;
}

/* Nobody joins it any more. */
static void set_aside(struct flight *f)
{
	if (!f->listed)
		return;
	take_out(f);
	put_in(&f->table->aside, f);
	f->listed = false;
	f->table->n--;
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

/* --- a flight --- */

/* With the lock held, which is dropped.  The last one to have part in it frees it. */
static void part(struct flight *f)
{
	gmp_flight *t = f->table;
	bool last = --f->holders == 0;

	if (last)
		take_out(f);
	spin_unlock(&t->locked);
	if (last)
		free(f);
}

/* When it has landed. */
static int hand_over(struct flight *f, void *value, int *riders)
{
	if (value && f->table->value_size)
		memcpy(value, f->value, f->table->value_size);
	if (riders)
		*riders = f->riders;
	return f->result;
}

/* By the one who computes; without him if he has ended his thread.  He still holds it. */
static void land(struct flight *f, int result, bool crashed)
{
	gmp_flight *t = f->table;

	spin_lock(&t->locked);
	set_aside(f);
	int waiting = f->riders - 1;

	f->riders -= crashed;
	f->result = result;
	f->over = true;
	spin_unlock(&t->locked);
	if (waiting)
		gmp_sem_release(&f->landed, waiting);
}

/* FL4 */
static void crash(void *innermost_flight)
{
	for (struct flight *f = innermost_flight, *outer; f; f = outer) {
		outer = f->outer;
		land(f, -EOWNERDEAD, true);
		spin_lock(&f->table->locked);
		part(f);
	}
}

static int compute(struct flight *f, int (*fn)(void *arg, void *value), void *arg, void *value,
		   int *riders)
{
	f->outer = gmp_get(innermost);
	int result = gmp_set(innermost, f);

	if (!result) {
		result = fn(arg, f->value);
		gmp_set(innermost, f->outer);
	}
	land(f, result, false);
	hand_over(f, value, riders);
	spin_lock(&f->table->locked);
	part(f);
	return result;
}

/* With the lock held, which is dropped.  Who waits for a flight that it computes itself waits for ever. */
static int ride(struct flight *f, void *value, int *riders, int64_t deadline)
{
	f->riders++;
	f->holders++;
	spin_unlock(&f->table->locked);
	int result = gmp_sem_acquire_until(&f->landed, deadline);

	spin_lock(&f->table->locked);
	if (f->over)
		result = hand_over(f, value, riders); /* though it may have been about to give up */
	else
		f->riders--;
	part(f);
	return result;
}

/* --- the calls --- */

gmp_flight *gmp_flight_new(size_t value_size)
{
	gmp_flight *t = value_size < SIZE_MAX / 2 ? calloc(1, sizeof(*t)) : NULL;

	if (t) {
		t->value_size = value_size;
		t->room = FIRST_ROOM;
		t->list = have_key(&innermost, crash) ? calloc(t->room, sizeof(*t->list)) : NULL;
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
	free_all(t->aside);
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

	spin_lock(&t->locked);
	struct flight *f = find(t, hash, key, size);

	if (f)
		return ride(f, value, riders, deadline);
	f = flight_new(t, hash, key, size);
	if (f)
		enlist(t, f);
	spin_unlock(&t->locked);
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
	uint64_t hash = hash_of(key, size);

	spin_lock(&t->locked);
	struct flight *f = find(t, hash, key, size);

	if (f)
		set_aside(f);
	spin_unlock(&t->locked);
	return f ? 0 : -ENOENT;
}
