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
 *  N1 Only its own thread touches a table; the end of the run, when no green thread runs, frees those
 *     of the dropped.
 *  N2 A slot's key is never 0 once it has a value; key 0 is none.
 *  N3 At the end of a thread each round goes through the slots upwards, `at` and `round` are in the
 *     table: so a destructor may set values (a table that doubles moves them only upwards, none is
 *     missed), and may leave by gmp_exit (the end goes on from there).  After ROUNDS what is set
 *     again is forgotten.
 *  N4 live is the key from when its destructor is written until it is deleted.
 *
 * Rejected: slots in struct g (it is four cache lines, full, and a parked one pays for all it has);
 * slots on the stack (they push deep frames onto the next page).
 */
#include "local.h"

#include <errno.h>
#include <stdlib.h>

enum { KEYS = 1024, GENERATIONS = 1 << 22, FIRST_SLOTS = 4, ROUNDS = 4, BUSY = 1 };

static struct {
	uint32_t live;           /* (a) the key; 0: free; BUSY: being made */
	uint32_t generation;     /* of the last key here; while BUSY */
	void (*destroy)(void *); /* (a) written while BUSY */
} keys[KEYS];

struct slot {
	gmp_key key;
	void *value;
};

struct locals {
	uint32_t mask; /* number of slots - 1 */
	uint16_t at;   /* at its end: the next slot of the round */
	uint8_t round;
	bool again; /* a destructor was called in this round */
	struct slot slot[];
};

/* --- keys --- */

static gmp_key key_begin(unsigned at, void (*destroy)(void *))
{
	uint32_t *generation = &keys[at].generation;

	*generation = *generation + 1 < GENERATIONS ? *generation + 1 : 1;
	fence_rel(); /* ORD(key): BUSY comes before what is written anew */
	st_rlx(&keys[at].destroy, destroy);
	gmp_key k = *generation * KEYS + at;

	st_rel(&keys[at].live, k); /* ORD(key) */
	return k;
}

int gmp_key_create(gmp_key *k, void (*destroy)(void *))
{
	if (!k)
		return -EINVAL;
	for (unsigned at = 0; at < KEYS; at++) {
		uint32_t unused = 0;

		if (ld_rlx(&keys[at].live) == 0 &&
		    cas_acq(&keys[at].live, &unused, BUSY)) { /* ORD(key): the last generation */
			*k = key_begin(at, destroy);
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

static noinline struct g *blocked_green(void)
{
	struct m *m = gmp__blockedm();

	return m ? m->curg : NULL;
}

static struct locals *own_slow(void)
{
	struct g *gp = blocked_green();

	return gp ? gp->locals : gmp__foreign_locals();
}

static inline struct locals *own(void)
{
	struct m *m = getm();

	return likely(m != NULL) ? m->curg->locals : own_slow();
}

static void set_own(struct locals *l)
{
	struct m *m = getm();
	struct g *gp = m ? m->curg : blocked_green();

	if (gp)
		gp->locals = l;
	else
		gmp__set_foreign_locals(l);
}

void *gmp_get(gmp_key k)
{
	struct locals *l = own();

	if (!l)
		return NULL;
	struct slot *s = &l->slot[k & l->mask];

	return s->key == k ? s->value : NULL;
}

/* --- a plain thread's end --- */

static pthread_key_t ended_key;
static bool ended_key_made; /* for all threads: by pthread_once */

static void run_destructors(void)
{
	for (struct locals *l; (l = own()) && l->round < ROUNDS;) {
		if (l->at > l->mask) {
			l->round = l->again ? l->round + 1 : ROUNDS;
			l->at = 0;
			l->again = false;
			continue;
		}
		struct slot *s = &l->slot[l->at++];
		void *value = s->value;
		void (*destroy)(void *) = value ? destructor(s->key) : NULL;

		if (!destroy)
			continue; /* it stays, for the destructors of others to read */
		s->value = NULL;
		l->again = true;
		destroy(value); /* it may set, and so change the table; it may wait */
	}
}

static void foreign_ended(void *arg)
{
	(void)arg;
	run_destructors();
	free(gmp__foreign_locals());
	gmp__set_foreign_locals(NULL); /* libc's later destructors may begin a new one */
}

static void make_ended_key(void)
{
	ended_key_made = pthread_key_create(&ended_key, foreign_ended) == 0;
}

/* The end of the calling plain thread is to be told of. */
static int watch_end(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_ended_key);
	if (!ended_key_made)
		return -EAGAIN;
	return -pthread_setspecific(ended_key, keys); /* any pointer */
}

/* --- setting --- */

static struct locals *grown(struct locals *old)
{
	uint32_t n = old ? (old->mask + 1) * 2 : FIRST_SLOTS;
	struct locals *l = calloc(1, sizeof(*l) + n * sizeof(l->slot[0]));

	if (!l || !old) {
		if (l)
			l->mask = n - 1;
		return l;
	}
	*l = *old;
	l->mask = n - 1;
	for (uint32_t i = 0; i <= old->mask; i++)
		if (old->slot[i].value)
			l->slot[old->slot[i].key & l->mask] = old->slot[i];
	return l;
}

/* Nobody will ask for it any more. */
static bool unused(const struct slot *s)
{
	return !s->value || !key_live(s->key);
}

static int grow(struct locals *old)
{
	struct locals *l = grown(old);

	if (!l)
		return -ENOMEM;
	if (!old && !getm() && !blocked_green()) {
		int err = watch_end();

		if (err) {
			free(l);
			return err;
		}
	}
	set_own(l);
	free(old);
	return 0;
}

static noinline int set_slow(gmp_key k, void *v)
{
	struct locals *l;
	int err;

	if (!key_live(k))
		return -EINVAL;
	if (!v)
		return 0;
	while (!(l = own()) || !unused(&l->slot[k & l->mask]))
		if ((err = grow(l)))
			return err;
	l->slot[k & l->mask] = (struct slot){ k, v };
	return 0;
}

int gmp_set(gmp_key k, void *v)
{
	struct locals *l = own();

	if (likely(l && k && l->slot[k & l->mask].key == k)) {
		l->slot[k & l->mask].value = v;
		return 0;
	}
	return set_slow(k, v);
}

/* --- a green thread's end --- */

void local_end(struct g *gp)
{
	run_destructors();
	local_drop(gp);
}

void local_drop(struct g *gp)
{
	free(gp->locals);
	gp->locals = NULL;
}

void local_adopt(struct g *gp)
{
	free(gmp__foreign_locals()); /* of the thread that called gmp_run */
	gmp__set_foreign_locals(gp->locals);
	if (gp->locals)
		watch_end();
	gp->locals = NULL;
}
