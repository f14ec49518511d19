/* SPDX-License-Identifier: MIT */
/*
 * Channel: send, receive and close.  chan.h has the invariants.
 *
 * Locks: c->lock.  Only select.c holds several.  A waiter is made ready after the unlock.
 *
 * Race of a deadline with a peer: exactly one claims the waiter (park.h).  If the peer does, the
 * element moves and both calls return 0.  If the deadline does, the waiter's call returns
 * -ETIMEDOUT, and the peer acts as if that waiter were not queued: no element is lost.
 */
#include "chan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/object.h"
#include "base/os.h"
#include "base/rand.h"
#include "base/throw.h"
#include "enter.h"
#include "park.h"
#include "variant/variant.h"
#include "waiter.h"

/* --- elements --- */

/* Copies an element of 0, 4, 8 or 16 bytes without a call.  Returns false for other sizes. */
static inline bool copy_small(void *to, const void *from, size_t n)
{
	switch (n) {
	case 8: memcpy(to, from, 8); return true;
	case 4: memcpy(to, from, 4); return true;
	case 16: memcpy(to, from, 16); return true;
	default: return n == 0;
	}
}

static inline void copy_elem(void *to, const void *from, size_t n)
{
	if (!copy_small(to, from, n))
		memcpy(to, from, n);
}

static inline char *buf_slot(gmp_chan *c, size_t at)
{
	return c->buf + at * c->size;
}

static inline size_t next_index(gmp_chan *c, size_t at)
{
	return at + 1 == c->cap ? 0 : at + 1;
}

static inline void buf_put(gmp_chan *c, const void *elem)
{
	copy_elem(buf_slot(c, c->sendx), elem, c->size);
	c->sendx = next_index(c, c->sendx);
}

/* Moves the first element of the buffer to elem; if elem is NULL, drops it. */
static inline void buf_take(gmp_chan *c, void *elem)
{
	if (likely(elem))
		copy_elem(elem, buf_slot(c, c->recvx), c->size);
	c->recvx = next_index(c, c->recvx);
}

/* --- random numbers, for select --- */

/* Threads without a P share a generator; each draw has its own state.  Rejected: the clock, since
 * draws in close succession would depend on each other. */
static noinline uint32_t draw_external(uint32_t n)
{
	static uint64_t shared; /* (a) */
	uint64_t state = 0;

	if (unlikely(!ld_rlx(&shared)))
		cas_rlx(&shared, &state, os_random() | 1);
	state = add_rlx(&shared, RAND_STEP);
	return rand_below(&state, n);
}

uint32_t chan_draw(uint32_t n)
{
	struct p *pp = hold_p();
	uint32_t drawn = likely(pp) ? rand_below(&pp->rand, n) : draw_external(n);

	drop_p();
	return drawn;
}

/* --- forks --- */

uint32_t chan_forks;

static void count_fork(void)
{
	chan_forks++;
}

__attribute__((constructor)) static void chan_register_fork_handler(void)
{
	pthread_atfork(NULL, NULL, count_fork);
}

/* --- queues --- */

static void waitq_dequeue(struct waitq *q, struct sudog *sg)
{
	if (sg->prev)
		sg->prev->next = sg->next;
	else
		st_rel(&q->first, sg->next); /* ORD(chan.closed): an unlocked read of NULL */
	if (sg->next)
		sg->next->prev = sg->prev;
	else
		q->last = sg->prev;
	st_rel(&sg->queued, false); /* ORD(sudog.queued) */
}

/* CHAN-5 for the claimed waiter of sg, which was the first of its queue: dequeues the waiter's
 * other sudogs, which come next in that queue.  The opposite queue can only hold sudogs of this
 * waiter.  The cases on the side of sg (for a close: on both sides) became ready together, so one
 * of them is drawn at random.  Returns it. */
static noinline struct sudog *pick_duplicate(gmp_chan *c, struct sudog *sg, bool on_both_sides)
{
	struct sudog *picked = sg;
	uint32_t n = 1;

	for (int kind = IN_RECVQ; kind <= IN_SENDQ; kind++) {
		struct waitq *q = chan_queue(c, kind);
		bool ready = on_both_sides || kind == (sg->kind & IN_SENDQ);

		for (struct sudog *other; (other = q->first) && other->w == sg->w;) {
			waitq_dequeue(q, other);
			if (ready && chan_draw(++n) == 0)
				picked = other;
		}
	}
	return picked;
}

/* With the lock held: claims the first waiter that can be claimed, and dequeues it with all claimed
 * ones before it.  A result other than 0 is that of a close.  Returns the chosen sudog; NULL if
 * there is none. */
