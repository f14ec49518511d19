/* SPDX-License-Identifier: MIT */
/*
 * How does a thread keep a value of its own under a key that all share?
 *
 * A key is a number: the place in the table of keys in its low bits, above them how often that place
 * has been used.  A thread that sets its first value makes a small table of slots, and finds the slot
 * of a key by its lowest bits:
 *
 *   gp->locals ──> mask 3 │ slot 0: key, value │ slot 1 │ slot 2 │ slot 3
 *                            ^ key & mask
 *
 * Where two keys meet in a slot the table doubles; the places of keys differ in some bit, so at KEYS
 * slots at the latest none meet.  Looking up is two loads and a comparison.
 *
 * A plain thread's table hangs on a thread-local, and libc's own keys tell of the thread's end.  In
 * blocking code the green thread's values are the ones seen, though all else is as on a plain thread.
 *
 * Invariants
 *  F1 Only its own thread touches a table; the end of the run, when no green thread runs, frees those
 *     of the dropped.
 *  F2 A slot's key is never 0 once it has a value; key 0 is none.
 *  F3 At the end of a thread the value that was set last goes first, until none is left whose
 *     destructor has not run ROUNDS times.  All that this needs is in the table: so a destructor may
 *     set values, and may leave by gmp_exit (the end goes on from there).  The child of a fork in one ends
 *     where that returns: it is no green thread any more.
 *  F4 A descriptor keeps its table for the next green thread that uses it, without values and of the
 *     first size; so a value that each of many sets costs no allocation.
 *  F5 live is the key from when its destructor is written until it is deleted.
 *  F6 A number is a key's once: tables may hold a value under it for ever.  A place whose numbers are used
 *     up is not used again.
 *
 * Rejected: slots in struct g (it is four cache lines, full, and a parked one pays for all it has);
 * slots on the stack (they push deep frames onto the next page).
 */
#include "fls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEYS = 1024, GENERATIONS = 1 << 22, FIRST_SLOTS = 4, ROUNDS = 4, BUSY = 1 };
enum { ORDER_BITS = 28, ORDERS = 1 << ORDER_BITS };

static struct {
	uint32_t live;           /* (a) the key; 0: free; BUSY: being made, or used up for good */
	uint32_t generation;     /* of the last key here; while BUSY */
	void (*destroy)(void *); /* (a) written while BUSY */
} keys[KEYS];

struct slot {
	gmp_key key;
	uint32_t order : ORDER_BITS; /* the later set, the higher */
	uint32_t calls : 4;          /* of its destructor, at the end */
	void *value;
};

struct locals {
	uint32_t mask;   /* number of slots - 1 */
	uint32_t order;  /* of the next value */
	uint32_t n;      /* values that are not NULL */
	uint32_t recent; /* the slot that was set last */
	struct slot slot[];
};

/* --- keys --- */

/* F6: false also for a place that has no number left; it stays BUSY. */
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

	fence_rel(); /* ORD(key): BUSY comes before what is written anew */
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

/* NULL also for a key that has been deleted, or is just being. */
static void (*destructor(gmp_key k))(void *)
{
	uint32_t *live = &keys[k % KEYS].live;

	if (ld_acq(live) != k) /* ORD(key) */
		return NULL;
	void (*destroy)(void *) = ld_rlx(&keys[k % KEYS].destroy);

	fence_acq(); /* ORD(key): if it is another's, so is what live says */
	return ld_rlx(live) == k ? destroy : NULL;
}

/* --- the calling thread's table --- */

static noinline struct locals *own_table_slow(void)
{
	struct g *gp = own_green();

	return gp ? gp->locals : gmp__foreign_locals();
}

static inline struct locals *own_table(void)
{
	struct m *m = getm();

	return likely(m != NULL) ? m->curg->locals : own_table_slow();
}

static void set_own_table(struct locals *l)
{
	struct g *gp = own_green();

	if (gp)
		gp->locals = l;
	else
		gmp__set_foreign_locals(l);
}

void *gmp_key_get(gmp_key k)
{
	struct locals *l = own_table();

	if (!l)
		return NULL;
	struct slot *s = &l->slot[k & l->mask];

	return s->key == k ? s->value : NULL;
}

