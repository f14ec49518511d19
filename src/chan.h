/* SPDX-License-Identifier: MIT */
/*
 * Channel: a bounded FIFO queue with a queue of waiting senders and one of waiting receivers (Go's hchan).
 *
 * Invariants, all under c->lock
 *  H1 At least one of recvq and sendq is empty, except for waiters that are in both: a select that would
 *     send on the channel and receive from it.  It never exchanges with itself.
 *  H2 count > 0 implies that recvq is empty; count < cap implies that sendq is empty; both except for
 *     waiters that were claimed elsewhere and have not been dequeued yet.
 *  H3 Both queues of a closed channel are empty, with the same exception.
 *  H4 The claimer of a waiter moves the element from a waiting sender, or to a waiting receiver, before it
 *     makes the waiter ready.  The element of an unclaimed waiter is untouched.
 *  H5 When a waiter is claimed by a peer or by the close, all of its sudogs here are dequeued: once the
 *     peer's call has returned, the channel may be freed.
 *  H6 No element enters the buffer of a closed channel: once closed and empty it stays empty, so a
 *     receive need not lock it.
 *
 * Protocol: park.h's, with the channel as X.  A waiter may be enqueued in several channels (select.c);
 * `chosen` marks the sudog through which it was claimed.
 *
 * Rejected: a lock-free ring (as fast as a lock for one producer and one consumer, and loses order,
 * length, close and select).
 */
#ifndef GMP_CHAN_H
#define GMP_CHAN_H

#include "park.h"
#include "types.h"

struct waitq {
	struct sudog *first; /* (a) for an unlocked read */
	struct sudog *last;
};

struct gmp_chan {
	struct lock lock;
	uint32_t closed;     /* (a) written under the lock */
	size_t count;        /* (a) written under the lock */
	size_t cap;          /* (c) */
	size_t size;         /* (c) of an element */
	size_t recvx, sendx; /* index in buf of the next receive, of the next send */
	struct waitq recvq, sendq;
	char *buf;      /* (c) behind the struct */
	void *owner;    /* (c) the tick that sends on it; NULL: a plain channel */
	uint32_t run;   /* (c) a tick's: the run that feeds it */
	uint32_t forks; /* chan_forks when the waiters were enqueued */
	uint32_t kind;  /* enum object_kind */
};

/* The operation is not possible without a wait. */
enum { MUST_WAIT = 1 };

/* Under the lock: 0, -EPIPE or MUST_WAIT.  *peer: the waiter to make ready after the unlock, or NULL. */
int chan_send_locked(gmp_chan *c, const void *elem, struct sudog **peer);
int chan_recv_locked(gmp_chan *c, void *elem, struct sudog **peer);
/* False: they would return MUST_WAIT.  True is a hint: the waiting peer may have been claimed elsewhere. */
static inline bool chan_may_send(const gmp_chan *c)
{
	return c->recvq.first || c->count < c->cap || c->closed;
}

static inline bool chan_may_recv(const gmp_chan *c)
{
	return c->sendq.first || c->count > 0 || c->closed;
}

/* sudog.kind: the queue that it is in, and whether its waiter may have other sudogs in this channel. */
enum { IN_RECVQ, IN_SENDQ, HAS_DUPLICATES };

static inline struct waitq *chan_queue(gmp_chan *c, int kind)
{
	return kind & IN_SENDQ ? &c->sendq : &c->recvq;
}

/* Number of forks between the first process and this one.  Waiters that were enqueued before the last
 * fork are threads of the parent: the child has none of them. */
extern uint32_t chan_forks;

/* Under the lock, before a queue is read.  True: it held waiters of the parent alone, which are gone. */
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

/* A pseudo-random number below n, from the calling thread's generator. */
uint32_t chan_draw(uint32_t n);

/* Dequeue a sudog whose waiter was not claimed by a peer of this channel.  If a peer has dequeued it
 * already, the channel is not touched: it may have been freed. */
void chan_unlink(struct sudog *sg);
/* Frees c, which the caller has claimed (base/object.h) and nothing waits on. */
void chan_destroy(gmp_chan *c);

/* Claim external threads that wait to receive from this channel alone, with result -ESRCH. */
void chan_release_external(gmp_chan *c, struct glist *out);

#endif
