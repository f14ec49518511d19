/* SPDX-License-Identifier: MIT */
/*
 * Delegate: runs a function on a green thread for an external thread, which waits for the result.
 *
 * Shutdown kills Gs without a notice. An external thread that waited for the mutex or the signal of
 * a killed G would wait indefinitely. A join ends with the run. So the external thread starts a G
 * that waits in its place, and joins it.
 *
 * Invariants
 *   -           The G uses a copy of the argument, never the caller's stack: at shutdown the join
 *               returns while the G may be about to begin.
 *   DELEGATE-2  Of beginning and abandoning, one happens: an abandoned call does not begin.
 *   DELEGATE-3  An abandoned copy is freed when a call of another run is abandoned: until then its
 *               G may read it.
 */
#ifndef GMP_DELEGATE_H
#define GMP_DELEGATE_H

#include <stddef.h>

/*
 * Calls fn(arg) on a green thread of that name; arg has n bytes. For external threads only.
 *
 * Returns
 *   0                 fn has returned, and arg holds what it left there
 *   -ESRCH            no run, or it ends: fn has not begun, or shutdown kills it in its next wait
 *   -ENOMEM, -EAGAIN  no green thread could be started, as gmp_spawn reports it
 */
int delegate(void (*fn)(void *arg), void *arg, size_t n, const char *name);

#endif
