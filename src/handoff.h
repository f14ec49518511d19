/* SPDX-License-Identifier: MIT */
/*
 * What becomes of a P whose M cannot go on with it, and of an M that comes back without one?
 *
 * An M lets its P go when its G is bound to it and stops (bound.c), or when its G is in blocking code
 * for long (syscall.c).
 *
 * Invariants
 *  HO1 A P that is let go has an M again, or is idle, and what it held is in the global queue: in
 *      the section of sched.lock in which that is decided, or when no thread could be made for it.
 *  HO2 If it is idle, then there was nothing to do for it and an M sleeps that can be woken for what
 *      comes later, or no M was to be had.  Who has laid it to rest looks once more, as a sleeper does.
 *  HO3 An M that comes back without a P is in the list of sleepers, or bound: somebody will find it.
 *  HO4 An M to which sched_hand_off gave a P stands in sched.handed until it runs (take_p).  Until then
 *      an M that comes back from blocking code may take that P: a wakeup lasts microseconds, on busy
 *      CPUs a time slice, and the P has work.  The G that comes back goes behind that work.  An M with
 *      pinned Gs keeps its P: no other M can run them.
 *  HO5 An M that lost its P that way stands in sched.overtaken until it runs.  It is awake already, so
 *      the next hand-off gives it a P without a wakeup.  Else it goes back to sleep, and looks for work
 *      once it is in the list of sleepers.
 *
 * BLOCK-3 of syscall.c is kept here: both ends of the count sched.nblocked.
 */
#ifndef GMP_HANDOFF_H
#define GMP_HANDOFF_H

#include "runtime.h"

/* A P whose M cannot keep it (it is bound, or in blocking code) and which belongs to the caller: it
 * goes to an M that is asleep, or to a new one; or to rest, if there is nothing to do for it, or
 * nobody. */
void sched_hand_off(struct p *pp, bool blocked);
/* Whether pp has work that another M could run now: a queued G, or a timer that is due. */
bool p_has_work(struct p *pp);
/* Under sched.lock: a P whose M is in a section that is expected to be long, now the caller's; or NULL. */
struct p *sched_take_blocked_locked(void);
/* Unlocked read: would sched_regain_p find a P now? */
bool sched_p_is_free(void);
/* The M of a G in blocking code whose P was taken: that P if it is idle, or one whose M is in a section
 * that is expected to be long, or one of an M that does not run yet, or another idle one.  overtook: it
 * is of the third kind, and the caller has its G yield: HO4. */
bool sched_regain_p(struct m *m, bool *overtook);
/* Under sched.lock: m was asleep or is new, and takes m->nextp, if it is given, or is about to sleep. */
void sched_is_up_locked(struct m *m);
/* On g0: else the G waits for its turn in the global queue, and the M sleeps. */
int sched_without_p_g0(void *gp);

#endif
