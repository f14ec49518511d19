/* SPDX-License-Identifier: MIT */
/*
 * Singleflight: of the calls under one key at the same time, one computes and the others get its result.
 *
 * A flight is one computation under a key.  The first call makes it and runs fn (the runner); calls that come
 * while it is in the table join it and wait.
 *
 *   table[hash(key)] ──> flight: key, sharers, value ──> flight ...
 *   aside ──> flights that are in no list of the table
 *
 * Invariants
 *  FL1 All is under the lock except fn itself, the value while fn writes it, and the result of a flight
 *      that has landed.
 *  FL2 A flight is in the table until it has landed or is forgotten, then aside; it is freed by the last
 *      call that takes part in it (`holders`), or, if shutdown has killed some of these, with the
 *      table.
 *  FL3 `sharers` counts the calls that get the value: the runner and the waiters.  A waiter that gives up
 *      leaves before the flight lands; so from then on the number is final.
 *  FL4 If the runner ends in fn (gmp_exit), the destructor of a local lands the flight; flights within
 *      flights are a list there, the innermost first.
 *  FL5 The lock is LR_SERVICE, no gmp_mutex: the table outlives the run.
 *  FL6 `external` and `green` count calls that are inside, without the calls that the end of a run has killed: a
 *      free of the table is misuse while the sum is not 0.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "service/service.h"

struct flight {
	struct flight *next, **at; /* in a list of the table, or aside; at: what points here */
	struct flight *outer;      /* of the same thread, in whose fn this one was begun */
	gmp_singleflight *table;
	gmp_sem landed; /* a permit for each waiter */
	int sharers, holders;
	int external; /* FL6: holders that are external threads, */
	int green;    /* and green threads of */
	uint64_t run; /* this run, the latest of which one came */
	bool over, listed;
	int result;
	uint64_t hash;
	size_t key_size;
	char *key;
	_Alignas(max_align_t) char value[]; /* and then the key */
};

struct gmp_singleflight {
	struct lock lock;
	uint32_t kind;     /* (c) enum object_kind */
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

static struct flight *find(gmp_singleflight *t, uint64_t hash, const void *key, size_t size)
{
	struct flight *f = t->list[hash & (t->room - 1)];

	while (f &&
	       (f->hash != hash || f->key_size != size || (size && memcmp(f->key, key, size) != 0)))
		f = f->next;
	return f;
}

/* Longer lists do no harm where there is no memory. */
static void make_room(gmp_singleflight *t)
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

static void enlist(gmp_singleflight *t, struct flight *f)
{
	make_room(t);
	put_in(&t->list[f->hash & (t->room - 1)], f);
	f->listed = true;
	t->n++;
}

/* No call joins it any more. */
static void set_aside(struct flight *f)
{
	if (!f->listed)
		return;
	take_out(f);
	put_in(&f->table->aside, f);
	f->listed = false;
	f->table->n--;
}

/* FL6, with the lock held: n is 1 or -1. */
static void count_caller(struct flight *f, int n)
{
	uint64_t run = gmp_run_id();

	if (!gmp_self()) {
		f->external += n;
		return;
	}
	if (f->run != run) { /* no caller of an earlier run is alive */
		f->run = run;
		f->green = 0;
	}
	f->green += n;
}

static struct flight *flight_new(gmp_singleflight *t, uint64_t hash, const void *key, size_t size)
{
	struct flight *f;
	size_t bytes;

