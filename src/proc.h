/* SPDX-License-Identifier: MIT */
/*
 * Ps: the idle list, and the change of their number.  Including this file includes Ms (m.h) too.
 *
 * Invariants
 *   PROC-1  A P is run by at most one M.  An idle or retired P has empty queues; its timers may
 *           stay, and are run by other Ps.
 *   PROC-2  A P with work is never retired: p_retire empties it, and rechecks under sched.lock
 *           whether procs_resize has called it back meanwhile.
 */
#ifndef GMP_PROC_H
#define GMP_PROC_H

#include "base/emit.h"
#include "m.h"
#include "types.h"

/* --- the arena of Gs, the queues and the Ps --- */

/* Set up for a run.  Returns 0 or -errno. */
int proc_init(void);
void proc_fini(void);
/* Clear struct sched for the next run. */
void sched_reset(void);
/* In the child of a fork: forget what the parent's threads held. */
void proc_forget(void);

/* --- one P; under sched.lock, except p_flush, p_bind and p_open --- */

/* Take a P off the idle list, RUNNING; NULL: there is none. */
struct p *pidle_get(void);
void pidle_del(struct p *pp);
void pidle_put(struct p *pp);
/* Give the caches of a P back.  By its owner; under sched.lock while it is idle; or, without that
 * lock, under `resizing` of proc.c while it is RETIRED: only procs_resize revives it, under that
 * lock. */
void p_flush(struct p *pp);
/* pp and m belong together from here on.  By m, or under sched.lock. */
static inline void p_bind(struct p *pp, struct m *m)
{
	st_rlx(&pp->m, m);
	st_rlx(&m->p, pp);
	m->held = pp;
	if (unlikely(m->pinned.head != NULL))
		or_rlx(&pp->attention, ATTENTION_PINNED);
	st_rlx(&pp->tid, m->tid);
	emit(EVENT_P_START, 0, (uint64_t)pp->id, 0, 0);
}

/* Changes with each switch, each section of blocking code and each pause of pp. */
static inline uint64_t p_steps(const struct p *pp)
{
	return ld_rlx(&pp->count.switches) + ld_rlx(&pp->count.blocks) + ld_rlx(&pp->pauses);
}

/* Let thieves come.  By the owner, or while pp has none. */
static inline void p_open(struct p *pp)
{
	st_rlx(&pp->shared, true);
	st_rel(&pp->open, true); /* ORD(p.open): after the owner's plain stores */
}

/* Move all Gs that pp holds to the global queue.  By its owner, or while it has none. */
void p_empty_locked(struct p *pp);
/* Empty a P whose M cannot keep it, and make it idle, or retire it if it is beyond procs. */
void p_idle_locked(struct p *pp);
/* Is there a P whose M is in a section that is expected to be long?  And take one, or NULL. */
bool p_any_is_long(void);
struct p *p_take_blocked_locked(void);

/* --- the number of Ps; these take the locks that they need --- */

/* The owner acts on ATTENTION_RETIRE: empty pp and mark it.  Returns false if pp was called
 * back. */
bool p_retire(struct p *pp);
/* Change the number of Ps to n.  Returns the old number, or -ENOMEM.  *fresh: idle Ps were
 * added. */
int procs_resize(int n, bool *fresh);

#endif
