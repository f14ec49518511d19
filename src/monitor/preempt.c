/* SPDX-License-Identifier: MIT */
/* Preemption: which Ps sysmon takes; see preempt.h. */
#include "monitor/preempt.h"

#include <unistd.h>

#include "base/os.h"
#include "base/throw.h"
#include "handoff.h"
#include "monitor/monitor.h"
#include "observe/longrun.h"
#include "policy/spare.h"
#include "policy/take.h"
#include "proc.h"
#include "ready.h"
#include "source.h"

static struct {
	unsigned fast; /* polls every SHORT_NS that are left */
	bool told;     /* of sched.total.refused */
} preempt;

static bool threads_are_used_up(void)
{
	return ld_rlx(&sched.nm) - ld_rlx(&sched.nresting) >= sched.nmlimit;
}

/* Work waits, and no idle P can do it: none is idle or has an M, or the ring of pp is closed until
 * its owner opens it. */
static bool p_is_wanted(struct p *pp)
{
	bool may_run = !threads_are_used_up() || ld_rlx(&sched.nmidle) || ld_rlx(&sched.nmspinning);

	if (ld_rlx(&sched.npidle) && may_run && ld_rlx(&pp->open))
		return false;
	return p_has_work(pp) || sched_should_poll() || has_work();
}

bool preempt_poll(int i, int64_t ran, bool asked, bool urgent, int64_t now)
{
	struct p *pp = sched.allp[i];
	int tid = ld_rlx(&pp->tid);
	uint64_t steps = p_steps(pp);
	bool over = ran >= (urgent ? slice_short() : sched.slice) && asked;

	if ((!over && !preempt.fast) || !sched.preempts || !tid || !p_is_wanted(pp))
		return false;
	bool sleeps = os_thread_is_asleep(tid);

	if ((!sleeps && !over) || !sched_preempt(pp, steps))
		return false;
	if (sleeps) {
		longrun_stuck(i, tid, now - ran, now);
		preempt.fast = FAST_POLLS;
		add_rlx(&sched.total.unannounced, 1);
	} else if (!spare_may_start()) {
		/* SPARE-2: if the G is not new, one start is slower */
		st_rlx(&sched.starts_preempted, true);
	}
	return true;
}

/* Writes one line to stderr at the first refusal of a run (PREEMPT-4). */
static void report_refusal(void)
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

static int64_t poll_fast(int64_t now)
{
	report_refusal();
	if (preempt.fast)
		preempt.fast--;
	return preempt.fast ? now + SHORT_NS : NEVER;
}

struct monitor monitor_preempt = { poll_fast, &preempt, sizeof(preempt) };
