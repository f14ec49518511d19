/* SPDX-License-Identifier: MIT */
/*
 * Own thread-locals at a spawn: gives a new green thread a thread-local block (GMP_OWN_TLS).
 */
#ifndef GMP_OWNTLS_SPAWN_H
#define GMP_OWNTLS_SPAWN_H

#include "types.h"

/* Green threads of this run may have blocks from now on.  Any thread, not on g0.  Returns 0,
 * -EAGAIN, -ENOMEM or -ENOTSUP; the first -ENOTSUP of a process writes why to stderr. */
int owntls_enable(void);

#endif
