/* SPDX-License-Identifier: MIT */
/*
 * Thread-local values (gmp_key): a small hash table without chains for each thread, indexed by the
 * low bits of the key.
 *
 * A key is a number.  Its low bits are an index in the table of keys; its high bits are the
 * generation, which counts the uses of that entry.  A thread makes its table when it sets its first
 * value:
 *
 *   gp->locals ──> mask 3 │ slot 0: key, value │ slot 1 │ slot 2 │ slot 3
 *                            ^ key & mask
 *
 * If two keys collide in a slot, the table doubles.  The indices of live keys differ in some bit,
 * so with KEYS slots there is no collision.  A lookup costs two loads and a comparison.
 *
 * The table of an external thread is in a C thread-local (base/tls.h), and a pthread key calls its
 * destructors at the end of the thread.  In blocking code a green thread sees its own values,
 * although other calls behave as on an external thread.
 *
 * Invariants
 *  FLS-1  Only its own thread touches a table, except at shutdown: when no green thread runs any
 *         more, the tables of killed green threads are freed.
 *  -      A slot that holds a value has a key other than 0; 0 is no key.
 *  FLS-3  At the end of a thread the destructor of the value that was set last runs first.  This
 *         repeats until no value is left whose destructor ran less than ROUNDS times.  The state of
 *         this loop is in the table, so a destructor may set values, and may call gmp_exit: the end
 *         of the thread then continues the loop.  If a destructor forks, the child exits when the
 *         destructor returns, since it is no green thread any more.
 *  FLS-4  A g struct keeps its table for the next green thread that uses it, without values and
 *         with FIRST_SLOTS slots.  So green threads that set one value each do not allocate.
 *  -      keys[i].live is the key from the time its destructor is written until the key is deleted.
 *  FLS-6  A number is used for one key only, since tables may hold a value under it indefinitely.
 *         An entry whose generations are used up stays BUSY.
 *
 * Rejected
 *   Slots in struct g: it has four full cache lines, and each parked G pays for them.
 *   Slots on the stack: they move deep frames to the next page.
 */
#include "wait/fls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/trace.h"
#include "enter.h"

enum { KEYS = 1024, GENERATIONS = 1 << 22, FIRST_SLOTS = 4, ROUNDS = 4, BUSY = 1 };
enum { ORDER_BITS = 28, ORDERS = 1 << ORDER_BITS };

static struct {
	uint32_t live;           /* (a) the key; 0: free; BUSY: being created, or used up (FLS-6) */
	uint32_t generation;     /* of the last key; used while BUSY */
	void (*destroy)(void *); /* (a) written while BUSY */
} keys[KEYS];

struct slot {
	gmp_key key;
	uint32_t order : ORDER_BITS; /* higher for a value that was set later */
	uint32_t calls : 4;          /* of its destructor, at the end of the thread */
	void *value;
};

struct locals {
	uint32_t mask;   /* number of slots - 1 */
	uint32_t order;  /* of the next value that is set */
	uint32_t n;      /* number of values that are not NULL */
	uint32_t recent; /* index of the slot that was set last */
	struct slot slot[];
};

/* --- keys --- */

/* Makes a free entry BUSY.  Returns false if it is not free, or has no generation left (FLS-6). */
static bool key_claim(unsigned at)
{
	uint32_t unused = 0;

	return ld_rlx(&keys[at].live) == 0 &&
	       cas_acq(&keys[at].live, &unused, BUSY) && /* ORD(key): the last generation */
	       keys[at].generation < GENERATIONS - 1;
}

static gmp_key key_publish(unsigned at, void (*destroy)(void *))
{
	uint32_t generation = ++keys[at].generation;

	fence_rel(); /* ORD(key): BUSY is visible before the new destructor */
	st_rlx(&keys[at].destroy, destroy);
	gmp_key k = generation * KEYS + at;

	st_rel(&keys[at].live, k); /* ORD(key) */
	return k;
}

int gmp_key_create(gmp_key *k, void (*destroy)(void *))
{
	if (!k)
		return -EINVAL;
	for (unsigned at = 0; at < KEYS; at++) {
		if (key_claim(at)) {
			*k = key_publish(at, destroy);
			return 0;
		}
	}
	return -EAGAIN;
}

static bool key_live(gmp_key k)
{
	return k >= KEYS && ld_rlx(&keys[k % KEYS].live) == k;
}

int gmp_key_delete(gmp_key k)
{
	if (k < KEYS || !cas_rel(&keys[k % KEYS].live, &k, 0)) /* ORD(key): its generation */
		return -EINVAL;
	return 0;
}

