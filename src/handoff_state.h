/* SPDX-License-Identifier: MIT */
/*
 * Hand-off state: whether the P of an M was taken, and how long sections of blocking code last
 * (handoff.h, monitor/preempt.h, wait/blocking.c).
 */
#ifndef GMP_HANDOFF_STATE_H
#define GMP_HANDOFF_STATE_H

#include "base/base.h"

/*
 * m.taken: whether the P of an M was taken while its G computes or sleeps in the kernel
 * (monitor/preempt.h).
 *
 *   P_KEPT    its P was not taken by preemption
 *   P_ASKED   sysmon is about to take the P.  Entered from KEPT or WANTED by sysmon, under
 *             sched.lock; left by compare-and-swap: by the M, which keeps the P for now, or by
 *             sysmon
 *   P_TAKEN   the M runs its G without a P, and m->p is stale.  Entered under sched.lock: by sysmon
 *             from ASKED, by the M from WANTED or before the first run of its G (SPARE-2); left by
 *             the M when it stops or gets a P
 *   P_WANTED  the M was in a P section when sysmon asked; it gives the P up when it begins the next
 *             one.  Entered from ASKED by the M or by sysmon; left by the M, to KEPT if its G
 *             leaves the stack first, or by sysmon, which asks again.  May be set although the run
 *             that sysmon has judged (m.preempted.steps) is over
 */
enum taken { P_KEPT = 0, P_ASKED = 1, P_TAKEN = 2, P_WANTED = 3 };

/* A run of a G that sysmon has seen in two polls: PREEMPT-6.  It is that of an earlier G if sysmon
 * has not seen the present one. */
struct run_sample {
	int tid;       /* (a) of its M; the last to be written */
	int64_t since; /* (a) os_now of the last poll that saw the P switch; written first */
	int64_t cpu;   /* (a) os_thread_cpu_time of the M then, at the latest */
};

/* How the P of an M was taken by preemption. */
struct preempted {
	int64_t at;               /* (l) when that was last; the clock of os_now */
	bool at_start;            /* (l) before the first run of the G: SPARE-2 */
	uint64_t steps;           /* (a) p_steps of the P when sysmon asked for it */
	struct run_sample sample; /* (a) of the P then; constant while P_TAKEN */
};

/* How long the sections of one call of gmp_block_enter last. */
struct section {
	uint32_t ticks; /* moving average in cpu_ticks, capped; 0: none was timed */
	uint32_t begun;
};
enum { SECTION_SITES = 64 };

/* The section of blocking code that the G of an M is in: wait/blocking.c. */
struct blocking {
	uint32_t status; /* (o) what gmp_block_enter has left in its P */
	uint32_t site;   /* (o) index in p.sections */
	uint64_t began;  /* (o) cpu_ticks; 0: this section is not timed */
};

#endif
