/* SPDX-License-Identifier: MIT */
/* What the runtime's begin and end need to know of ticks. */
#ifndef GMP_TICKER_H
#define GMP_TICKER_H

#include "types.h"

/* At the end of a run: the external threads that wait for a tick are claimed with -ESRCH, and join
 * the list. */
void ticks_release(struct glist *out);
/* In the child of a fork: the parent's are no longer listed. */
void ticks_forget(void);

#endif
