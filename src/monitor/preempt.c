/* SPDX-License-Identifier: MIT */
/* Preemption: which Ps sysmon takes; see preempt.h. */
#include "monitor/preempt.h"

#include <unistd.h>

#include "base/os.h"
#include "base/throw.h"
#include "handoff.h"
#include "observe/longrun.h"
#include "proc.h"
#include "ready.h"
#include "source.h"
#include "spare.h"
#include "timerheap.h"
#include "variant.h"

/*
 * HUNT_POLLS: polls after the last P of a sleeping thread was taken; a poll costs 5 us for each
 * running P, the read of a file of /proc.
 */
enum { HUNT_POLLS = 64 };

static struct {
	unsigned hunt; /* polls until the hunt ends */
	bool told;     /* of sched.total.refused */
} preempt;

void preempt_begin(void)
{
	__builtin_memset(&preempt, 0, sizeof(preempt));
	spare_begin();
}

static bool threads_are_used_up(void)
{
	return ld_rlx(&sched.nm) - ld_rlx(&sched.nresting) >= sched.nmlimit;
}

/* Can an M run an idle P? */
static bool idle_p_is_served(void)
{
	return ld_rlx(&sched.npidle) &&
	       (!threads_are_used_up() || ld_rlx(&sched.nmidle) || ld_rlx(&sched.nmspinning));
}

/* Work waits, and no idle P can do it: none is idle or has an M, or the ring of pp is closed until
 * its owner opens it. */
static bool p_is_wanted(struct p *pp)
{
	if (idle_p_is_served() && ld_rlx(&pp->open))
		return false;
	return p_has_work(pp) || sched_should_poll() || has_work();
}

static bool thread_sleeps(int tid)
{
	char state = os_thread_state(tid);

	return state == 'S' || state == 'D';
}

bool preempt_poll(int i, int64_t ran, bool asked, bool urgent, int64_t now)
{
	struct p *pp = sched.allp[i];
	int tid = ld_rlx(&pp->tid);
	uint64_t steps = p_steps(pp);
	int64_t slice = urgent ? slice_short() : sched.slice;
	bool over = ran >= slice && asked;

	if ((!over && !preempt.hunt) || !sched.preempts || !tid || !p_is_wanted(pp))
		return false;
	bool sleeps = thread_sleeps(tid);

	if (!sleeps && !over)
		return false;
	if (!sched_preempt(pp, steps))
		return false;
	if (sleeps) {
		longrun_stuck(i, tid, now - ran, now);
		preempt.hunt = HUNT_POLLS;
		add_rlx(&sched.total.unannounced, 1);
	}
	return true;
}

void preempt_chaos(void)
{
	int n = ld_acq(&sched.nallp); /* ORD(allp) */
	struct p *pp = sched.allp[chaos_draw((uint32_t)n)];

	if (sched.preempts && ld_rlx(&pp->status) == P_RUNNING)
		sched_preempt(pp, p_steps(pp));
}

int preempt_draw_tid(void)
{
	int n = 0, tid = 0;

	lock(&sched.lock, LR_SCHED);
	for (struct m *m = sched.allm; m; m = m->alllink)
		if (ld_rlx(&m->taken) == P_TAKEN && chaos_draw((uint32_t)++n) == 0)
			tid = m->tid;
	unlock(&sched.lock, LR_SCHED);
	return tid;
}

void preempt_report(void)
{
	struct line l = { .n = 0 };

	if (likely(!ld_rlx(&sched.total.refused)) || preempt.told)
		return;
	preempt.told = true;
	line_str_sig(&l, "gmp: no OS thread for a P whose green thread computes: it keeps the P, "
			 "and others wait; raise ");
	line_str_sig(&l, threads_are_used_up()
				 ? "gmp_config.max_threads (GMP_MAX_THREADS), which is "
				 : "RLIMIT_NPROC or pids.max: OS threads are ");
	line_dec_sig(&l, (uint64_t)(threads_are_used_up() ? sched.nmlimit : ld_rlx(&sched.nm)));
	line_str_sig(&l, "\n");
	line_write_sig(&l, STDERR_FILENO);
}

bool preempt_hunts(void)
{
	if (preempt.hunt)
		preempt.hunt--;
	return preempt.hunt;
}
