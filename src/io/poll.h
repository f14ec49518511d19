/* SPDX-License-Identifier: MIT */
/* gmp_poll and replaced calls: the wait for the first of several fds (netpoll/multi.c). */
#ifndef GMP_IO_POLL_H
#define GMP_IO_POLL_H

#include <poll.h>

#include "netpoll/multi.h"
#include "park.h"

/*
 * A wait, on the caller's stack.  Before it links the first entry, the caller sets multi.sg to its
 * sudog and calls netpoll_add_waiter (POLL-3).
 */
struct multi_wait {
	struct multi multi;
	struct multi_entry *entries; /* n, on the caller's stack or in `memory` */
	nfds_t n;
	void *memory; /* freed if the caller is killed at shutdown; NULL: there is none */
};

/* Steps 4 to 6, with all entries linked.  Returns 0 if one has fired, or an error. */
int multi_wait(struct multi_wait *w, int64_t deadline);
/* Step 6 without a wait: unlink the entries that are linked, end POLL-3.  multi.lock is not
 * held. */
void multi_unlink_all(struct multi_wait *w);

#endif
