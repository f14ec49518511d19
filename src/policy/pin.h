/* SPDX-License-Identifier: MIT */
/*
 * Pin: runs a G on one OS thread only.  The story of scheduling: sched.h.
 *
 * Invariants
 *   PIN-1  A bound G (RESUME_BOUND, gmp_lock_thread) runs only on gp->lockedm, and that M, once
 *          bound, runs no other G.  At least one M is not bound, to run the other Gs.
 *   PIN-2  A pinned G (RESUME_PINNED, gmp_pin or GMP_PINNED) runs only on gp->lockedm, which runs
 *          other Gs too.
 *   PIN-3  With preemption, the thread that called gmp_run runs the first G until that waits or
 *          yields.  Then it runs no other G: its M stays bound, without a G, and does not count
 *          against max_threads.  So a CPU-bound G never keeps gmp_run from returning
 *          (variant/abandon.h).  Exceptions: the first G binds or pins itself; or no other M can be
 *          made, and then the M runs all Gs.
 *
 * Steps of a bound G
 *   1 the G parks, yields or ends: its M hands its P off (handoff.h) and sleeps on its futex, in no
 *     list
 *   2 the M that takes the G from a queue gives its own P to the G's M, wakes it, and stops
 *   3 the G's M wakes with that P and resumes the G
 *   4 if the G has ended: step 1, and the OS thread ends
 *
 * Steps of a pinned G
 *   A pinned G becomes runnable like any other.  If an M takes it that is not its M, it forwards
 *   the G under sched.lock (pin_send), depending on the state of the G's M:
 *    stopped                  to m->pinned, and the M gets an idle P, or the sender's own
 *    with a P (m->held)       to m->pinned, and that P gets ATTENTION_PINNED.  If the M is in
 *                             blocking code and its P was taken, the bit is stale: a slow step
 *    given a P, not running   to m->pinned
 *    awake without a P        to the global queue again
 *   An M checks its list if its P has ATTENTION_PINNED, and alternates between the list and the
 *   other work of a busy P, timers and the global queue included (fairness: own_work of sched.c).
 *   The sender sets the bit or, if the M had no P then, p_bind does.
 *   So the list is nonempty only while its M has a P, is about to have one, or is in blocking code.
 *   An M that stops empties it into the global queue (midle_put), and wakes an M for these Gs.
 *   An M that other Gs are pinned to cannot be bound (PIN-1), so every M with a list returns to it.
 */
#ifndef GMP_PIN_H
#define GMP_PIN_H

#include "types.h"

/* Before the first G: m, of the thread that calls gmp_run, runs that G only (PIN-3). */
void pin_dedicate(struct m *m);

/* --- on g0; these return false if the runtime stops, or if the OS thread of m must end --- */

/* Step 1 of a bound G.  Returns with a P, to resume m->lockedg; without one, as pin_rest. */
bool pin_stop(struct m *m);
/* The same for an M without a P: sleep until another M has found m->lockedg in a queue. */
bool pin_sleep(struct m *m);
/* The same for the M of the thread that called gmp_run, without a G: PIN-3.  Returns with a P only
 * if the M must run any G, since there is no other. */
bool pin_rest(struct m *m);
/* Step 2: m has taken a G that is bound to another M.  Returns with a P. */
bool pin_hand_over(struct m *m, struct g *gp);
/* Forward a G that is pinned to another M.  Returns with a P. */
bool pin_send(struct m *m, struct g *gp);

/* Take the next G of m->pinned; NULL: the list is empty. */
struct g *pin_take(struct m *m, struct p *pp);

#endif
