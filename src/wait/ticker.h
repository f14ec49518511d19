/* SPDX-License-Identifier: MIT */
/* Shutdown and fork of ticks.  ticker.c has the invariants. */
#ifndef GMP_TICKER_H
#define GMP_TICKER_H

#include "types.h"

/* Shutdown: claims the external threads that wait for a tick with -ESRCH, and appends them to out.
 * */
void ticks_release(struct glist *out);
/* Fork: in the child, forgets the list of the parent's ticks. */
void ticks_forget(void);

#endif
