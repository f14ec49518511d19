/* SPDX-License-Identifier: MIT */
/*
 * How does an external thread wait for what the end of a run may drop?
 *
 * A green thread that is dropped tells nobody, so an external thread that waits for its mutex or its signal
 * would wait for ever.  A join ends with the run.  So the external thread sends a green one with an errand,
 * and joins it.
 *
 * Invariants
 *  E1 The green thread works on a copy of the argument, never on the sender's stack: at the end of a run
 *     the join ends while the green thread may be just about to begin.
 *  E2 Beginning and giving up exclude each other: what its sender has given up does not begin.
 *  E3 Copies that have been given up are kept until an errand of another run is: until then their green
 *     threads may look at them.
 *
 * Written on the public interface alone, for services that are.
 */
#ifndef GMP_DELEGATE_H
#define GMP_DELEGATE_H

#include <stddef.h>

/*
 * fn(arg), where arg is n bytes, on a green thread of that name; from external threads.  0: it has returned,
 * and arg is what it has left.  -ESRCH: the run ends, or there is none; fn has not begun, or will be
 * dropped in its next wait.  Else nobody could be sent: -ENOMEM, -EAGAIN as gmp_spawn says.
 */
int errand(void (*fn)(void *arg), void *arg, size_t n, const char *name);

#endif
