/* SPDX-License-Identifier: MIT */
/*
 * Group: starts children (green threads), bounds their number, cancels them together, and waits
 * until all have ended.
 *
 * Each child has a place in a chunk of 32. Bit i of the chunk's word says that place i is free. To
 * start a child clears a bit, to end one sets it; no other word is shared by all children, and Ps
 * that run children of different chunks do not contend.
 *
 *   group ──> chunk (newest) ──> chunk ──> chunk
 *             word │ child, child, ... child
 *
 * Cancellation protocol
 *
 *   child                                         canceller, with the mutex
 *    1 child->green = itself  ORD(group.cancel)    1 cancelled = true      ORD(group.cancel)
 *    2 if cancelled: cancel itself                 2 each chunk's word |= CHUNK_LOCKED
 *    3 fn(arg); unless it returns 0: set the       3 for each taken place: if child->green is
 *      group's result, cancel the others             set, gmp_cancel it
 *    4 the last destructor of its fls values
 *      sets the bit, with the mutex if the
 *      word has CHUNK_LOCKED
 *
 * Store-buffering: the child sees `cancelled`, or the canceller sees child->green. While the mutex
 * is held the place stays taken, so the G that is cancelled has not ended.
 *
 * Invariants
 *   GROUP-1  A child keeps its place until its G has no code of the program left to run, by return
 *            or gmp_exit: it sets this fls value before any other, so the destructor runs last.
 *   GROUP-2  The wait waits for each chunk in turn to be empty, then reads all words once more. If
 *            no child has begun since the first read (the words count them), all chunks were empty
 *            at one instant between the two reads.
 *   GROUP-3  The child that empties a chunk with CHUNK_WAITED does so with the mutex. So when a
 *            waiter, which holds the mutex, finds the last chunk empty, no child still uses the
 *            group, and the waiter may free it.
 *   GROUP-4  The list of chunks grows at its head, with the mutex, until the group is freed.
 *   GROUP-5  `result` is written once, by the first failure. It is never reset, nor is `cancelled`.
 *   GROUP-6  The timer belongs to the run, armed or not: if gmp_timer_set returns -ESRCH, no child
 *            exists. A group starts no child in a later run.
 *
 * Rejected
 *   A list of children with a lock: four locked instructions per child, and contention.
 *   Joinable children: their end is known only at the join, so a limit could not be kept.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "service/delegate.h"
#include "service/service.h"

enum {
	CHILDREN = 32,         /* places of a chunk */
	WALK_MAX = 8,          /* chunks tried before a new one is made; not measured */
	BLOCK_CHUNKS_MAX = 32, /* chunks that one allocation makes at most */
	RECHECK_NS = 10 * MS,  /* an external thread checks that often for the end of the run */
};

/*
 * Word of a chunk
 *
 *   CHUNK_EMPTY    bits 0..31: place i is free; all of them: the chunk is empty
 *   CHUNK_LOCKED   a child ends with the mutex; set with the mutex by a canceller, never cleared
 *   CHUNK_WAITED   the last child ends with the mutex and wakes the waiters; set by a waiter,
 *                  cleared by that child. May be set although no waiter is left (it timed out);
 *                  must be set if one is.
 *   CHUNK_BEGUN    bits 34..63: how many children have begun, modulo 2^30
 */
#define CHUNK_EMPTY UINT64_C(0xffffffff)
#define CHUNK_LOCKED (UINT64_C(1) << 32)
#define CHUNK_WAITED (UINT64_C(1) << 33)
#define CHUNK_BEGUN (UINT64_C(1) << 34) /* one child */

_Static_assert(CHUNK_EMPTY == (UINT64_C(1) << CHILDREN) - 1, "one bit for each place");

struct chunk;

struct child {
	int (*fn)(void *arg);
	void *arg;
	gmp_g *green;        /* (a) NULL before it runs */
	struct chunk *chunk; /* (c) */
};

struct chunk {
	_Alignas(64) uint64_t word; /* (a) */
	gmp_group *group;           /* (c) */
	struct chunk *next;         /* (c) GROUP-4 */
	struct child child[CHILDREN];
};

/* One allocation of n chunks: 1, 2, 4 ... BLOCK_CHUNKS_MAX. */
struct block {
	struct block *next;
	unsigned n, used;
	struct chunk chunk[];
};

