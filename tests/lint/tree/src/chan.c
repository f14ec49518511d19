/* SPDX-License-Identifier: MIT */
/*
 * Bounded FIFO channel between threads.
 *
 * Invariants
 *   CHAN-1  A waiter is queued only if no element is buffered.
 */
#include "base/lock.h"
#include "park.h"

int chan_send(struct lock *l)
{
	lock(l);
	return park(); /* CHAN-1 */
}