/* Returns the destructor of k; NULL if it has none, or is deleted or being deleted. */
static void (*destructor(gmp_key k))(void *)
{
	uint32_t *live = &keys[k % KEYS].live;

	if (ld_acq(live) != k) /* ORD(key) */
		return NULL;
	void (*destroy)(void *) = ld_rlx(&keys[k % KEYS].destroy);

	fence_acq(); /* ORD(key): if destroy is that of a later key, live has changed too */
	return ld_rlx(live) == k ? destroy : NULL;
}

/* --- the calling thread's table --- */

static noinline struct locals **own_place(void)
{
	struct g *gp = own_green();

	return gp ? &gp->locals : gmp__external_locals();
}

static inline struct locals *own_table(void)
{
	struct m *m = getm();

	return likely(m != NULL) ? m->curg->locals : *own_place();
}

void *gmp_key_get(gmp_key k)
{
	struct locals *l = own_table();

	if (!l)
		return NULL;
	struct slot *s = &l->slot[k & l->mask];

	return s->key == k ? s->value : NULL;
}

/* --- destructors, and the end of an external thread --- */

static pthread_key_t ended_key;
static bool ended_key_made; /* written once, by pthread_once */

/* Called after a destructor.  If it has forked, this is the child: only fls_adopt clears
 * gp->locals. */
static noinline void end_if_forked(const struct g *gp)
{
	if (unlikely(!gp->locals))
		_exit(0);
}

/* FLS-3: returns the value whose destructor must run next; NULL if there is none.  Values without a
 * destructor stay, so that other destructors can read them. */
static struct slot *latest_value(struct locals *l, void (**destroy)(void *))
{
	struct slot *last = NULL;

	for (uint32_t i = 0; l && i <= l->mask; i++) {
		struct slot *s = &l->slot[i];
		void (*fn)(void *);

		if (!s->value || s->calls == ROUNDS || (last && last->order > s->order))
			continue;
		if ((fn = destructor(s->key)) != NULL) {
			last = s;
			*destroy = fn;
		}
	}
	return last;
}

/* Runs the destructors of the calling thread: gp, or an external thread if gp is NULL. */
static void run_destructors(struct g *gp)
{
	void (*destroy)(void *);

	for (struct slot *s; (s = latest_value(own_table(), &destroy)) != NULL;) {
		void *value = s->value;

		s->value = NULL;
		s->calls++;
		own_table()->n--;
		/* may set values, which moves the table; may wait, and fork */
		run_program(destroy, value);
		if (gp)
			end_if_forked(gp);
	}
}

static void external_thread_ended(void *arg)
{
	(void)arg;
	run_destructors(NULL);
	free(*gmp__external_locals());
	*gmp__external_locals() = NULL; /* libc's later destructors may make a new table */
}

static void make_ended_key(void)
{
	ended_key_made = pthread_key_create(&ended_key, external_thread_ended) == 0;
}

/* Makes libc call external_thread_ended at the end of the calling thread. */
static int watch_thread_end(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_ended_key);
	if (!ended_key_made)
		return -EAGAIN;
	return -pthread_setspecific(ended_key, keys); /* any pointer */
}

/* --- setting --- */

/* True if no later call reads the slot.  At the end of a thread its count of calls is read too. */
static bool slot_is_free(const struct slot *s)
{
	return (!s->value && !s->calls) || !key_live(s->key);
}

static struct locals *table_grown(struct locals *old)
{
	uint32_t n = old ? (old->mask + 1) * 2 : FIRST_SLOTS;
	struct locals *l = calloc(1, sizeof(*l) + n * sizeof(l->slot[0]));

	if (!l)
		return NULL;
	l->order = old ? old->order : 0;
	l->mask = n - 1;
	for (uint32_t i = 0; old && i <= old->mask; i++) {
		struct slot *s = &old->slot[i];

		if (slot_is_free(s))
			continue;
		l->slot[s->key & l->mask] = *s;
		if (s->value)
			l->n++;
	}
	return l;
}

static int table_grow(struct locals *old)
{
	struct locals *l = table_grown(old);

	if (!l)
		return -ENOMEM;
	if (!old && !own_green()) {
		int err = watch_thread_end();

		if (err) {
			free(l);
			return err;
		}
	}
	*own_place() = l;
	free(old);
	return 0;
}

/* Returns the value with the lowest order from `order` on; NULL if there is none. */
static struct slot *oldest_value_from(struct locals *l, uint32_t order)
{
	struct slot *first = NULL;

	for (uint32_t i = 0; i <= l->mask; i++) {
		struct slot *s = &l->slot[i];

		if (s->value && s->order >= order && (!first || s->order < first->order))
			first = s;
	}
	return first;
}