static inline struct sudog *chan_claim_first(gmp_chan *c, int kind, int result)
{
	struct waitq *q = chan_queue(c, kind);
	struct sudog *sg;

	while ((sg = q->first)) {
		if (unlikely(chan_forget_parents(c)))
			break;
		bool won = waiter_claim(sg->w, result);

		waitq_dequeue(q, sg); /* after the claim: park.h */
		if (likely(won)) {
			if (unlikely(sg->kind & HAS_DUPLICATES))
				sg = pick_duplicate(c, sg, result != 0);
			sg->chosen = true;
			return sg;
		}
	}
	return NULL;
}

void chan_unlink(struct sudog *sg)
{
	/* ORD(sudog.queued): if a waker has dequeued sg, the channel may be freed */
	if (!ld_acq(&sg->queued))
		return;
	gmp_chan *c = (gmp_chan *)(uintptr_t)sg->key;

	lock(&c->lock, LR_CHAN);
	if (sg->queued)
		waitq_dequeue(chan_queue(c, sg->kind), sg);
	unlock(&c->lock, LR_CHAN);
}

/* Also for a G that shutdown kills after a peer has claimed it: an element that it has received is
 * lost, although the peer's send returns 0. */
static void chan_unwait(struct waiter *w)
{
	chan_unlink(waiter_sudog(w));
}

static void chan_commit(void *c)
{
	unlock(&((gmp_chan *)c)->lock, LR_CHAN);
}

/* True if the run of c, a tick, has ended: then no timer sends on it.  An external thread also sees
 * true while the run ends.  If it sees false, it is enqueued before it drops the lock, so the end
 * of the run finds it in the queue (ticks_release).  With the lock held. */
static noinline bool tick_run_ended(gmp_chan *c)
{
	if (!rt_enter())
		return true;
	bool over = c->run != sched.run;

	rt_leave();
	return over;
}

static inline int chan_wait_with(struct sudog *sg, gmp_chan *c, int kind, void *elem,
				 int64_t deadline)
{
	sg->elem = elem;
	sg->kind = (uint16_t)kind;
	chan_enqueue(c, sg);
	return wait_on(sg->w, kind == IN_RECVQ ? WAIT_RECV : WAIT_SEND, chan_unwait, chan_commit, c,
		       deadline);
}

static noinline int chan_wait_external(gmp_chan *c, int kind, void *elem, int64_t deadline)
{
	struct external f;

	return chan_wait_with(external_sudog(&f), c, kind, elem, deadline);
}

/* Waits in c.  Drops the lock.  Tail calls only, so the wait returns directly to the caller of
 * gmp_chan_send or gmp_chan_recv (context.h, CONTEXT-4). */
static inline int chan_wait(gmp_chan *c, int kind, void *elem, int64_t deadline)
{
	struct m *m = getm();

	if (unlikely(!m))
		return chan_wait_external(c, kind, elem, deadline);
	return chan_wait_with(&m->curg->sudog, c, kind, elem, deadline);
}

void chan_release_external(gmp_chan *c, struct glist *out)
{
	lock(&c->lock, LR_CHAN);
	for (struct sudog *sg = c->recvq.first, *next; sg; sg = next) {
		next = sg->next;
		/* skips Gs, which are killed; selects, which may have other cases; lost claims */
		if (sg->w->gp || waiter_sudog(sg->w) != sg || !waiter_claim(sg->w, -ESRCH))
			continue;
		waitq_dequeue(&c->recvq, sg); /* after the claim: park.h */
		glist_claimed(out, sg);
	}
	unlock(&c->lock, LR_CHAN);
}

static inline int unlock_and_ready(gmp_chan *c, struct sudog *peer, int result)
{
	unlock(&c->lock, LR_CHAN);
	if (peer)
		ready(peer->w);
	return result;
}

/* --- send --- */

static inline int try_send_locked(gmp_chan *c, const void *elem, struct sudog **peer)
{
	struct sudog *sg;

	if (unlikely(c->closed))
		return -EPIPE;
	if ((sg = chan_claim_first(c, IN_RECVQ, 0))) {
		if (likely(sg->elem))
			copy_elem(sg->elem, elem, c->size);
		*peer = sg;
		return 0;
	}
	if (c->count < c->cap) {
		buf_put(c, elem);
		st_rlx(&c->count, c->count + 1);
		return 0;
	}
	return MUST_WAIT;
}

/* A tick also holds the lock of a timer heap here (TICK-3), so this takes no other lock. */
int chan_send_locked(gmp_chan *c, const void *elem, struct sudog **peer)
{
	return try_send_locked(c, elem, peer);
}