struct gmp_group {
	uint32_t kind;         /* (c) enum object_kind */
	int limit;             /* (c) 0: none */
	int64_t deadline;      /* (c) */
	gmp_timer *timer;      /* (c) of the deadline */
	uint64_t run;          /* (c) GROUP-6; POISON once freed, which is no run id */
	gmp_sem places;        /* free places, with a limit */
	int result;            /* (a) GROUP-5 */
	bool cancelled;        /* (a) written under the mutex */
	bool expired;          /* (a) the deadline has passed */
	bool freed;            /* the wait of gmp_group_free cancels first */
	gmp_mutex mutex;       /* guards the rest */
	gmp_cond ended;        /* a chunk with CHUNK_WAITED is empty */
	struct block *blocks;  /* the newest first */
	struct chunk *walk;    /* next chunk to try for a free place; NULL: the head */
	struct chunk *chunks;  /* (a) written under the mutex */
	struct chunk *current; /* (a) written under the mutex: had a free place then */
};

/* --- the run, and the mutex --- */

/* A waiter wakes at this time itself: the timer may have no memory for its green thread. */
static int64_t next_deadline(gmp_group *g)
{
	return ld_seq(&g->expired) ? GMP_FOREVER : g->deadline; /* ORD(group.expire) */
}

/* GROUP-6. Then shutdown has killed its children. */
static bool run_is_over(gmp_group *g)
{
	return gmp_timer_set(g->timer, next_deadline(g), 0) == -ESRCH;
}

/*
 * Locks the mutex. Returns false if the run is over. A G that shutdown has killed may never unlock
 * it, so an external thread checks for the end of the run meanwhile.
 */
static bool group_enter(gmp_group *g)
{
	if (gmp_self())
		return gmp_mutex_lock(&g->mutex) == 0;
	while (gmp_mutex_lock_until(&g->mutex, gmp_deadline(RECHECK_NS)) != 0)
		if (run_is_over(g))
			return false;
	return true;
}

static void group_leave(gmp_group *g)
{
	gmp_mutex_unlock(&g->mutex);
}

/* --- cancellation --- */

static void cancel_chunk(struct chunk *c, gmp_g *except)
{
	uint64_t word = or_seq(&c->word, CHUNK_LOCKED); /* ORD(group.cancel) */

	for (unsigned i = 0; i < CHILDREN; i++) {
		if (word & UINT64_C(1) << i)
			continue;
		gmp_g *green = ld_seq(&c->child[i].green); /* ORD(group.cancel) */

		if (green && green != except)
			gmp_cancel(green);
	}
}

/* With the mutex held: cancels every child except one. */
static void cancel_locked(gmp_group *g, gmp_g *except)
{
	if (g->cancelled)
		return;
	st_seq(&g->cancelled, true); /* ORD(group.cancel) */
	for (struct chunk *c = g->chunks; c; c = c->next)
		cancel_chunk(c, except);
}

/* GROUP-5 */
static void set_result(gmp_group *g, int result)
{
	int none = 0;

	cas_rlx(&g->result, &none, result);
}

/* --- the deadline --- */

static bool has_children(gmp_group *g)
{
	for (struct chunk *c = g->chunks; c; c = c->next)
		if ((ld_seq(&c->word) & CHUNK_EMPTY) != CHUNK_EMPTY) /* ORD(group.expire) */
			return true;
	return false;
}

/*
 * With the mutex held: the deadline has passed. Children that exist are late, and the result is
 * -ETIMEDOUT. Without any, the first child that begins later sets it.
 */
static void expire_locked(gmp_group *g, gmp_g *except)
{
	st_seq(&g->expired, true); /* ORD(group.expire) */
	if (has_children(g))
		set_result(g, -ETIMEDOUT);
	cancel_locked(g, except);
}

/* f is cancel_locked or expire_locked. */
static void with_lock(gmp_group *g, void (*f)(gmp_group *, gmp_g *), gmp_g *except)
{
	if (!group_enter(g))
		return;
	f(g, except);
	group_leave(g);
}

/* Sets the result and cancels every child except the caller, which ends if it is one. */
static noinline void group_fail(gmp_group *g, int result)
{
	set_result(g, result);
	if (!ld_rlx(&g->cancelled))
		with_lock(g, cancel_locked, gmp_self());
}

static void deadline_passed(void *g)
{
	with_lock(g, expire_locked, NULL);
}

/* Called by a child that is about to end. */
static noinline void group_check_clock(gmp_group *g)
{
	if (gmp_now() >= next_deadline(g))
		with_lock(g, expire_locked, gmp_self());
}

/* The timer may be late. */
static inline void group_check_deadline(gmp_group *g)
{
	if (unlikely(g->deadline != GMP_FOREVER))
		group_check_clock(g);
}

