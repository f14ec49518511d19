/* SPDX-License-Identifier: MIT */
/*
 * How does a number of green threads do one thing together, so that none outlives it, and none goes on
 * in vain?
 *
 * Each child has a place in a chunk of 32; a bit of the chunk's word says that the place is free.  To
 * start is to clear a bit, to end is to set it: no other word is shared, and chunks keep children
 * that end on different Ps apart.
 *
 *   group ──> chunk (newest) ──> chunk ──> chunk
 *             word │ child, child, ... child
 *
 *  a child                                         one who cancels, under the mutex
 *   1 child->green = itself           (exchange)    1 cancelled = true
 *   2 cancelled? cancel itself                      2 word: ENDS_LOCKED, for each chunk
 *   3 fn(arg); not 0: the result of the group,      3 each taken place: gmp_cancel(child->green),
 *     and cancel the others                            if it is there
 *   4 the thread ends: at last, as the destructor
 *     of a local, the bit is set; under the mutex
 *     if the word says ENDS_LOCKED
 *
 *  Either the child sees that it is cancelled, or the other sees it; and as long as the mutex is held
 *  its place stays taken, so it has not ended.
 *
 * Invariants
 *  J1 A child is in its place until its green thread has nothing left to do, by return or by gmp_exit:
 *     the local is the first that it sets, so its destructor is the last to run.
 *  J2 The wait goes through the chunks and waits for each to be empty, then looks at all once more.  If
 *     no child has begun since the first look (the words count that too), all were empty at one
 *     instant between.
 *  J3 The child that empties a chunk with WAITED set does it under the mutex; so a waiter, which has the
 *     mutex when it finds the last chunk empty, is alone, and may free all.  WAITED may be set although
 *     nothing waits (a wait that timed out leaves it); it must be set if something does.
 *  J4 The list of chunks grows at its head, under the mutex, and shrinks when the group is freed.
 *  J5 `result` is written once, by the first that has one to tell.  It stays, as `cancelled` does.
 *  J6 The timer, armed or not, belongs to the run: when it says -ESRCH, there are no children any more.
 *     In a later run nothing is begun, so there never are again.
 *
 * Rejected: a list of the children under a lock (four locked instructions for each, and a crowd at the
 * lock); joinable children (who has ended is not known before the join, so a limit cannot be kept).
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "service/delegate.h"
#include "service/service.h"

enum { CHILDREN = 32, WALK = 8, MOST_CHUNKS = 32, LOOK_AGAIN = 10 * 1000 * 1000 };

#define EMPTY UINT64_C(0xffffffff)      /* all places are free */
#define ENDS_LOCKED (UINT64_C(1) << 32) /* to end takes the mutex */
#define WAITED (UINT64_C(1) << 33)      /* to be the last to end does */
#define BEGUN (UINT64_C(1) << 34)       /* from here up: how many have begun */

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
	struct chunk *next;         /* (c) J4 */
	struct child child[CHILDREN];
};

/* So many chunks are allocated together, twice as many each time. */
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
	uint64_t run;          /* (c) J6 */
	gmp_sem places;        /* with a limit */
	int result;            /* (a) J5 */
	bool cancelled;        /* (a) written under the mutex */
	bool expired;          /* (a) the deadline has passed */
	bool freed;            /* the wait, if there is one, cancels first */
	gmp_mutex mutex;       /* guards: */
	gmp_cond ended;        /* a chunk that was waited for is empty */
	struct block *blocks;  /* the last one first */
	struct chunk *walk;    /* where to look for a chunk with room; NULL: at the head */
	struct chunk *chunks;  /* (a) written under the mutex */
	struct chunk *current; /* (a) written under the mutex: has, or had, room */
};

/* --- the run, and the mutex --- */

/* Who waits for children sleeps no longer: there may be no green thread for the timer. */
static int64_t next_deadline(gmp_group *g)
{
	return ld_seq(&g->expired) ? GMP_FOREVER : g->deadline; /* ORD(group.expire) */
}

/* Its children have been dropped. */
static bool run_is_over(gmp_group *g)
{
	return gmp_timer_set(g->timer, next_deadline(g), 0) == -ESRCH;
}

/*
 * The mutex; false: the run is over.  Tricky: one that the run has dropped may hold it for ever.
 */
static bool enter(gmp_group *g)
{
	if (gmp_self())
		return gmp_mutex_lock(&g->mutex) == 0;
	while (gmp_mutex_lock_until(&g->mutex, gmp_deadline(LOOK_AGAIN)) != 0)
		if (run_is_over(g))
			return false;
	return true;
}

