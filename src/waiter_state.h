/* SPDX-License-Identifier: MIT */
/*
 * Waiter state: the state word of a waiter, its place in a queue, and lists of waiters (waiter.h).
 */
#ifndef GMP_WAITER_STATE_H
#define GMP_WAITER_STATE_H

#include "base/base.h"

/*
 * State word of a waiter.  One writer wins the transition ARMED -> CLAIMED by compare-and-swap.
 *
 *   bits 0..1   enum waiter_state
 *   bit  2      WAITER_DONE: the waker of an external thread no longer uses its sudog.  Set only
 *               with CLAIMED, by sched_wake_external; never cleared.  An external thread that was
 *               claimed by a waker returns only after it.
 *   bits 3..31  the negated result of the wait (a negative errno); valid while CLAIMED
 *
 *   IDLE     the owner runs; no other thread writes the word
 *   ARMED    the owner is off its stack (an external thread: about to sleep); a waker may claim it
 *   BUSY     one thread inspects the waiter or arms its timer, and then makes it ARMED or CLAIMED;
 *            other claimers spin
 *   CLAIMED  exactly one waker owns the waiter and makes it runnable
 */
enum waiter_state { WAITER_IDLE = 0, WAITER_ARMED = 1, WAITER_CLAIMED = 2, WAITER_BUSY = 3 };
enum { WAITER_STATE_MASK = 3, WAITER_DONE = 1 << 2, WAITER_RESULT_SHIFT = 3 };

_Static_assert(WAITER_BUSY == (int)WAITER_STATE_MASK, "the states fill the mask");
_Static_assert((WAITER_DONE & WAITER_STATE_MASK) == 0 && WAITER_DONE < 1 << WAITER_RESULT_SHIFT,
	       "WAITER_DONE lies between the state and the result");

/* Something that can wait: a G, or an external thread that sleeps on the state word. */
struct waiter {
	uint32_t state; /* (a) see above */
	struct g *gp;   /* (c) NULL: an external thread */
};

/*
 * Undo an unfinished wait: dequeue the sudog of w.  Called when a timeout, a cancellation or the
 * end of the run has claimed w, and for a G that shutdown kills after it was woken (result 0) and
 * before it ran: then a lock that it was granted is passed on.  Runs on g0 or on the waiting
 * external thread, with no lock held.
 */
typedef void (*unwait_fn)(struct waiter *w);

/* A waiter's place in one queue.  A G has one inside, which serves every wait except select. */
struct sudog {
	/* the tree of the parking table, see parkinglot.c */
	struct sudog *left, *right, *tail;
	int64_t due; /* from this time on an unlock hands the mutex over: MUTEX-4 of wait/mutex.c,
			PARKED-5 of posix/sync/parked.h */
	/* fields that every wait touches, in one cache line of a G */
	struct waiter *w;
	struct sudog *next, *prev; /* in the queue of its object (parkinglot.c: address) */
	const void *key;           /* the object: an address, a channel, a side of an fd */
	void *elem;                /* the element to send, or the place to receive it */
	uint32_t priority;         /* in the tree */
	uint16_t kind;             /* free for the object: reader or writer, ... */
	bool queued;               /* it is in a queue */
	bool chosen;               /* (w) the peer of a channel, or an event, matched this sudog */
};

/* Waiters that became runnable together: Gs, linked by schedlink in FIFO order, and external
 * threads, linked by their sudogs.  ready_list (park.h) makes them run. */
struct glist {
	struct g *head, *tail;
	unsigned n; /* Gs */
	struct sudog *external;
};

/* Commit step of a park, once the waiter is armed: publishes, unlocks.  Called on g0 for a G, which
 * is off its stack, and on its own stack for an external thread.  It must not touch the G after
 * another thread can see what it published. */
typedef void (*commit_fn)(void *arg);

#endif