/* --- places --- */

static struct child *chunk_take(struct chunk *c)
{
	uint64_t word = ld_rlx(&c->word);

	while (word & CHUNK_EMPTY) {
		unsigned i = (unsigned)__builtin_ctzll(word);

		/* ORD(group.ended), ORD(group.expire) */
		if (cas_seq(&c->word, &word, (word & ~(UINT64_C(1) << i)) + CHUNK_BEGUN))
			return &c->child[i];
	}
	return NULL;
}

static bool block_new(gmp_group *g)
{
	unsigned n = g->blocks ? g->blocks->n * 2 : 1;
	struct block *b;

	n = n < BLOCK_CHUNKS_MAX ? n : BLOCK_CHUNKS_MAX;
	b = aligned_alloc(_Alignof(struct block), sizeof(*b) + n * sizeof(b->chunk[0]));
	if (!b)
		return false;
	b->next = g->blocks;
	b->n = n;
	b->used = 0;
	g->blocks = b;
	return true;
}

/* With the mutex held: adds a chunk. Returns NULL without memory. */
static struct chunk *chunk_new(gmp_group *g)
{
	if ((!g->blocks || g->blocks->used == g->blocks->n) && !block_new(g))
		return NULL;
	struct chunk *c = &g->blocks->chunk[g->blocks->used++];

	c->word = CHUNK_EMPTY;
	c->group = g;
	for (unsigned i = 0; i < CHILDREN; i++) {
		c->child[i].green = NULL;
		c->child[i].chunk = c;
	}
	c->next = g->chunks;
	g->chunks = c;
	return c;
}

/*
 * With the mutex held: takes a place when the current chunk is full. WALK_MAX chunks are tried for
 * each new one, so a group allocates little more than its children need.
 */
static struct child *place_take_locked(gmp_group *g)
{
	struct chunk *c = g->current;
	struct child *place = c ? chunk_take(c) : NULL; /* another caller may have set it */

	for (int i = 0; i < WALK_MAX && g->chunks && !place; i++) {
		c = g->walk ? g->walk : g->chunks;
		g->walk = c->next;
		place = chunk_take(c);
	}
	if (!place && (c = chunk_new(g)) != NULL)
		place = chunk_take(c);
	if (place)
		st_rel(&g->current, c); /* ORD(group.current): after its contents */
	return place;
}

/* Returns NULL without memory or if the run is over; gives back the place of the limit then. */
static noinline struct child *place_take_slow(gmp_group *g)
{
	struct child *place = NULL;

	if (group_enter(g)) {
		place = place_take_locked(g);
		group_leave(g);
	}
	if (!place && g->limit)
		gmp_sem_release(&g->places, 1);
	return place;
}

static bool is_empty(uint64_t word)
{
	return (word & CHUNK_EMPTY) == CHUNK_EMPTY;
}

/* GROUP-3. The unlock is the last access to the group. */
static noinline void place_free_locked(gmp_group *g, struct chunk *c, uint64_t bit)
{
	if (!group_enter(g))
		return;
	uint64_t word = or_seq(&c->word, bit) | bit; /* ORD(group.ended) */

	if (is_empty(word) && word & CHUNK_WAITED) {
		and_rlx(&c->word, ~CHUNK_WAITED);
		gmp_cond_broadcast(&g->ended);
	}
	group_leave(g);
}

static inline void place_free(struct child *place)
{
	struct chunk *c = place->chunk;
	uint64_t bit = UINT64_C(1) << (place - c->child), word = ld_rlx(&c->word);

	do {
		if (unlikely(word & CHUNK_LOCKED ||
			     (word & CHUNK_WAITED && is_empty(word | bit)))) {
			place_free_locked(c->group, c, bit);
			return;
		}
	} while (!cas_seq(&c->word, &word, word | bit)); /* ORD(group.ended) */
}

static noinline void place_release_limited(struct child *place)
{
	gmp_sem_release(&place->chunk->group->places, 1);
	place_free(place);
}

static inline void place_release(struct child *place)
{
	st_rlx(&place->green, NULL);
	if (unlikely(place->chunk->group->limit))
		place_release_limited(place);
	else
		place_free(place);
}

/* --- a child --- */

static gmp_key place_key;

/* GROUP-1: the last destructor of a child. */
static void child_ended(void *place)
{
	group_check_deadline(((struct child *)place)->chunk->group);
	place_release(place);
}

