/* SPDX-License-Identifier: MIT */
/*
 * Channel: a bounded FIFO queue with a queue of waiting senders and one of waiting receivers (Go's
 * hchan).
 *
 * Invariants, all under c->lock
 *  CHAN-1  At least one of recvq and sendq is empty, except for waiters that are in both: a select
 *          that would send on the channel and receive from it.  It never exchanges with itself.
 *  CHAN-2  count > 0 implies that recvq is empty; count < cap implies that sendq is empty.  Both
 *          except for waiters that were claimed elsewhere and have not been dequeued yet.
 *  CHAN-3  Both queues of a closed channel are empty, with the same exception.
 *  CHAN-4  The claimer of a waiter moves the element from a waiting sender, or to a waiting
 *          receiver, before it makes the waiter ready.  The element of an unclaimed waiter is not
 *          touched.
 *  CHAN-5  When a peer or gmp_chan_close claims a waiter, it dequeues all of the waiter's sudogs
 *          here: once the call of the peer has returned, the channel may be freed.
 *  CHAN-6  No element enters the buffer of a closed channel.  A channel that is closed and empty
 *          stays so: a receive may report it without the lock.
 *
 * Protocol: park.h's, with the channel as X.  A waiter may be enqueued in several channels
 * (select.c); `chosen` marks the sudog through which it was claimed.
 *
 * Rejected: a lock-free ring.  It is as fast as a lock for one producer and one consumer, and loses
 * order, length, close and select.
 */
#ifndef GMP_CHAN_H
#define GMP_CHAN_H

#include "park.h"
#include "types.h"

struct waitq {
	struct sudog *first; /* (a) written under the lock; unlocked reads: gmp_chan_try_send */
	struct sudog *last;
};

/*
 * Three words of a channel are read without the lock; all are written under it.
 *
 *   closed       0 -> 1, once.  0 may be stale; 1 is final.              ORD(chan.closed)
 *   count        elements in the buffer.  May be stale in both directions, except that 0 is final
 *                if `closed` was read as 1 before (CHAN-6).
 *   waitq.first  NULL if no waiter is queued.  May be stale in both directions.
 */
struct gmp_chan {
	struct lock lock;
	uint32_t closed;     /* (a) */
	size_t count;        /* (a) */
	size_t cap;          /* (c) */
	size_t size;         /* (c) of an element, in bytes */
	size_t recvx, sendx; /* index in buf of the next receive, of the next send */
	struct waitq recvq, sendq;
	char *buf;      /* (c) behind the struct */
	void *owner;    /* (c) the tick that sends on it; NULL for other channels */
	uint32_t run;   /* (c) of a tick: number of the run that it belongs to */
	uint32_t forks; /* value of chan_forks when the waiters were enqueued */
	uint32_t kind;  /* enum object_kind */
};

/* The operation is not possible without a wait. */
enum { MUST_WAIT = 1 };

/* With the lock held: tries one operation.  Returns 0, -EPIPE or MUST_WAIT.  If it has claimed a
 * waiter, sets *peer: the caller must make it ready after the unlock. */
int chan_send_locked(gmp_chan *c, const void *elem, struct sudog **peer);
int chan_recv_locked(gmp_chan *c, void *elem, struct sudog **peer);
/* Returns false if the operation would return MUST_WAIT.  true is a hint: the waiting peer may have
 * been claimed elsewhere.  With the lock held. */
static inline bool chan_may_send(const gmp_chan *c)
{
	return c->recvq.first || c->count < c->cap || c->closed;
}

static inline bool chan_may_recv(const gmp_chan *c)
{
	return c->sendq.first || c->count > 0 || c->closed;
}

/*
 * sudog.kind of a sudog in a channel; constant while it is queued.
 *
 *   bit 0  the queue: IN_RECVQ or IN_SENDQ
 *   bit 1  HAS_DUPLICATES: the waiter may have other sudogs in this channel.  Set by select.c if
 *          any channel is in two of its cases; may be set although this one is not.
 */
enum { IN_RECVQ = 0, IN_SENDQ = 1, HAS_DUPLICATES = 1 << 1 };

static inline struct waitq *chan_queue(gmp_chan *c, int kind)
{
	return kind & IN_SENDQ ? &c->sendq : &c->recvq;
}

/* Number of forks between the first process and this one.  Waiters that were enqueued before the
 * last fork are threads of the parent, which do not exist in this process. */
extern uint32_t chan_forks;

/* With the lock held, before a queue is read: empties the queues of the parent's waiters.  Returns
 * true if there was a fork since they were enqueued. */
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

/* Appends sg to its queue.  With the lock held; the caller has set w, elem and kind. */
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

/* Returns a pseudo-random number below n, from the calling thread's generator. */
uint32_t chan_draw(uint32_t n);

/* Dequeues a sudog whose waiter was not claimed by a peer of its channel.  If a peer has dequeued
 * it already, the channel is not touched: it may have been freed. */
void chan_unlink(struct sudog *sg);
/* Frees c, which the caller has claimed (base/object.h).  Returns false, with c as it was, if a
 * thread waits on it: misuse. */
bool chan_destroy(gmp_chan *c);

/* Shutdown: claims the external threads that wait to receive from c alone, with result -ESRCH. */
void chan_release_external(gmp_chan *c, struct glist *out);

/* --- select.c, for dumps (observe/dump/snapshot.c): the channels that a select waits for --- */

struct select_op {
	const void *c;
	bool sends;
};

/* Writes the first `most` cases for which gp is queued to out.  gp is held (waiter_hold) and waits
 * for WAIT_SELECT.  Returns the number of all such cases. */
unsigned select_ops(const struct g *gp, struct select_op *out, unsigned most);

#endif