	if (__builtin_add_overflow(sizeof(*f) + t->value_size, size, &bytes))
		return NULL;
	f = calloc(1, bytes);
	if (!f)
		return NULL;
	f->table = t;
	f->sharers = f->holders = 1;
	count_caller(f, 1);
	f->hash = hash;
	f->key = f->value + t->value_size;
	f->key_size = size;
	if (size)
		memcpy(f->key, key, size);
	return f;
}

/* --- a flight --- */

/* With the lock held, which is dropped.  The last holder frees it. */
static void part(struct flight *f)
{
	gmp_singleflight *t = f->table;

	count_caller(f, -1);
	bool last = --f->holders == 0;

	if (last)
		take_out(f);
	unlock(&t->lock, LR_SERVICE);
	if (last)
		free(f);
}

/* When it has landed. */
static int hand_over(struct flight *f, void *value, int *sharers)
{
	if (value && f->table->value_size)
		memcpy(value, f->value, f->table->value_size);
	if (sharers)
		*sharers = f->sharers;
	return f->result;
}

/* By the runner, which still holds it; crashed: it has ended its thread and gets no value. */
static void land(struct flight *f, int result, bool crashed)
{
	gmp_singleflight *t = f->table;

	lock(&t->lock, LR_SERVICE);
	set_aside(f);
	int waiting = f->sharers - 1;

	f->sharers -= crashed;
	f->result = result;
	f->over = true;
	unlock(&t->lock, LR_SERVICE);
	if (waiting)
		gmp_sem_release(&f->landed, waiting);
}

/* FL4 */
static void crash(void *innermost_flight)
{
	for (struct flight *f = innermost_flight, *outer; f; f = outer) {
		outer = f->outer;
		land(f, -EOWNERDEAD, true);
		lock(&f->table->lock, LR_SERVICE);
		part(f);
	}
}

static int compute(struct flight *f, int (*fn)(void *arg, void *value), void *arg, void *value,
		   int *sharers)
{
	f->outer = gmp_key_get(innermost);
	int result = gmp_key_set(innermost, f);

	if (!result) {
		result = fn(arg, f->value);
		gmp_key_set(innermost, f->outer);
	}
	land(f, result, false);
	hand_over(f, value, sharers);
	lock(&f->table->lock, LR_SERVICE);
	part(f);
	return result;
}

/* With the lock held, which is dropped.  The runner of a flight that joins it waits forever. */
static int ride(struct flight *f, void *value, int *sharers, int64_t deadline)
{
	f->sharers++;
	f->holders++;
	count_caller(f, 1);
	unlock(&f->table->lock, LR_SERVICE);
	int result = gmp_sem_acquire_until(&f->landed, deadline);

	lock(&f->table->lock, LR_SERVICE);
	if (f->over)
		result =
			hand_over(f, value, sharers); /* though it may have been about to give up */
	else
		f->sharers--;
	part(f);
	return result;
}

/* --- the calls --- */

gmp_singleflight *gmp_singleflight_new(size_t value_size)
{
	gmp_singleflight *t = value_size < SIZE_MAX / 2 ? calloc(1, sizeof(*t)) : NULL;

	if (t) {
		t->kind = OBJECT_SINGLEFLIGHT;
		t->value_size = value_size;
		t->room = FIRST_ROOM;
		t->list = service_key_once(&innermost, crash) ? calloc(t->room, sizeof(*t->list))
							      : NULL;
	}
	if (t && !t->list) {
		free(t);
		return NULL;
	}
	return t;
}

static int callers_of(const struct flight *f)
{
	bool running = gmp_procs() > 0; /* at its end a run drops green threads */
	int n = 0;

	for (; f; f = f->next)
		n += f->external + (running && f->run == gmp_run_id() ? f->green : 0);
	return n;
}

static int callers(gmp_singleflight *t)
{
	int n = callers_of(t->aside);

	for (size_t i = 0; i < t->room; i++)
		n += callers_of(t->list[i]);
	return n;
}

static void free_all(struct flight *f)
{
	for (struct flight *next; f; f = next) {
		next = f->next;
		free(f);
	}
}

void gmp_singleflight_free(gmp_singleflight *t)
{
	if (!t)
		return;
	object_claim(t, &t->kind, OBJECT_SINGLEFLIGHT, "gmp_singleflight_free");
	lock(&t->lock, LR_SERVICE);
	int inside = callers(t);

	unlock(&t->lock, LR_SERVICE);
	if (inside)
		gmp__object_in_use(t, inside, "gmp_singleflight_free");
	/* flights whose runner shutdown has killed */
	for (size_t i = 0; i < t->room; i++)
		free_all(t->list[i]);
	free_all(t->aside);
	free(t->list);
	object_free(t, sizeof(*t));
}

int gmp_singleflight_do_until(gmp_singleflight *t, const void *key, size_t size,
			      int (*fn)(void *arg, void *value), void *arg, void *value,
			      int *sharers, int64_t deadline)
{
	if (!t || !fn || (size && !key))
		return -EINVAL;
	service_check(t, &t->kind, OBJECT_SINGLEFLIGHT, "gmp_singleflight_do");
	uint64_t hash = hash_of(key, size);

	lock(&t->lock, LR_SERVICE);
	struct flight *f = find(t, hash, key, size);

	if (f)
		return ride(f, value, sharers, deadline);
	f = flight_new(t, hash, key, size);
	if (f)
		enlist(t, f);
	unlock(&t->lock, LR_SERVICE);
	return f ? compute(f, fn, arg, value, sharers) : -ENOMEM;
}

int gmp_singleflight_do(gmp_singleflight *t, const void *key, size_t size,
			int (*fn)(void *arg, void *value), void *arg, void *value, int *sharers)
{
	return gmp_singleflight_do_until(t, key, size, fn, arg, value, sharers, GMP_FOREVER);
}

int gmp_singleflight_forget(gmp_singleflight *t, const void *key, size_t size)
{
	if (!t || (size && !key))
		return -EINVAL;
	service_check(t, &t->kind, OBJECT_SINGLEFLIGHT, __func__);
	uint64_t hash = hash_of(key, size);

	lock(&t->lock, LR_SERVICE);
	struct flight *f = find(t, hash, key, size);

	if (f)
		set_aside(f);
	unlock(&t->lock, LR_SERVICE);
	return f ? 0 : -ENOENT;
}
