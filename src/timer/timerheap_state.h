/* SPDX-License-Identifier: MIT */
/* Timer state: a timer, and the heap of a P (timerheap.h). */
#ifndef GMP_TIMERHEAP_STATE_H
#define GMP_TIMERHEAP_STATE_H

#include "base/lock.h"

struct glist;
struct timer;

/*
 * Action of a timer that is due.  Runs on g0 or on an external thread, with the heap's lock held.
 * It may claim a waiter and append its G to out, and nothing else.  To stay in the heap, it sets
 * t->when and returns true.
 */
typedef bool (*timer_fire)(struct timer *t, int64_t now, struct glist *out);

struct timer {
	int64_t when;    /* (t) */
	timer_fire fire; /* (c) */
	struct p *pp;    /* (a) the P whose heap holds it; NULL: not armed */
	uint32_t at;     /* (t) its index there */
};

/* The heap holds the time beside the pointer, so sifting touches only the timers that it moves. */
struct timer_slot {
	int64_t when;
	struct timer *t;
};

struct timers {
	struct lock lock;
	uint32_t n;              /* (a) written under the lock */
	int64_t next;            /* (a) the earliest `when`; NEVER when empty */
	struct timer_slot *heap; /* under the lock: address space for every timer that can exist */
	uint32_t limit;          /* (c) of these, timers of Gs and fds */
	size_t bytes;            /* of the heap; this and `link` under the lock of places */
	struct timers *link;
};

#endif
