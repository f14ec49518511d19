/* SPDX-License-Identifier: MIT */
/*
 * Singleflight: of concurrent calls under one key, one computes and the others get its result.
 *
 * A flight is one computation under a key. The first call makes it and runs fn (the runner). Calls
 * that come while it is in the table join it and wait.
 *
 *   table: list[hash(key)] ──> flight: key, sharers, value ──> flight ...
 *   aside ──> flights that are in no list of the table
 *
 * Invariants
 *   -         The lock guards everything except fn itself, the value while fn writes it, and the
 *             result of a completed flight.
 *   -         A flight is in the table until it completes or is forgotten, then aside. The last
 *             call that holds it (`holders`) frees it. If shutdown has killed such a call, the free
 *             of the table does.
 *   FLIGHT-3  `sharers` counts the calls that get the value: the runner and the waiters. A waiter
 *             that times out is subtracted before completion, so the number is final from then on.
 *   FLIGHT-4  If the runner ends inside fn (gmp_exit), the destructor of its fls value completes
 *             the flight. Flights within flights form a list there, the innermost first.
 *   FLIGHT-5  The lock is a struct lock (SERVICE-1), since the table outlives the run.
 *   FLIGHT-6  `external` and `green` count the calls inside, except calls that shutdown has
 *             killed. Freeing the table is misuse while the sum is not 0.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "service/service.h"

struct flight {
	struct flight *next, **at; /* in a list of the table, or aside; at: the pointer to it */
	struct flight *outer;      /* the same thread's flight, in whose fn this one began */
	gmp_singleflight *table;
	gmp_sem done; /* a permit for each waiter */
	int sharers, holders;
	int external; /* FLIGHT-6: holders that are external threads */
	int green;    /* FLIGHT-6: holders that are Gs of `run` */
	uint64_t run; /* the latest run of a G that joined */
	bool completed, in_table;
	int result;
	uint64_t hash;
	size_t key_size;
	char *key;
	_Alignas(max_align_t) char value[]; /* followed by the key */
};

struct gmp_singleflight {
	struct lock lock;
	uint32_t kind;     /* (c) enum object_kind */
	size_t value_size; /* (c) */
	size_t n, size;    /* flights in the table; number of lists, a power of two */
	struct flight **list;
	struct flight *aside;
};

enum { FIRST_SIZE = 16 };

static gmp_key flight_key; /* fls key: the flight that the thread computes */

/* --- the table, under the lock --- */

static uint64_t flight_hash(const void *key, size_t size)
{
	const unsigned char *b = key;
	uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

	for (size_t i = 0; i < size; i++)
		h = (h ^ b[i]) * UINT64_C(0x100000001b3);
	return h ^ h >> 32;
}

static struct flight *flight_find(gmp_singleflight *t, uint64_t hash, const void *key, size_t size)
{
	struct flight *f = t->list[hash & (t->size - 1)];

	while (f &&
	       (f->hash != hash || f->key_size != size || (size && memcmp(f->key, key, size) != 0)))
		f = f->next;
	return f;
}

/* Doubles a full table. Without memory the lists get longer. */
static void table_grow(gmp_singleflight *t)
{
	size_t size = t->size * 2;
	struct flight **list = t->n < t->size ? NULL : calloc(size, sizeof(*list));

	if (!list)
		return;
	for (size_t i = 0; i < t->size; i++) {
		for (struct flight *f = t->list[i], *next; f; f = next) {
			next = f->next;
			dlist_add(&list[f->hash & (size - 1)], f);
		}
	}
	free(t->list);
	t->list = list;
	t->size = size;
}

static void table_insert(gmp_singleflight *t, struct flight *f)
{
	table_grow(t);
	dlist_add(&t->list[f->hash & (t->size - 1)], f);
	f->in_table = true;
	t->n++;
}

/* Moves f aside, where no call finds it. */
static void table_remove(struct flight *f)
{
	if (!f->in_table)
		return;
	dlist_del(f);
	dlist_add(&f->table->aside, f);
	f->in_table = false;
	f->table->n--;
}

/* FLIGHT-6, with the lock held: n is 1 or -1. */
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