static int check_send(gmp_chan *c, const void *elem)
{
	return !c || (!elem && c->size) ? -EINVAL : 0;
}

static noinline int send_slow(gmp_chan *c, const void *elem, int64_t deadline, bool locked)
{
	struct sudog *peer = NULL;

	if (!locked)
		lock(&c->lock, LR_CHAN);
	int result = try_send_locked(c, elem, &peer);

	if (likely(result != MUST_WAIT))
		return unlock_and_ready(c, peer, result);
	int late = too_late(deadline);

	if (late) {
		unlock(&c->lock, LR_CHAN);
		return late;
	}
	return chan_wait(c, IN_SENDQ, (void *)(uintptr_t)elem, deadline);
}

int gmp_chan_send_until(gmp_chan *c, const void *elem, int64_t deadline)
{
	chaos_point();
	if (unlikely(check_send(c, elem)))
		return -EINVAL;
	bool locked = try_lock(&c->lock, LR_CHAN);

	if (likely(locked) && !c->recvq.first && !c->closed) {
		if (c->count < c->cap) {
			if (likely(copy_small(buf_slot(c, c->sendx), elem, c->size))) {
				c->sendx = next_index(c, c->sendx);
				st_rlx(&c->count, c->count + 1);
				unlock(&c->lock, LR_CHAN);
				return 0;
			}
		} else if (deadline == NEVER) {
			return chan_wait(c, IN_SENDQ, (void *)(uintptr_t)elem, NEVER);
		}
	}
	return send_slow(c, elem, deadline, locked);
}

int gmp_chan_send(gmp_chan *c, const void *elem)
{
	return gmp_chan_send_until(c, elem, NEVER);
}

int gmp_chan_try_send(gmp_chan *c, const void *elem)
{
	if (unlikely(check_send(c, elem)))
		return -EINVAL;
	/* The channel was full, or had no receiver, and was open after that.  A closed channel
	 * stays closed, so both held at one instant: -EAGAIN needs no lock. */
	if ((c->cap ? ld_acq(&c->count) == c->cap : !ld_acq(&c->recvq.first)) &&
	    !ld_acq(&c->closed)) /* ORD(chan.closed) */
		return -EAGAIN;
	struct sudog *peer = NULL;

	lock(&c->lock, LR_CHAN);
	int result = try_send_locked(c, elem, &peer);

	return unlock_and_ready(c, peer, result == MUST_WAIT ? -EAGAIN : result);
}

/* --- receive --- */

/* CHAN-6.  A thread that sees `closed` also sees the elements that were sent before the close. */
static inline bool closed_and_empty(gmp_chan *c)
{
	return ld_acq(&c->closed) && ld_rlx(&c->count) == 0; /* ORD(chan.closed) */
}

static noinline int recv_closed(gmp_chan *c, void *elem)
{
	if (elem)
		memset(elem, 0, c->size);
	return -EPIPE;
}

static inline int try_recv_locked(gmp_chan *c, void *elem, struct sudog **peer)
{
	struct sudog *sg;

	if ((sg = chan_claim_first(c, IN_SENDQ, 0))) {
		if (c->cap == 0) {
			if (likely(elem))
				copy_elem(elem, sg->elem, c->size);
		} else { /* the buffer is full: the sender's element comes after its elements */
			buf_take(c, elem);
			buf_put(c, sg->elem);
		}
		*peer = sg;
		return 0;
	}
	if (c->count > 0) {
		buf_take(c, elem);
		st_rel(&c->count, c->count - 1); /* ORD(chan.closed): an unlocked read of 0 */
		return 0;
	}
	return unlikely(c->closed) ? recv_closed(c, elem) : MUST_WAIT;
}

int chan_recv_locked(gmp_chan *c, void *elem, struct sudog **peer)
{
	return try_recv_locked(c, elem, peer);
}

static noinline int recv_slow(gmp_chan *c, void *elem, int64_t deadline, bool locked)
{
	struct sudog *peer = NULL;

	if (!locked)
		lock(&c->lock, LR_CHAN);
	int result = try_recv_locked(c, elem, &peer);

	if (likely(result != MUST_WAIT))
		return unlock_and_ready(c, peer, result);
	int late = too_late(deadline);

	if (late) {
		unlock(&c->lock, LR_CHAN);
		return late;
	}
	if (unlikely(c->owner) && tick_run_ended(c)) {
		unlock(&c->lock, LR_CHAN);
		return -ESRCH;
	}
	return chan_wait(c, IN_RECVQ, elem, deadline);
}

