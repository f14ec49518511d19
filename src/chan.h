/* SPDX-License-Identifier: MIT */
/*
 * How do two threads exchange an element?  struct gmp_chan is Go's hchan.
 *
 * Invariants, all under c->lock
 *  H1 At least one of recvq and sendq is empty, but for waiters of which each stands in both: a
 *     select that would send on the channel and receive from it, which never meets itself.
 *  H2 count > 0 implies that recvq is empty; count < cap implies that sendq is empty; both but for
 *     waiters that have been claimed elsewhere and are on their way out.
 *  H3 Nobody stands in a queue of a closed channel, with the same exception.
 *  H4 An element moves from a waiting sender, or to a waiting receiver, by whoever has claimed the
 *     waiter, before it is made ready; an unclaimed one's element is untouched.
 *  H5 A waiter that has been met here, or has heard of the close, stands here no more, with none of
 *     its sudogs: once the peer's call has returned, the channel may be freed.
 *  H6 The buffer of a closed channel only empties: closed, and empty after that, it stays so, and a
 *     receive need not lock it.
 *
 * Protocol: park.h's, with the channel as X.  A waiter may stand in several channels (select.c);
 * which of its sudogs was the one that its claimer met is told by `chosen`.
 *
 * Rejected: a lock-free ring (as fast as a lock for one producer and one consumer, and loses order,
 * length, close and select).
 */
#ifndef GMP_CHAN_H
#define GMP_CHAN_H

#include "park.h"
#include "runtime.h"

struct waitq {
	struct sudog *first; /* (a) for a look without the lock */
	struct sudog *last;
};

struct gmp_chan {
	struct lock lock;
	uint32_t closed;     /* (a) written under the lock */
	size_t count;        /* (a) written under the lock */
	size_t cap;          /* (c) */
	size_t size;         /* (c) of an element */
	size_t recvx, sendx; /* where in buf to take, to put */
	struct waitq recvq, sendq;
	char *buf;      /* (c) behind the struct */
	void *owner;    /* (c) the tick whose it is; NULL: a plain channel */
	uint32_t run;   /* (c) a tick's: the run that feeds it */
	uint32_t forks; /* whose threads stand in the queues: see chan_forks */
	uint32_t kind;  /* enum object_kind */
};

/* Neither done nor failed: it would have to wait. */
enum { MUST_WAIT = 1 };

/* Under the lock: 0, -EPIPE or MUST_WAIT.  *peer is whom to make ready once the lock is dropped. */
int chan_send_locked(gmp_chan *c, const void *elem, struct sudog **peer);
int chan_recv_locked(gmp_chan *c, void *elem, struct sudog **peer);
/* Would they return something else than MUST_WAIT?  Yes is a guess: the peer may be on its way out. */
static inline bool chan_may_send(const gmp_chan *c)
{
	return c->recvq.first || c->count < c->cap || c->closed;
}

static inline bool chan_may_recv(const gmp_chan *c)
{
	return c->sendq.first || c->count > 0 || c->closed;
}

/* Which queue a sudog stands in (sudog.kind), and whether its waiter may have others here. */
enum { IN_RECVQ, IN_SENDQ, HAS_TWINS };

static inline struct waitq *chan_queue(gmp_chan *c, int kind)
{
	return kind & IN_SENDQ ? &c->sendq : &c->recvq;
}

/* How often the process has forked, before it was this one.  Those who stand in a queue since before
 * that are the parent's threads: the child has none of them. */
extern uint32_t chan_forks;

/* Under the lock, before anybody in a queue is looked at.  True: there was none of ours. */
static inline bool chan_forget_parents(gmp_chan *c)
{
	if (likely(c->forks == chan_forks))
		return false;
	c->forks = chan_forks;
	st_rlx(&c->recvq.first, (struct sudog *)NULL);
	st_rlx(&c->sendq.first, (struct sudog *)NULL);
	c->recvq.last = c->sendq.last = NULL;
	return true;
}

/* Under the lock.  The caller has set w, elem and kind. */
static inline void chan_enqueue(gmp_chan *c, struct sudog *sg)
{
	struct waitq *q = chan_queue(c, sg->kind);

	chan_forget_parents(c);
	sg->key = c;
	sg->chosen = false;
	sg->next = NULL;
	sg->prev = q->last;
	if (q->last)
		q->last->next = sg;
	else
		st_rlx(&q->first, sg);
	q->last = sg;
	st_rlx(&sg->queued, true);
}

/* A number below n, drawn by whoever calls. */
uint32_t chan_draw(uint32_t n);

/* A waiter that nobody has met here leaves the queue, unless somebody took it out already; then the
 * channel may be gone. */
void chan_leave(struct sudog *sg);
/* Frees c, which the caller has claimed (base/object.h) and nothing waits on. */
void chan_destroy(gmp_chan *c);

/* Foreign threads that wait to receive, from this channel alone, are claimed with -ESRCH. */
void chan_release_foreign(gmp_chan *c, struct glist *out);

#endif
