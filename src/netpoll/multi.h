/* SPDX-License-Identifier: MIT */
/* Waits of gmp_poll on several descriptors: see netpoll/multi.c. */
#ifndef GMP_MULTI_H
#define GMP_MULTI_H

#include "netpoll/fire.h"

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

#endif
