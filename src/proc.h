/* SPDX-License-Identifier: MIT */
/*
 * Which Ps and Ms are there, who runs whom, and who is idle?  Those of Gs are in g.h.
 *
 * proc.c never chooses: which G runs next, and whether to wake somebody, is sched.c's and idle.c's.
 */
#ifndef GMP_PROC_H
#define GMP_PROC_H

#include "types.h"

/* Set the arena of descriptors, the queue and the Ps up.  0 or -errno. */
int proc_init(void);
void proc_fini(void);
/* A clean slate for the next run. */
void sched_reset(void);
/* The child of a fork: forget what the parent's threads held. */
void proc_forget(void);

/* --- P: under sched.lock, but for p_flush --- */

struct p *pidle_get(void);
void pidle_del(struct p *pp); /* under sched.lock */
void pidle_put(struct p *pp);
/* Give a P's caches back; its owner, or under sched.lock while it is idle. */
void p_flush(struct p *pp);
static inline void p_bind(struct p *pp, struct m *m)
{
	pp->m = m;
	m->p = m->held = pp;
	if (unlikely(m->pinned.head != NULL))
		or_rlx(&pp->attention, ATTENTION_PINNED);
	st_rlx(&pp->tid, m->tid);
}

/* By its owner, or while it has none. */
static inline void p_open(struct p *pp)
{
	st_rlx(&pp->shared, true);
	st_rel(&pp->open, true); /* ORD(p.open): what its owner did by plain stores is over */
}

/* All Ps have stood still for long and their threads sleep in the kernel, while there is work: one
 * more P, beyond procs.  False: a thread does not sleep after all, or there is no memory. */
bool procs_add_spare(void);
/* One of them has moved: the spare ones go. */
void procs_drop_spares(void);

/* Under sched.lock, by its owner or while it has none: all Gs that pp holds go where others find them. */
void p_empty_locked(struct p *pp);
/* Under sched.lock: the P of an M that cannot keep it becomes idle; what it held goes to the global
 * queue. */
void p_idle_locked(struct p *pp);
/* The owner of a P that has been told to go: empty it and mark it; false if it may stay after all. */
bool p_retire(struct p *pp);
/* Change the number of Ps.  Old number, or -ENOMEM.  *fresh: idle Ps were added. */
int procs_resize(int n, bool *fresh);

/* --- hand-off, under sched.lock: the lists sched.handed and sched.overtaken (HO4, HO5 of handoff.h) --- */

/* Gives pp to m, which was asleep or is overtaken, and does not run yet. */
void p_hand_to_locked(struct m *m, struct p *pp);
/* An M that lost its P before it ran, now out of the list; or NULL. */
struct m *m_take_overtaken_locked(void);
/* The P of an M that does not run yet, now the caller's; or NULL. */
struct p *p_overtake_locked(void);
/* A P whose M is in a section that is expected to be long, now the caller's; or NULL. */
struct p *p_take_blocked_locked(void);
/* m was asleep or is new, and takes m->nextp, if it is given, or is about to sleep. */
void m_unlist_handed_locked(struct m *m);

/* --- M --- */

typedef void *(*m_entry)(void *m);
void proc_set_entry(m_entry entry); /* the thread's first function: floor 6's */
/* Under sched.lock: room for one more, which m_new takes; false: there are max_threads.  It counts from here on,
 * or two that are decided upon at a time would find the same room. */
bool m_reserve_locked(void);
struct m *m_new(void); /* the record alone, of one that counts; NULL without memory */
/* A thread for it, which begins with nextp, or asleep.  Under no lock; 0 or -errno. */
int m_start(struct m *m);
void m_dead(struct m *m); /* the last that its thread does */
bool m_join_one(
	bool dead); /* await the end of a thread of ours, of a dead one: false: none is left */
void m_free(struct m *m);
void m_sleep(struct m *m); /* until m_wake; on a futex */
/* Wake one that midle_get gave; in_poller as it stood then: it may have woken and moved since. */
void m_wake(struct m *m, bool in_poller);
/* Under sched.lock.  What was ready for it goes to the global queue: the caller wakes somebody for it. */
void midle_put(struct m *m);
struct m *midle_get(void);   /* under sched.lock: one asleep, out of its list */
bool midle_del(struct m *m); /* under sched.lock: false if a waker has taken it */

#endif
