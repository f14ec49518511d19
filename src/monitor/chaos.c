/* SPDX-License-Identifier: MIT */
/* Chaos from sysmon (GMP_DEBUG=chaos): interrupts random OS threads, and takes random Ps. */
#include "monitor/faultsig.h"
#include "monitor/monitor.h"
#include "policy/take.h"
#include "proc.h"
#include "variant/variant.h"

enum { CHAOS_NS = 200 * US }; /* between two signals */

static int64_t next_signal;

/* The OS thread of a random preempted G; 0: there is none. */
static int draw_preempted(void)
{
	int n = 0, tid = 0;

	lock(&sched.lock, LR_SCHED);
	for (struct m *m = sched.allm; m; m = m->alllink)
		if (ld_rlx(&m->taken) == P_TAKEN && chaos_draw((uint32_t)++n) == 0)
			tid = m->tid;
	unlock(&sched.lock, LR_SCHED);
	return tid;
}

static int64_t disturb(int64_t now)
{
	if (!chaos_on() || rt_replays() || now - active_at > SLEEP_AFTER_NS)
		return NEVER;
	if (now < next_signal)
		return next_signal;
	uint32_t n = (uint32_t)ld_acq(&sched.nallp); /* ORD(allp) */
	int tid = chaos_draw(2) ? draw_preempted() : 0;

	if (!tid)
		tid = ld_rlx(&sched.allp[chaos_draw(n)]->tid);
	if (tid)
		signal_disturb(tid);
	struct p *pp = sched.allp[chaos_draw(n)]; /* taken whether it is wanted or not */

	if (sched.preempts && ld_rlx(&pp->status) == P_RUNNING)
		sched_preempt(pp, p_steps(pp));
	return next_signal = now + CHAOS_NS;
}

struct monitor monitor_chaos = { disturb, &next_signal, sizeof(next_signal) };
