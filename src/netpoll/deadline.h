/* SPDX-License-Identifier: MIT */
/* Deadlines of fds, for the other files of the poller; netpoll_deadline is in netpoll.h. */
#ifndef GMP_DEADLINE_H
#define GMP_DEADLINE_H

#include "netpoll/record.h"

/* No timer of a side is armed: a run begins. */
void deadlines_reset(void);
/* Under pd->lock: remove both deadlines. */
void deadlines_clear(struct polldesc *pd);

#endif