/* The orders are used up, by one thread or by all that had the table (FLS-4).  Numbers the values
 * again from 0 on, in the same order.  No order grows, so values below l->order have their new
 * number, and the others still have their old one. */
static noinline int renumber_orders(struct locals *l)
{
	struct slot *s;

	for (l->order = 0; (s = oldest_value_from(l, l->order)) != NULL; l->order++)
		s->order = l->order;
	return 0;
}

/* Sets the value of k, whose slot exists.  Returns 0.  The call of renumber_orders is the last one,
 * so that the fast path saves no registers for it. */
static inline int slot_put(struct locals *l, gmp_key k, void *v)
{
	struct slot *s = &l->slot[k & l->mask];

	if (v && !s->value) {
		s->value = v;
		s->order = l->order++;
		l->recent = k & l->mask;
		l->n++;
		return unlikely(l->order == ORDERS) ? renumber_orders(l) : 0;
	}
	if (!v && s->value)
		l->n--;
	s->value = v;
	return 0;
}

/* Returns the slot that holds k or can hold it; NULL and *err without memory. */
static struct slot *slot_find(gmp_key k, int *err)
{
	for (;;) {
		struct locals *l = own_table();
		struct slot *s = l ? &l->slot[k & l->mask] : NULL;

		if (s && (s->key == k || slot_is_free(s)))
			return s;
		*err = table_grow(l);
		if (*err)
			return NULL;
	}
}

/* The slow path: the first value under k, or a caller that is an external thread or in blocking
 * code. */
static noinline int set_slow(gmp_key k, void *v)
{
	struct locals *l = own_table();
	bool there = l && k && l->slot[k & l->mask].key == k;
	int err;

	if (!there && !key_live(k))
		return -EINVAL;
	if (!there && !v)
		return 0;
	struct slot *s = slot_find(k, &err);
	struct g *gp = own_green();

	if (!s)
		return err;
	if (!there) {
		slot_put(own_table(), k, NULL); /* the value of a deleted key */
		*s = (struct slot){ .key = k };
	}
	slot_put(own_table(), k, v);
	if (gp)
		gp->at_end |= AT_END_LOCALS;
	return 0;
}

int gmp_key_set(gmp_key k, void *v)
{
	struct m *m = getm();
	struct locals *l = likely(m != NULL) ? m->curg->locals : NULL;

	if (unlikely(!l || !k || l->slot[k & l->mask].key != k))
		return set_slow(k, v);
	m->curg->at_end |= AT_END_LOCALS; /* fls_end runs at its end */
	return slot_put(l, k, v);
}

/* --- the end of a green thread --- */

static void table_clear(struct locals *l)
{
	memset(l->slot, 0, sizeof(l->slot[0]) * FIRST_SLOTS);
	l->n = 0;
}

/* Fast path for a table with one value.  Returns false if destructors are left to run. */
static bool run_single_destructor(struct g *gp)
{
	struct locals *l = gp->locals;
	struct slot *s = &l->slot[l->recent];
	void *value = s->value;
	void (*destroy)(void *) = l->n == 1 && value ? destructor(s->key) : NULL;

	if (!destroy)
		return l->n == 0;
	s->value = NULL;
	s->calls = 1;
	l->n = 0;
	run_program(destroy, value);
	if (gp->locals != l || l->n > 0)
		return false;
	s->calls = 0;
	return true;
}

void fls_end(struct g *gp)
{
	if (likely(gp->locals->mask < FIRST_SLOTS) && run_single_destructor(gp)) {
		gp->at_end &= (uint8_t)~AT_END_LOCALS;
		return;
	}
	end_if_forked(gp);
	run_destructors(gp);
	gp->at_end &= (uint8_t)~AT_END_LOCALS;
	if (gp->locals->mask < FIRST_SLOTS)
		table_clear(gp->locals);
	else
		fls_forget(gp);
}

void fls_forget(struct g *gp)
{
	free(gp->locals);
	gp->locals = NULL;
}

void fls_adopt(struct g *gp)
{
	/* the values before gmp_run are not freed: malloc may still be locked */
	*gmp__external_locals() = gp->locals;
	if (gp->locals)
		watch_thread_end();
	gp->locals = NULL;
}

void fls_return(struct g *gp)
{
	gp->locals = *gmp__external_locals();
	if (!gp->locals)
		return;
	gp->at_end |= AT_END_LOCALS;
	*gmp__external_locals() = NULL;
	if (ended_key_made)
		pthread_setspecific(ended_key, NULL);
}
