/* SPDX-License-Identifier: MIT */
/* Waits on one or several fds: see netpoll/multi.c. */
#ifndef GMP_MULTI_H
#define GMP_MULTI_H

#include "netpoll/record.h"

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
