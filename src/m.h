/* SPDX-License-Identifier: MIT */
/*
 * Ms: OS threads that run Gs, and the lists of idle Ms.
 *
 * Invariants, under sched.lock
 *   M-1  A stopped M is in exactly one place: sched.midle (it sleeps on its futex) or sched.pollm
 *        (it sleeps in the poller).  The thread that unlinks it gives it a P, or ends the run,
 *        and wakes it.  An M unlinks itself by the same rule.
 *   -    A stopped M that sched_hand_off gave a P is in sched.handed until it runs; if another M
 *        took that P, it is in sched.lostp.  See HANDOFF-4 and HANDOFF-5 of handoff.h.
 *   M-3  sched.nm counts every M from the decision to make it (m_reserve_locked) until m_dead.
 */
#ifndef GMP_M_H
#define GMP_M_H

#include "types.h"

/* --- making and ending --- */

typedef void *(*m_entry)(void *m);
/* Before the first M of a run.  entry: the first function of OS threads, run/run.c:m_main. */
void ms_begin(m_entry entry);
/* Under sched.lock: reserve one M, which m_new takes.  Returns false if max_threads exist.
 * Counting begins here, so that two concurrent decisions do not use the same room. */
bool m_reserve_locked(void);
/* Make the struct of a reserved M.  Returns NULL without memory, with the reservation given
 * back. */
struct m *m_new(void);
/* Start an OS thread for m, which begins with m->nextp, or stops at once.  No locks held.  Returns
 * 0 or -errno. */
int m_start(struct m *m);
/* The last step of an M's OS thread. */
void m_dead(struct m *m);
/* Join one OS thread that the runtime made; dead: only a thread that has ended.  Returns false if
 * there is none. */
bool m_join_one(bool dead);
/* Wait until all Ms have ended, m_wake_end, or until.  Returns false if all had ended before. */
bool m_wait_end(int64_t until);
void m_wake_end(void);
/* Under sched.lock: m, whose thread has left the runtime, counts as dead and is no longer in
 * sched.allm. */
void m_abandon_locked(struct m *m);
/* Free an M whose thread was joined or never started. */
void m_free(struct m *m);

/* Under sched.lock: m, whose P may have been taken, stops or gets a P.  Its G does not count in
 * sched.npreempted any more. */
void m_end_taken_locked(struct m *m);

/* --- sleeping and waking --- */

/* Sleep on m's futex until m_wake. */
void m_sleep(struct m *m);
/* Wake an M that midle_get returned, or a bound one.  in_poller: m->in_poller, read in the critical
 * section that unlinked it; m may have woken and moved since. */
void m_wake(struct m *m, bool in_poller);

/* --- the lists, under sched.lock --- */

/* Add m to the stopped Ms.  Its pinned Gs go to the global queue: the caller wakes an M for
 * them. */
void midle_put(struct m *m);
/* Take one of the stopped Ms out; NULL: there is none. */
struct m *midle_get(void);
/* Take an M out that must become the poller, if no M is in the poller, or on its way into or out of
 * it; otherwise NULL.  The caller wakes it: without a P it stops again, now in the poller. */
struct m *midle_get_poller(void);
/* Take m out.  Returns false if a waker has done so already. */
bool midle_del(struct m *m);
/* Give pp to m, which was stopped or has lost its P, and does not run yet. */
void p_hand_to_locked(struct m *m, struct p *pp);
/* Unlink an M from sched.lostp; NULL: there is none. */
struct m *m_take_lostp_locked(void);
/* Take the P of an M that does not run yet, and move that M to sched.lostp; NULL: there is
 * none. */
struct p *p_take_handed_locked(void);
/* m runs: unlink it from sched.handed (m->nextp is set) or sched.lostp, if it is there. */
void m_unlist_handed_locked(struct m *m);

#endif