static void child_main(void *arg)
{
	struct child *place = arg;
	gmp_group *g = place->chunk->group;

	st_seq(&place->green, gmp_self());   /* ORD(group.cancel) */
	if (unlikely(ld_seq(&g->cancelled))) /* ORD(group.cancel) */
		gmp_cancel(gmp_self());
	int result = gmp_key_set(place_key, place);

	if (unlikely(result)) {
		group_fail(g, result);
		place_release(place);
		return;
	}
	result = run_program_child(place->fn, place->arg);
	if (unlikely(result)) {
		group_check_deadline(g); /* it may have failed because it is late */
		group_fail(g, result);
	}
}

/* The caller holds a place of the limit, which is given back on failure. */
static always_inline int group_begin(gmp_group *g, int (*fn)(void *arg), void *arg)
{
	struct chunk *c = ld_acq(&g->current); /* ORD(group.current) */
	struct child *place = c ? chunk_take(c) : NULL;

	if (unlikely(!place) && !(place = place_take_slow(g)))
		return run_is_over(g) ? -ESRCH : -ENOMEM;
	place->fn = fn;
	place->arg = arg;
	if (unlikely(ld_seq(&g->expired))) /* ORD(group.expire) */
		group_fail(g, -ETIMEDOUT);
	int err = gmp_go(child_main, place);

	if (unlikely(err))
		place_release(place);
	return err;
}

/* --- on behalf of an external thread --- */

/* wait on a green thread, so that an external thread does not wait for children that were killed at
 * shutdown; without memory on the external thread. */
static int on_green_thread(wait_fn wait, gmp_group *g, int64_t deadline)
{
	int result;

	return delegate(wait, g, deadline, &result) ? result : wait(g, deadline);
}

/* --- the wait --- */

/* Returns true and adds to *begun if c is empty. Otherwise its last child wakes the waiters. */
static bool is_empty_or_watched(struct chunk *c, uint64_t *begun)
{
	uint64_t word = ld_acq(&c->word); /* ORD(group.ended) */

	while ((word & CHUNK_EMPTY) != CHUNK_EMPTY)
		if (cas_seq(&c->word, &word, word | CHUNK_WAITED)) /* ORD(group.ended) */
			return false;
	*begun += word / CHUNK_BEGUN;
	return true;
}

static uint64_t begun_by_now(gmp_group *g)
{
	uint64_t begun = 0;

	for (struct chunk *c = g->chunks; c; c = c->next)
		begun += ld_acq(&c->word) / CHUNK_BEGUN; /* ORD(group.ended) */
	return begun;
}

struct group_wait {
	int64_t deadline;
	bool cut;    /* cancelling the caller ends the wait; otherwise it cancels the group */
	bool masked; /* the group was cancelled for the caller, which is masked */
};

/*
 * With the mutex held, which is dropped meanwhile: waits until a chunk is empty or the group
 * expires. Returns 0, or why the wait of the caller ends: -ETIMEDOUT, -ECANCELED.
 */
static int wait_for_chunk(gmp_group *g, struct group_wait *w)
{
	if (g->freed)
		cancel_locked(g, NULL);
	int64_t own = next_deadline(g);
	int result =
		gmp_cond_wait_until(&g->ended, &g->mutex, own < w->deadline ? own : w->deadline);

	if (result == -ETIMEDOUT && own <= gmp_now())
		expire_locked(g, NULL);
	if (result == -ETIMEDOUT)
		return w->deadline <= gmp_now() ? -ETIMEDOUT : 0;
	if (result != -ECANCELED || w->cut)
		return result;
	cancel_locked(g, NULL);
	gmp_cancel_mask(1);
	w->masked = true;
	return 0;
}

/* GROUP-2, with the mutex held. Returns 0 when all have ended, or why the wait ends before. */
static int wait_locked(gmp_group *g, struct group_wait *w)
{
	uint64_t begun;
	int result;

	do {
		begun = 0;
		for (struct chunk *c = g->chunks; c; c = c->next)
			while (!is_empty_or_watched(c, &begun))
				if ((result = wait_for_chunk(g, w)) != 0)
					return result;
	} while (begun != begun_by_now(g));
	return 0;
}

static int group_wait_with(gmp_group *g, struct group_wait *w)
{
	if (!group_enter(g))
		return -ESRCH;
	int result = wait_locked(g, w);

	if (!result)
		result = ld_rlx(&g->result); /* GROUP-5 */
	group_leave(g);
	if (w->masked)
		gmp_cancel_mask(0);
	return result;
}

