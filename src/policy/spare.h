/* SPDX-License-Identifier: MIT */
/*
 * Spare Ms: a thread that makes stopped Ms for the Ps that sysmon takes next.
 *
 * To make an OS thread takes 60 to 100 us of CPU time.  While k threads compute on each CPU, the
 * kernel makes a thread that has used that time wait for k times as long.  If sysmon made the Ms,
 * it would take no P meanwhile; if an M made one before it runs the first G of its P, nothing would
 * run on that P.  So a thread without other work makes them.  With 64 Gs that compute on two CPUs,
 * the longest of 2,500 sleeps of 1 ms was 145 to 230 ms without this thread, and is 15 to 36 ms
 * with it.
 *
 * Invariants
 *   SPARE-1  While SPARE_FROM or more preempted Gs compute for each P, sysmon takes a P only if an
 *            M is stopped that can run it.  Below that it makes the M itself (sched_hand_off).
 *   SPARE-2  While SPARE-1 restricts sysmon, and it has taken the P of a G that computes since it
 *            does, a new G starts preempted: its M first gives the P to another M, which it makes
 *            if none is stopped.
 *            This ends when such a G stops within a time slice.  An OS thread that has not run yet
 *            need not wait for its share of the CPU.  The last of 1,000 Gs that compute beside a
 *            sleep of 1 ms begins after 5 s; without this rule, after 70 to 222 s (two CPUs).
 *   -        spare.promised counts a spare M from the decision to make it until it is among the
 *            stopped Ms, so that not more than SPARES are made.
 *   -        The thread holds no lock while it makes an M, and makes none once the end of the run
 *            has begun: sched.nstarting counts as in wakep.
 */
#ifndef GMP_SPARE_H
#define GMP_SPARE_H

#include "types.h"

/* Before the first poll of a run, and after the last one.  spare_end joins the thread. */
void spare_begin(void);
void spare_end(void);
int spare_tid(void); /* of the thread; 0: it does not run yet */
/* SPARE-1: may sysmon make an M itself? */
bool spare_may_start(void);
/* The slice that an M which gets a P again asks for: short while SPARE-1 restricts sysmon; 0: the
 * default.  A new M has that of its maker: of sysmon or this thread, short. */
int64_t m_slice(void);
/* Make a spare M, or let the thread make some, if fewer than SPARES are stopped.  By sysmon, with
 * no lock held; starts the thread at the first call that needs it.  Returns 0, or -errno if there
 * is no thread. */
int spare_ask(void);
/* Under sched.lock, on m: it begins, and stops at once if it is a spare M. */
void spare_listed_locked(struct m *m);

#endif