static void leave(gmp_group *g)
{
	gmp_mutex_unlock(&g->mutex);
}

/* --- cancelling --- */

static void cancel_chunk(struct chunk *c, gmp_g *but)
{
	uint64_t word = or_seq(&c->word, ENDS_LOCKED); /* ORD(group.cancel) */

	for (unsigned i = 0; i < CHILDREN; i++) {
		if (word & UINT64_C(1) << i)
			continue;
		gmp_g *green = ld_seq(&c->child[i].green); /* ORD(group.cancel) */

		if (green && green != but)
			gmp_cancel(green);
	}
}

/* Under the mutex: all but one. */
static void cancel_locked(gmp_group *g, gmp_g *but)
{
	if (g->cancelled)
		return;
	st_seq(&g->cancelled, true); /* ORD(group.cancel) */
	for (struct chunk *c = g->chunks; c; c = c->next)
		cancel_chunk(c, but);
}

static void cancel(gmp_group *g, gmp_g *but)
{
	if (!enter(g))
		return;
	cancel_locked(g, but);
	leave(g);
}

/* J5 */
static void set_result(gmp_group *g, int result)
{
	int none = 0;

	cas_rlx(&g->result, &none, result);
}

/* The caller, if it is a child, is about to end. */
static noinline void fail(gmp_group *g, int result)
{
	set_result(g, result);
	if (!ld_rlx(&g->cancelled))
		cancel(g, gmp_self());
}

/* --- the deadline --- */

static bool has_children(gmp_group *g)
{
	for (struct chunk *c = g->chunks; c; c = c->next)
		if ((ld_seq(&c->word) & EMPTY) != EMPTY) /* ORD(group.expire) */
			return true;
	return false;
}

/* Under the mutex.  Those who are there are late.  If nobody is, those who come will be. */
static void expire_locked(gmp_group *g, gmp_g *but)
{
	st_seq(&g->expired, true); /* ORD(group.expire) */
	if (has_children(g))
		set_result(g, -ETIMEDOUT);
	cancel_locked(g, but);
}

static void expire(gmp_group *g, gmp_g *but)
{
	if (!enter(g))
		return;
	expire_locked(g, but);
	leave(g);
}

static void deadline_passed(void *g)
{
	expire(g, NULL);
}

/* By a child that is about to end. */
static noinline void look_at_clock(gmp_group *g)
{
	if (gmp_now() >= next_deadline(g))
		expire(g, gmp_self());
}

/* The timer may be late, too. */
static inline void look_at_deadline(gmp_group *g)
{
	if (unlikely(g->deadline != GMP_FOREVER))
		look_at_clock(g);
}

/* --- places --- */

static struct child *take_in(struct chunk *c)
{
	uint64_t word = ld_rlx(&c->word);

	while (word & EMPTY) {
		unsigned i = (unsigned)__builtin_ctzll(word);

		/* ORD(group.ended), ORD(group.expire) */
		if (cas_seq(&c->word, &word, (word & ~(UINT64_C(1) << i)) + BEGUN))
			return &c->child[i];
	}
	return NULL;
}

static bool block_new(gmp_group *g)
{
	unsigned n = g->blocks ? g->blocks->n * 2 : 1;
	struct block *b;

	n = n < MOST_CHUNKS ? n : MOST_CHUNKS;
	b = aligned_alloc(_Alignof(struct block), sizeof(*b) + n * sizeof(b->chunk[0]));
	if (!b)
		return false;
	b->next = g->blocks;
	b->n = n;
	b->used = 0;
	g->blocks = b;
	return true;
}

/* Under the mutex: a chunk more. */
static struct chunk *chunk_new(gmp_group *g)
{
	if ((!g->blocks || g->blocks->used == g->blocks->n) && !block_new(g))
		return NULL;
	struct chunk *c = &g->blocks->chunk[g->blocks->used++];

	c->word = EMPTY;
	c->group = g;
	for (unsigned i = 0; i < CHILDREN; i++) {
		c->child[i].green = NULL;
		c->child[i].chunk = c;
	}
	c->next = g->chunks;
	g->chunks = c;
	return c;
}

/* Under the mutex: a place in some chunks more than the one that is full.  For each one that is made
 * several are looked at, so a group grows by little over what it needs. */
static struct child *take_locked(gmp_group *g)
{
	struct chunk *c = g->current;
	struct child *place = c ? take_in(c) : NULL; /* somebody has been here */

