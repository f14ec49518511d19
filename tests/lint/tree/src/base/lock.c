/* SPDX-License-Identifier: MIT */
/* Spin lock with backoff: see lock.h. */
#include "base/lock.h"

void lock(struct lock *l)
{
	for (int i = 0; l->word && i < SPIN_TICKS_MAX; i++)
		;
	l->word = 1;
}
