/* SPDX-License-Identifier: MIT */
/*
 * How do two threads exchange an element?  struct gmp_chan is Go's hchan.
 *
 * Invariants, all under c->lock
 *  H1 At least one of recvq and sendq is empty.
 *  H2 count > 0 implies that recvq is empty; count < cap implies that sendq is empty.
 *  H3 Nobody stands in a queue of a closed channel.
 *  H4 An element moves from a waiting sender, or to a waiting receiver, by whoever has claimed the
 *     waiter, before it is made ready; an unclaimed one's element is untouched.
 *
 * Protocol: park.h's, with the channel as X.
 *
 * Rejected: a lock-free ring (as fast as a lock for one producer and one consumer, and loses order,
 * length, close and select).
 */
#ifndef GMP_CHAN_H
#define GMP_CHAN_H

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
	char *buf;   /* (c) behind the struct */
	void *owner; /* (c) a tick's timer */
};

#endif