	for (int i = 0; i < WALK && g->chunks && !place; i++) {
		c = g->walk ? g->walk : g->chunks;
		g->walk = c->next;
		place = take_in(c);
	}
	if (!place && (c = chunk_new(g)) != NULL)
		place = take_in(c);
	if (place)
		st_rel(&g->current, c); /* ORD(group.current): what is in it before */
	return place;
}

/* NULL: no memory, or the run is over, and the place among the limited is given back. */
static noinline struct child *take_slow(gmp_group *g)
{
	struct child *place = NULL;

	if (enter(g)) {
		place = take_locked(g);
		leave(g);
	}
	if (!place && g->limit)
		gmp_sem_release(&g->places, 1);
	return place;
}

static bool is_last(uint64_t word)
{
	return (word & EMPTY) == EMPTY;
}

/* J3.  The last touch is the unlock. */
static noinline void give_back_locked(gmp_group *g, struct chunk *c, uint64_t bit)
{
	if (!enter(g))
		return;
	uint64_t word = or_seq(&c->word, bit) | bit; /* ORD(group.ended) */

	if (is_last(word) && word & WAITED) {
		and_rlx(&c->word, ~WAITED);
		gmp_cond_broadcast(&g->ended);
	}
	leave(g);
}

static inline void leave_place(struct child *place)
{
	struct chunk *c = place->chunk;
	uint64_t bit = UINT64_C(1) << (place - c->child), word = ld_rlx(&c->word);

	do {
		if (unlikely(word & ENDS_LOCKED || (word & WAITED && is_last(word | bit)))) {
			give_back_locked(c->group, c, bit);
			return;
		}
	} while (!cas_seq(&c->word, &word, word | bit)); /* ORD(group.ended) */
}

static noinline void give_back_limited(struct child *place)
{
	gmp_sem_release(&place->chunk->group->places, 1);
	leave_place(place);
}

static inline void give_back(struct child *place)
{
	st_rlx(&place->green, NULL);
	if (unlikely(place->chunk->group->limit))
		give_back_limited(place);
	else
		leave_place(place);
}

/* --- a child --- */

static gmp_key place_key;

/* The last destructor of a child: J1. */
static void child_ended(void *place)
{
	look_at_deadline(((struct child *)place)->chunk->group);
	give_back(place);
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
		fail(g, result);
		give_back(place);
		return;
	}
	result = place->fn(place->arg);
	if (unlikely(result)) {
		look_at_deadline(g); /* it may have failed for being late */
		fail(g, result);
	}
}

/* With a place among the limited, which is given back on failure. */
static always_inline int begin(gmp_group *g, int (*fn)(void *arg), void *arg)
{
	struct chunk *c = ld_acq(&g->current); /* ORD(group.current) */
	struct child *place = c ? take_in(c) : NULL;

	if (unlikely(!place) && !(place = take_slow(g)))
		return run_is_over(g) ? -ESRCH : -ENOMEM;
	place->fn = fn;
	place->arg = arg;
	if (unlikely(ld_seq(&g->expired))) /* ORD(group.expire) */
		fail(g, -ETIMEDOUT);
	int err = gmp_go(child_main, place);

	if (unlikely(err))
		give_back(place);
	return err;
}

/* --- on behalf of a plain thread --- */

struct group_errand {
	int (*fn)(gmp_group *g, int64_t deadline);
	gmp_group *g;
	int64_t deadline;
	int result;
};

static void run_errand(void *arg)
{
	struct group_errand *e = arg;

	e->result = e->fn(e->g, e->deadline);
}

/* fn on a green thread, so that an external thread does not wait for children that were killed at
 * shutdown. */
static int on_green(int (*fn)(gmp_group *g, int64_t deadline), gmp_group *g, int64_t deadline)
{
	struct group_errand e = { fn, g, deadline, 0 };

	if (gmp_self())
		return fn(g, deadline);
	int err = errand(run_errand, &e, sizeof(e), "waits for a plain thread");

	if (err && err != -ESRCH)
		return fn(g, deadline); /* no memory: as it is */
	return err ? err : e.result;
}

/* --- the wait --- */

/* Is the chunk empty?  If not, its last child will tell. */
static bool empty_or_told(struct chunk *c, uint64_t *begun)
{
	uint64_t word = ld_acq(&c->word); /* ORD(group.ended) */

	while ((word & EMPTY) != EMPTY)
		if (cas_seq(&c->word, &word, word | WAITED)) /* ORD(group.ended) */
			return false;
	*begun += word / BEGUN;
	return true;
}

static uint64_t begun_by_now(gmp_group *g)
{
	uint64_t begun = 0;

	for (struct chunk *c = g->chunks; c; c = c->next)
		begun += ld_acq(&c->word) / BEGUN; /* ORD(group.ended) */
	return begun;
}

