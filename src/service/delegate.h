/* SPDX-License-Identifier: MIT */
/*
 * Delegate: a wait of an external thread, made by a green thread that the external thread joins.
 *
 * Shutdown kills Gs without a notice. An external thread that waited for the mutex or the signal of
 * a killed G would wait indefinitely. A join ends with the run. So the external thread starts a G
 * that waits in its place, and joins it.
 *
 * Invariants
 *   -           The G uses the call's own memory, never the caller's stack: at shutdown the join
 *               returns while the G may be about to begin.
 *   DELEGATE-2  Of beginning and abandoning, one happens: an abandoned call does not begin.
 *   DELEGATE-3  The memory of an abandoned call is freed when a call of another run is abandoned:
 *               until then its G may read it.
 */
#ifndef GMP_DELEGATE_H
#define GMP_DELEGATE_H

#include <stdbool.h>
#include <stdint.h>

typedef int (*wait_fn)(void *object, int64_t deadline);

/*
 * Calls wait(object, deadline): a G by itself, an external thread on a green thread. Returns true
 * with *result set to the result of the call; to -ESRCH if there is no run, or it ends: the call
 * has not begun, or shutdown kills it in its next wait. Returns false if no green thread could be
 * started; *result is then -ENOMEM or -EAGAIN.
 */
bool delegate(wait_fn wait, void *object, int64_t deadline, int *result);

#endif
