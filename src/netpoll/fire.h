/* SPDX-License-Identifier: MIT */
/*
 * Calls of gmp_poll in a poll record: entries that an event, a close or the end of the run fires.
 *
 * The protocol is in netpoll/multi.c.  All functions run under pd->lock, except multi_forgotten.
 */
#ifndef GMP_FIRE_H
#define GMP_FIRE_H

#include "netpoll/record.h"

/* One call of gmp_poll; on its stack.  Lock order: a record's lock, then this one. */
struct multi {
	struct lock lock;
	bool fired; /* under lock: an fd may be ready; never cleared while an entry is linked */
	int result; /* under lock: 0, or -ESRCH, valid with fired */
	struct sudog *sg; /* (c) of the caller; in no queue */
};

/* What a call has seen of a record: multi_look. */
struct multi_seen {
	uint32_t events[2]; /* of the sides, before the last attempt or poll(2) (NETPOLL-2) */
	uint32_t closes;    /* before the first (MULTI-7) */
};

/* One fd of the call; linked in its record, under pd->lock. */
struct multi_entry {
	struct multi_entry *next, *prev;
	struct multi *of;
	struct polldesc *pd;    /* NULL: not linked */
	struct multi_seen seen; /* before the attempt */
	int64_t since; /* when the call began to wait; NEVER: it is served last (MULTI-9) */
	short events;  /* poll(2)'s */
	short all;     /* under pd->lock: MULTI-6 */
	bool closed;   /* written under pd->lock: the number was closed; stays */
};

/* Fire all entries. */
void multi_fire(struct polldesc *pd, int result, struct glist *out);
/* Fire the entries that wait for one of the sides (a mask of enum poll_events). */
void multi_event(struct polldesc *pd, unsigned events, struct glist *out);
/* Fire all entries; closed: they find the number closed. */
void multi_close(struct polldesc *pd, bool closed, struct glist *out);
/* The record is free: entries that were linked meanwhile poll again, or find the number closed. */
void multi_forgotten(struct polldesc *pd, bool closed, struct glist *out);

#endif