struct group_wait {
	int64_t deadline;
	bool cut;    /* cancellation of the caller ends the wait; otherwise it is passed on */
	bool masked; /* it has been passed on */
};

/* Under the mutex, which is dropped meanwhile: wait until a chunk is empty, or the group expires.  0, or
 * why the caller's wait ends: -ETIMEDOUT, -ECANCELED. */
static int wait_for_a_chunk(gmp_group *g, struct group_wait *w)
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

/* J2, under the mutex: 0 when all have ended, or why the wait ends before. */
static int wait_locked(gmp_group *g, struct group_wait *w)
{
	uint64_t begun;
	int result;

	do {
		begun = 0;
		for (struct chunk *c = g->chunks; c; c = c->next)
			while (!empty_or_told(c, &begun))
				if ((result = wait_for_a_chunk(g, w)) != 0)
					return result;
	} while (begun != begun_by_now(g));
	return 0;
}

static int wait_with(gmp_group *g, struct group_wait *w)
{
	if (!enter(g))
		return -ESRCH;
	int result = wait_locked(g, w);

	if (!result)
		result = ld_rlx(&g->result); /* the child that set it has cancelled, too */
	leave(g);
	if (w->masked)
		gmp_cancel_mask(0);
	return result;
}

static int wait_for_all(gmp_group *g, int64_t deadline)
{
	return wait_with(g, &(struct group_wait){ .deadline = deadline });
}

static int wait_for_all_until(gmp_group *g, int64_t deadline)
{
	return wait_with(g, &(struct group_wait){ .deadline = deadline, .cut = true });
}

/* --- the calls --- */

/* Where the run is checked first, a freed group is POISON there, and equals no run id. */
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
		expire(g, NULL);
	else
		gmp_timer_set(g->timer, deadline, 0);
	return g;
}

static int take_turn(gmp_group *g, int64_t deadline)
{
	(void)deadline; /* that of the group alone */
	int result = gmp_sem_acquire_until(&g->places, next_deadline(g));

	if (result != -ETIMEDOUT)
		return result;
	expire(g, NULL); /* so places will be free */
	return gmp_sem_acquire(&g->places);
}

static noinline int wait_for_turn(gmp_group *g)
{
	return gmp_sem_try_acquire(&g->places) ? on_green(take_turn, g, GMP_FOREVER) : 0;
}

int gmp_group_go(gmp_group *g, int (*fn)(void *arg), void *arg)
{
	if (!g || !fn)
		return -EINVAL;
	if (unlikely(gmp_run_id() != g->run)) {
		group_check(g, __func__);
		return -ESRCH;
	}
	int err = unlikely(g->limit) ? wait_for_turn(g) : 0;

	return unlikely(err) ? err : begin(g, fn, arg);
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
	return begin(g, fn, arg);
}

int gmp_group_wait(gmp_group *g)
{
	if (!g)
		return -EINVAL;
	group_check(g, __func__);
	if (run_is_over(g))
		return -ESRCH;
	return on_green(wait_for_all, g, GMP_FOREVER);
}

int gmp_group_wait_until(gmp_group *g, int64_t deadline)
{
	if (!g)
		return -EINVAL;
	group_check(g, __func__);
	if (run_is_over(g))
		return -ESRCH;
	return on_green(wait_for_all_until, g, deadline);
}

int gmp_group_running(gmp_group *g)
{
	int n = 0;

	if (!g)
		return -EINVAL;
	group_check(g, __func__);
	if (run_is_over(g) || !enter(g))
		return -ESRCH;
	for (struct chunk *c = g->chunks; c; c = c->next)
		n += __builtin_popcountll(~ld_rlx(&c->word) & EMPTY);
	leave(g);
	return n;
}

void gmp_group_cancel(gmp_group *g)
{
	if (!g)
		return;
	group_check(g, __func__);
	if (!run_is_over(g))
		cancel(g, NULL);
}

void gmp_group_free(gmp_group *g)
{
	if (!g)
		return;
	object_claim(g, &g->kind, OBJECT_GROUP, "gmp_group_free");
	if (!run_is_over(g)) {
		g->freed = true;
		on_green(wait_for_all, g, GMP_FOREVER);
	}
	gmp_timer_free(g->timer); /* if the run ends, this awaits it */
	for (struct block *b; (b = g->blocks) != NULL;) {
		g->blocks = b->next;
		free(b);
	}
	object_free(g, sizeof(*g));
}