int gmp_chan_recv_until(gmp_chan *c, void *elem, int64_t deadline)
{
	chaos_point();
	if (unlikely(!c))
		return -EINVAL;
	if (unlikely(closed_and_empty(c)))
		return recv_closed(c, elem);
	bool locked = try_lock(&c->lock, LR_CHAN);

	if (likely(locked) && !c->sendq.first) {
		if (c->count > 0) {
			if (likely(elem) &&
			    likely(copy_small(elem, buf_slot(c, c->recvx), c->size))) {
				c->recvx = next_index(c, c->recvx);
				st_rel(&c->count, c->count - 1); /* ORD(chan.closed): as above */
				unlock(&c->lock, LR_CHAN);
				return 0;
			}
		} else if (deadline == NEVER && !c->closed && !c->owner) {
			return chan_wait(c, IN_RECVQ, elem, NEVER);
		}
	}
	return recv_slow(c, elem, deadline, locked);
}

int gmp_chan_recv(gmp_chan *c, void *elem)
{
	return gmp_chan_recv_until(c, elem, NEVER);
}

int gmp_chan_try_recv(gmp_chan *c, void *elem)
{
	if (unlikely(!c))
		return -EINVAL;
	/* The channel was empty, or had no sender, and was open after that: as in
	 * gmp_chan_try_send. ORD(chan.closed) */
	if (c->cap ? ld_acq(&c->count) == 0 : !ld_acq(&c->sendq.first)) {
		if (!ld_acq(&c->closed)) /* ORD(chan.closed) */
			return -EAGAIN;
		if (closed_and_empty(c))
			return recv_closed(c, elem);
	}
	struct sudog *peer = NULL;

	lock(&c->lock, LR_CHAN);
	int result = try_recv_locked(c, elem, &peer);

	return unlock_and_ready(c, peer, result == MUST_WAIT ? -EAGAIN : result);
}

/* --- new, close, free --- */

gmp_chan *gmp_chan_new(size_t elem_size, size_t capacity)
{
	size_t bytes;
	gmp_chan *c;

	if (__builtin_mul_overflow(elem_size, capacity, &bytes) ||
	    __builtin_add_overflow(bytes, sizeof(*c), &bytes))
		return NULL;
	c = malloc(bytes); /* not calloc: a slot of the buffer is written before it is read */
	if (!c)
		return NULL;
	memset(c, 0, sizeof(*c));
	c->cap = capacity;
	c->size = elem_size;
	c->buf = (char *)(c + 1);
	c->forks = chan_forks;
	c->kind = OBJECT_CHAN;
	return c;
}

int gmp_chan_close(gmp_chan *c)
{
	struct glist out = { 0 };
	struct sudog *sg;

	if (!c)
		return -EINVAL;
	lock(&c->lock, LR_CHAN);
	if (c->closed) {
		unlock(&c->lock, LR_CHAN);
		return -EPIPE;
	}
	st_rel(&c->closed, 1); /* ORD(chan.closed) */
	while ((sg = chan_claim_first(c, IN_RECVQ, -EPIPE))) {
		if (sg->elem && !(sg->kind & IN_SENDQ))
			memset(sg->elem, 0, c->size);
		glist_claimed(&out, sg);
	}
	while ((sg = chan_claim_first(c, IN_SENDQ, -EPIPE)))
		glist_claimed(&out, sg);
	unlock(&c->lock, LR_CHAN);
	ready_list(&out);
	return 0;
}

bool chan_destroy(gmp_chan *c)
{
	/* waits for a close that the caller has seen without the lock (closed_and_empty) */
	lock_end(&c->lock, LR_CHAN);
	chan_forget_parents(c);
	if (unlikely(c->recvq.first || c->sendq.first))
		return false;
	object_free(c, sizeof(*c) + c->cap * c->size);
	return true;
}

void gmp_chan_free(gmp_chan *c)
{
	if (!c)
		return;
	object_claim(c, &c->kind, OBJECT_CHAN, "gmp_chan_free");
	if (c->owner)
		gmp__fatal("gmp_chan_free of channel %p, a tick\nfree it by gmp_tick_free",
			   (void *)c);
	if (!chan_destroy(c))
		gmp__fatal("gmp_chan_free of channel %p, on which a thread waits\n"
			   "close it by gmp_chan_close, and wait until its users have seen that",
			   (void *)c);
}

size_t gmp_chan_len(const gmp_chan *c)
{
	if (!c)
		return 0;
	object_check(&c->kind, &c->lock);
	return ld_rlx(&c->count);
}

size_t gmp_chan_cap(const gmp_chan *c)
{
	if (!c)
		return 0;
	object_check(&c->kind, &c->lock);
	return c->cap;
}
