/* SPDX-License-Identifier: MIT */
/* Waits of gmp_poll on several descriptors: see netpoll/multi.c. */
#ifndef GMP_MULTI_H
#define GMP_MULTI_H

#include "netpoll.h"

/* One call of gmp_poll; on its stack.  Lock order: a record's lock, then this one. */
struct multi {
	struct lock lock;
	bool fired; /* under lock: a descriptor may be ready; never cleared while an entry is linked */
	int result;       /* under lock: 0, or -ESRCH, valid with fired */
	struct sudog *sg; /* (c) of the caller; in no queue */
};

/* One descriptor of the call; linked in its record, under pd->lock. */
struct multi_entry {
	struct multi_entry *next, *prev;
	struct multi *of;
	struct polldesc *pd; /* NULL: not linked */
	uint32_t seen[2];    /* events of the sides before the kernel was asked (N2) */
	short events;        /* poll(2)'s */
	bool closed;         /* written under pd->lock: gmp_close has closed the number; stays */
};

/* Before the kernel is asked. */
void multi_look(struct multi_entry *e, int fd);

enum { MULTI_LINKED, MULTI_AGAIN };

/* Link the entry with its record, so that from here on each change of readiness fires it.  MULTI_AGAIN: not linked,
 * since something has changed: ask the kernel.  Else an error of the poller: -ENOMEM, -ENOSPC: no room;
 * -ELOOP, -EINVAL: an epoll descriptor that it cannot watch.  Waiters of a former
 * file of the number go to out. */
int multi_link(struct multi_entry *e, int fd, struct glist *out);
/* Nothing of the record refers to the entry any more.  Nothing if it is not linked. */
void multi_unlink(struct multi_entry *e);

/* --- for netpoll.c and netpoll/check.c; under pd->lock --- */

/* Fire all entries. */
void multi_fire(struct polldesc *pd, int result, struct glist *out);
/* Fire the entries that wait for one of the sides (a mask of enum poll_events). */
void multi_event(struct polldesc *pd, unsigned events, struct glist *out);
/* The record is free, or known no more: entries that were linked meanwhile ask again, or find it closed. */
void multi_forgotten(struct polldesc *pd, bool closed, struct glist *out);

#endif
