/* SPDX-License-Identifier: MIT */
/* Waits on one or several fds: see netpoll/multi.c. */
#ifndef GMP_MULTI_H
#define GMP_MULTI_H

#include "netpoll/fire.h"

/* Step 1, before a call's first attempt or poll(2), and again before each later one.  pd: NULL if
 * the number has no record. */
static inline void multi_look_again(struct multi_seen *seen, struct polldesc *pd)
{
	for (int i = 0; i < 2; i++)
		seen->events[i] = pd ? ld_acq(&pd->side[i].events) : 0; /* ORD(pd.events) */
}

static inline struct multi_seen multi_look(struct polldesc *pd)
{
	struct multi_seen seen = { .closes = pd ? ld_rlx(&pd->closes) : 0 };

	multi_look_again(&seen, pd);
	return seen;
}

enum { MULTI_LINKED = 0, MULTI_AGAIN = 1 };

/*
 * Link the entry with its record, so that each change of readiness from e->seen on fires it.
 * Waiters of a former file of the number are appended to out.
 * Returns MULTI_LINKED; MULTI_AGAIN: not linked, since something has changed: attempt again, unless
 * e->closed; otherwise an error of the poller: -ENOMEM, -ENOSPC: no room; -ELOOP, -EINVAL: an epoll
 * descriptor that it cannot watch.
 */
int multi_link(struct multi_entry *e, int fd, struct glist *out);

/* Unlink the entry from its record, if it is linked. */
void multi_unlink(struct multi_entry *e);

#endif