static int wait_for_all(void *g, int64_t deadline)
{
	return group_wait_with(g, &(struct group_wait){ .deadline = deadline });
}

static int wait_for_all_until(void *g, int64_t deadline)
{
	return group_wait_with(g, &(struct group_wait){ .deadline = deadline, .cut = true });
}

/* --- the calls --- */

/* A fast path compares the run first: a freed group has POISON there, which is no run id. */
static inline void group_check(const gmp_group *g, const char *call)
{
	service_check(g, &g->kind, OBJECT_GROUP, call);
}

gmp_group *gmp_group_new(int limit, int64_t deadline)
{
	gmp_group *g = service_key_once(&place_key, child_ended) ? calloc(1, sizeof(*g)) : NULL;

	if (!g)
		return NULL;
	g->kind = OBJECT_GROUP;
	g->run = gmp_run_id();
	g->timer = gmp_timer_new(deadline_passed, g);
	if (!g->timer) {
		free(g);
		return NULL;
	}
	g->limit = limit > 0 ? limit : 0;
	g->places = (gmp_sem)GMP_SEM_INIT(g->limit);
	g->deadline = deadline;
	if (deadline <= gmp_now())
		with_lock(g, expire_locked, NULL);
	else
		gmp_timer_set(g->timer, deadline, 0);
	return g;
}

static int acquire_limited(void *group, int64_t deadline)
{
	gmp_group *g = group;

	(void)deadline; /* only the deadline of the group counts */
	int result = gmp_sem_acquire_until(&g->places, next_deadline(g));

	if (result != -ETIMEDOUT)
		return result;
	with_lock(g, expire_locked, NULL); /* its children are cancelled, so places become free */
	return gmp_sem_acquire(&g->places);
}

static noinline int acquire_limited_slow(gmp_group *g)
{
	return gmp_sem_try_acquire(&g->places) ? on_green_thread(acquire_limited, g, GMP_FOREVER)
					       : 0;
}

int gmp_group_go(gmp_group *g, int (*fn)(void *arg), void *arg)
{
	if (!g || !fn)
		return -EINVAL;
	if (unlikely(gmp_run_id() != g->run)) {
		group_check(g, __func__);
		return -ESRCH;
	}
	int err = unlikely(g->limit) ? acquire_limited_slow(g) : 0;

	return unlikely(err) ? err : group_begin(g, fn, arg);
}

int gmp_group_try_go(gmp_group *g, int (*fn)(void *arg), void *arg)
{
	if (!g || !fn)
		return -EINVAL;
	if (unlikely(gmp_run_id() != g->run)) {
		group_check(g, __func__);
		return -ESRCH;
	}
	if (g->limit && gmp_sem_try_acquire(&g->places))
		return -EAGAIN;
	return group_begin(g, fn, arg);
}

static int group_wait(gmp_group *g, wait_fn wait, int64_t deadline, const char *call)
{
	if (!g)
		return -EINVAL;
	group_check(g, call);
	if (run_is_over(g))
		return -ESRCH;
	return on_green_thread(wait, g, deadline);
}

int gmp_group_wait(gmp_group *g)
{
	return group_wait(g, wait_for_all, GMP_FOREVER, __func__);
}

int gmp_group_wait_until(gmp_group *g, int64_t deadline)
{
	return group_wait(g, wait_for_all_until, deadline, __func__);
}

int gmp_group_running(gmp_group *g)
{
	int n = 0;

	if (!g)
		return -EINVAL;
	group_check(g, __func__);
	if (run_is_over(g) || !group_enter(g))
		return -ESRCH;
	for (struct chunk *c = g->chunks; c; c = c->next)
		n += __builtin_popcountll(~ld_rlx(&c->word) & CHUNK_EMPTY);
	group_leave(g);
	return n;
}

void gmp_group_cancel(gmp_group *g)
{
	if (!g)
		return;
	group_check(g, __func__);
	if (!run_is_over(g))
		with_lock(g, cancel_locked, NULL);
}

void gmp_group_free(gmp_group *g)
{
	if (!g)
		return;
	object_claim(g, &g->kind, OBJECT_GROUP, "gmp_group_free");
	if (!run_is_over(g)) {
		g->freed = true;
		on_green_thread(wait_for_all, g, GMP_FOREVER);
	}
	gmp_timer_free(g->timer); /* if the run is ending, this waits for its end */
	for (struct block *b; (b = g->blocks) != NULL;) {
		g->blocks = b->next;
		free(b);
	}
	object_free(g, sizeof(*g));
}