/* Takes the caller off f. Drops the lock, which is held. The last holder frees f. */
static void flight_release(struct flight *f)
{
	gmp_singleflight *t = f->table;

	count_caller(f, -1);
	bool last = --f->holders == 0;

	if (last)
		dlist_del(f);
	unlock(&t->lock, LR_SERVICE);
	if (last)
		free(f);
}

/* After completion. */
static int copy_result(struct flight *f, void *value, int *sharers)
{
	if (value && f->table->value_size)
		memcpy(value, f->value, f->table->value_size);
	if (sharers)
		*sharers = f->sharers;
	return f->result;
}

/* By the runner, which still holds f. abandoned: it has ended its thread and gets no value. */
static void flight_complete(struct flight *f, int result, bool abandoned)
{
	gmp_singleflight *t = f->table;

	lock(&t->lock, LR_SERVICE);
	table_remove(f);
	int waiting = f->sharers - 1;

	if (abandoned)
		f->sharers--;
	f->result = result;
	f->completed = true;
	unlock(&t->lock, LR_SERVICE);
	if (waiting)
		gmp_sem_release(&f->done, waiting);
}

/* FLIGHT-4 */
static void flight_abandon(void *innermost)
{
	for (struct flight *f = innermost, *outer; f; f = outer) {
		outer = f->outer;
		flight_complete(f, -EOWNERDEAD, true);
		lock(&f->table->lock, LR_SERVICE);
		flight_release(f);
	}
}

static int flight_run(struct flight *f, int (*fn)(void *arg, void *value), void *arg, void *value,
		      int *sharers)
{
	f->outer = gmp_key_get(flight_key);
	int result = gmp_key_set(flight_key, f);

	if (!result) {
		result = run_program_flight(fn, arg, f->value);
		gmp_key_set(flight_key, f->outer);
	}
	flight_complete(f, result, false);
	copy_result(f, value, sharers);
	lock(&f->table->lock, LR_SERVICE);
	flight_release(f);
	return result;
}

/* Drops the lock, which is held. A runner that joins its own flight waits indefinitely. */
static int flight_join(struct flight *f, void *value, int *sharers, int64_t deadline)
{
	f->sharers++;
	f->holders++;
	count_caller(f, 1);
	unlock(&f->table->lock, LR_SERVICE);
	int result = gmp_sem_acquire_until(&f->done, deadline);

	lock(&f->table->lock, LR_SERVICE);
	if (f->completed)
		result = copy_result(f, value, sharers); /* even if the wait timed out */
	else
		f->sharers--;
	flight_release(f);
	return result;
}

/* --- the calls --- */

gmp_singleflight *gmp_singleflight_new(size_t value_size)
{
	gmp_singleflight *t = value_size < SIZE_MAX / 2 ? calloc(1, sizeof(*t)) : NULL;

	if (t) {
		t->kind = OBJECT_SINGLEFLIGHT;
		t->value_size = value_size;
		t->size = FIRST_SIZE;
		t->list = service_key_once(&flight_key, flight_abandon)
				  ? calloc(t->size, sizeof(*t->list))
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
	bool running = gmp_procs() > 0; /* shutdown kills Gs */
	int n = 0;

	for (; f; f = f->next)
		n += f->external + (running && f->run == gmp_run_id() ? f->green : 0);
	return n;
}

static int callers(gmp_singleflight *t)
{
	int n = callers_of(t->aside);

	for (size_t i = 0; i < t->size; i++)
		n += callers_of(t->list[i]);
	return n;
}

static void free_list(struct flight *f)
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
	for (size_t i = 0; i < t->size; i++)
		free_list(t->list[i]);
	free_list(t->aside);
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
	uint64_t hash = flight_hash(key, size);

	lock(&t->lock, LR_SERVICE);
	struct flight *f = flight_find(t, hash, key, size);

	if (f)
		return flight_join(f, value, sharers, deadline);
	f = flight_new(t, hash, key, size);
	if (f)
		table_insert(t, f);
	unlock(&t->lock, LR_SERVICE);
	return f ? flight_run(f, fn, arg, value, sharers) : -ENOMEM;
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
	uint64_t hash = flight_hash(key, size);

	lock(&t->lock, LR_SERVICE);
	struct flight *f = flight_find(t, hash, key, size);

	if (f)
		table_remove(f);
	unlock(&t->lock, LR_SERVICE);
	return f ? 0 : -ENOENT;
}
