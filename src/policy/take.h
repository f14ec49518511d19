/* SPDX-License-Identifier: MIT */
/*
 * Take: the steps of preemption under sched.lock, which take the P of a running M, and what a
 * checkpoint asks before it yields for it.  The protocol is in monitor/preempt.h.
 */
#ifndef GMP_TAKE_H
#define GMP_TAKE_H

#include "types.h"

/*
 * Take pp from its M, which runs a G outside of a P section, and hand it off; the G continues
 * without a P (the protocol: monitor/preempt.h).  steps: p_steps of the run that the caller has
 * judged.  Returns false if the M is in a P section: the M then gives pp up when it begins the next
 * one.  Also returns false if pp has another M or has ended that run, or if no M can run pp.
 */
bool sched_preempt(struct p *pp, uint64_t steps);
/* On m, in its outermost P section: give its P up if sysmon has asked for it in this run, and if an
 * M is stopped that can run it (monitor/preempt.h).  Returns true if m has no P any more. */
bool sched_give_p_up(struct m *m);
/* PREEMPT-6: does the kernel seem to have descheduled m for most of the run of its G?  taken: m has
 * lost its P in that run. */
bool m_is_descheduled(struct m *m, bool taken);
/* On g0, before m jumps to a new G for the first time, while sched.starts_preempted: give its P up
 * if SPARE-2 says so. */
void sched_start_preempted(struct m *m);

#endif
