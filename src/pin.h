/* SPDX-License-Identifier: MIT */
/*
 * How does a green thread run on one thread of the kernel's only?
 *
 * Invariants
 *  D4 A G that is locked to its thread runs on that M only (gp->lockedm), and that M, once bound,
 *     runs nothing else.  At least one M is not bound, so that there is one to do the rest.
 *  D5 A G that is pinned (gp->lockedm, RESUME_PINNED) runs on that M only, which runs others too.
 *
 * Turns of a G that is bound to its M (D4)
 *   1 the G stops: its M hands its P to another M, and sleeps on its futex, in no list
 *   2 whatever M finds the G in a queue gives its own P to the G's M, and goes to sleep itself
 *   3 the G's M wakes with that P, and resumes the G
 *   4 where the G ends: step 1, and the thread ends
 *
 * Pinned (D5)
 *   A pinned G is made ready like any other.  Whatever M finds it and is not its M gives it there,
 *   under sched.lock, as its M stands:
 *    asleep       into its M's list (m->pinned), and a P for its M: an idle one, or the finder's own
 *    with a P     into the list, and that P is told to attend (m->held; the P may have been taken
 *                 since, if its M is in blocking code: then somebody else attends in vain)
 *    given a P, and not up yet    into the list
 *    neither      (it was roused and got nothing) into the global queue again
 *   An M looks at its list when its P is told to attend, and takes one of it and one of the P's own by
 *   turns.  It is told by the finder, or, if it had no P at that time, when it gets one (p_bind).
 *   So the list is not empty only while its M has a P, or is about to have one, or is in blocking code;
 *   one that goes to sleep empties it into the global queue (midle_put), and sees that one is woken.
 *   An M that others are pinned to is not bound (D4), so every M with a list comes back to it.
 */
#ifndef GMP_PIN_H
#define GMP_PIN_H

#include "types.h"

/* The green thread on m and its thread belong together from now on (D4): -EAGAIN if no thread would
 * be left for the others, or for those that are pinned to it. */
int sched_bind(struct m *m);
void sched_unbind(struct m *m);

/* The green thread on m runs there only, from now on and not any more (D5). */
void sched_pin(struct m *m);
void sched_unpin(struct m *m);

/* --- on g0; false: the runtime stops, or the thread of m is to end --- */

/* Step 1: the G of a bound M has stopped, or ended.  Returns with m's P, to resume m->lockedg. */
bool pin_stop(struct m *m);
/* The same without a P: sleeps until another M has found m->lockedg in a queue. */
bool pin_sleep(struct m *m);
/* Step 2: m has found a G that is bound to another M.  Returns with a P. */
bool pin_hand_over(struct m *m, struct g *gp);
/* m has found a G that is pinned to another M: see "pinned".  Returns with a P. */
bool pin_send(struct m *m, struct g *gp);

/* The next of the Gs that are pinned to m; NULL: there is none. */
struct g *pin_take(struct m *m, struct p *pp);

#endif