/* --- destructors, and a plain thread's end --- */

static pthread_key_t ended_key;
static bool ended_key_made; /* for all threads: by pthread_once */

/* Once a destructor has returned.  Only fls_adopt takes the table away: this is the child of a fork in
 * it, and no green thread any more. */
static noinline void end_if_forked(const struct g *gp)
{
	if (unlikely(!gp->locals))
		_exit(0);
}

/* The value that goes next; those without a destructor stay, for the destructors of others to read. */
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

/* gp: whose; NULL: a plain thread's. */
static void run_destructors(struct g *gp)
{
	void (*destroy)(void *);

	for (struct slot *s; (s = latest_value(own_table(), &destroy)) != NULL;) {
		void *value = s->value;

		s->value = NULL;
		s->calls++;
		own_table()->n--;
		destroy(value); /* it may set, and so change the table; it may wait, and fork */
		if (gp)
			end_if_forked(gp);
	}
}

static void external_thread_ended(void *arg)
{
	(void)arg;
	run_destructors(NULL);
	free(gmp__foreign_locals());
	gmp__set_foreign_locals(NULL); /* libc's later destructors may begin a new one */
}

static void make_ended_key(void)
{
	ended_key_made = pthread_key_create(&ended_key, external_thread_ended) == 0;
}

/* The end of the calling plain thread is to be told of. */
static int watch_thread_end(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_ended_key);
	if (!ended_key_made)
		return -EAGAIN;
	return -pthread_setspecific(ended_key, keys); /* any pointer */
}

/* --- setting --- */

/* Nobody will ask for it any more.  At a thread's end the count of calls is kept, too. */
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
		l->n += s->value != NULL;
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
	set_own_table(l);
	free(old);
	return 0;
}

/* NULL: none. */
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

/* The numbers are used up, by one thread or by all that have had the table (F4): the values that are
 * there keep their order, from 0 on.  No number grows, so what is left to do always stands at or above
 * the next one, and what is done below. */
static noinline int renumber_orders(struct locals *l)
{
	struct slot *s;

	for (l->order = 0; (s = oldest_value_from(l, l->order)) != NULL; l->order++)
		s->order = l->order;
	return 0;
}

/* The slot is k's.  0; renumber comes last, so that the usual way saves no registers for it. */
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

/* Where k is, or may be put; NULL and *err. */
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

/* The first value under k; or the caller is no green thread, or in blocking code. */
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
		slot_put(own_table(), k, NULL); /* of a key that is gone */
		*s = (struct slot){ .key = k };
	}
	slot_put(own_table(), k, v);
	if (gp)
		gp->owes |= OWES_LOCALS;
	return 0;
}

int gmp_key_set(gmp_key k, void *v)
{
	struct m *m = getm();
	struct locals *l = likely(m != NULL) ? m->curg->locals : NULL;

	if (unlikely(!l || !k || l->slot[k & l->mask].key != k))
		return set_slow(k, v);
	m->curg->owes |= OWES_LOCALS; /* destructors may have to run at its end */
	return slot_put(l, k, v);
}

/* --- a green thread's end --- */

static void table_clear(struct locals *l)
{
	memset(l->slot, 0, sizeof(l->slot[0]) * FIRST_SLOTS);
	l->n = 0;
}

/* Most have one. */
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
	destroy(value);
	if (gp->locals != l || l->n > 0)
		return false;
	s->calls = 0;
	return true;
}

void fls_end(struct g *gp)
{
	if (likely(gp->locals->mask < FIRST_SLOTS) && run_single_destructor(gp)) {
		gp->owes &= (uint8_t)~OWES_LOCALS;
		return;
	}
	end_if_forked(gp);
	run_destructors(gp);
	gp->owes &= (uint8_t)~OWES_LOCALS;
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
	free(gmp__foreign_locals()); /* of the thread that called gmp_run */
	gmp__set_foreign_locals(gp->locals);
	if (gp->locals)
		watch_thread_end();
	gp->locals = NULL;
}
