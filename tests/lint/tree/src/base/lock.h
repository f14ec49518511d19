/* SPDX-License-Identifier: MIT */
/*
 * Spin lock with backoff. The caller must not park while it holds one.
 */
#ifndef GMP_LOCK_H
#define GMP_LOCK_H

#include "base/base.h"

struct lock {
	unsigned word;
};

void lock(struct lock *l);

#endif
