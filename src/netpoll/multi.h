/* SPDX-License-Identifier: MIT */
/* Waits of gmp_poll on several fds: see netpoll/multi.c. */
#ifndef GMP_MULTI_H
#define GMP_MULTI_H

#include "netpoll/fire.h"

/* Step 1: note the events of fd, before the poll(2). */
void multi_look(struct multi_entry *e, int fd);

enum { MULTI_LINKED = 0, MULTI_AGAIN = 1 };

/*
 * Link the entry with its record, so that each change of readiness from here on fires it.  Waiters
 * of a former file of the number are appended to out.
 * Returns MULTI_LINKED; MULTI_AGAIN: not linked, since something has changed: poll again; otherwise
 * an error of the poller: -ENOMEM, -ENOSPC: no room; -ELOOP, -EINVAL: an epoll descriptor that it
 * cannot watch.
 */
int multi_link(struct multi_entry *e, int fd, struct glist *out);
/* The same without multi_look, for a file that gmp does not know: arming reports what is ready.
 * MULTI_AGAIN also if gmp knows the file. */
int multi_link_unknown(struct multi_entry *e, int fd, struct glist *out);
/* Unlink the entry from its record, if it is linked. */
void multi_unlink(struct multi_entry *e);

#endif
