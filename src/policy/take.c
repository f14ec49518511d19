/* SPDX-License-Identifier: MIT */
/* Takes Ps from running Ms; see take.h. */
#include "policy/take.h"

#include "base/emit.h"
#include "base/os.h"
#include "handoff.h"
#include "policy/spare.h"
#include "proc.h"

/* --- sysmon, and the M that sysmon has asked --- */

/* Can another M run the P that is taken next?  makes: the caller makes one if none is stopped
 * (SPARE-1 of policy/spare.h). */
static bool m_is_there_locked(bool makes)
{
	if (sched.nmidle || sched.lostp)
		return true;
	bool full = sched.nm - sched.nresting >= sched.nmlimit;

	if (full)
		add_rlx(&sched.total.refused, 1);
	return !full && makes;
}

/* The P of m is the caller's from here on, which hands it off after unlocking. */
static void p_taken_locked(struct m *m, struct p *pp)
{
	const struct g *gp = ld_rlx(&m->curg); /* may have ended since, and be another G */

	emit(EVENT_PREEMPT, 0, (uint64_t)pp->id, gp ? ld_rlx(&gp->id) : 0, 0);
	m->preempted.at = os_now();
	st_rlx(&sched.npreempted, sched.npreempted + 1);
	st_rlx(&sched.nblocked, sched.nblocked + 1);
	add_rlx(&sched.total.preemptions, 1);
}

/* Steps 1 to 5 of sysmon, under sched.lock.  Returns P_TAKEN; P_WANTED: the M gives pp up itself;
 * P_KEPT: nothing has come of it. */
static uint8_t p_ask_locked(struct p *pp, uint64_t steps)
{
	struct m *m = ld_rlx(&pp->m);
	uint8_t was, asked = P_ASKED;

	if (ld_rlx(&sched.state) != RUN_ON || !m) /* at the end of a run m may be freed */
		return P_KEPT;
	was = ld_rlx(&m->taken);
	if (was == P_TAKEN || p_steps(pp) != steps || !m_is_there_locked(spare_may_start()))
		return P_KEPT;
	st_rlx(&m->preempted.steps, steps);
	st_rlx(&m->preempted.sample.tid,
	       ld_rlx(&pp->run_sample.tid)); /* the caller is sysmon, which writes both */
	st_rlx(&m->preempted.sample.since, ld_rlx(&pp->run_sample.since));
	st_rlx(&m->preempted.sample.cpu, ld_rlx(&pp->run_sample.cpu));
	if (!cas_rlx(&m->taken, &was, (uint8_t)P_ASKED)) /* it was WANTED, and m has ended that */
		return P_KEPT;
	os_membarrier();                                /* ORD(preempt) */
	bool outside = ld_acq(&m->inside) == 0;         /* ORD(preempt): before the status */
	bool mine = ld_acq(&pp->status) == P_RUNNING && /* ORD(p.blocked) */
		    ld_rlx(&m->p) == pp && p_steps(pp) == steps && ld_rlx(&sched.state) == RUN_ON;
	uint8_t now = !mine ? P_KEPT : outside ? P_TAKEN : P_WANTED;

	if (now == P_TAKEN) /* before m can see it, and ask for m_slice again */
		os_thread_slice(m->tid, sched.slice);
	bool won = cas_acq(&m->taken, &asked, now); /* ORD(preempt) */

	if (now == P_TAKEN && won)
		p_taken_locked(m, pp);
	else if (now == P_TAKEN)
		os_thread_slice(m->tid, m_slice());
	return won ? now : ld_rlx(&m->taken) == P_WANTED ? P_WANTED : P_KEPT;
}

bool sched_preempt(struct p *pp, uint64_t steps)
{
	lock(&sched.lock, LR_SCHED);
	uint8_t got = p_ask_locked(pp, steps);
	bool make = sched.nmidle == 0 && (got == P_WANTED || !spare_may_start());
	unlock(&sched.lock, LR_SCHED);
	if (got == P_TAKEN)
		sched_hand_off(pp, false);
	if (make && spare_ask())
		add_rlx(&sched.total.refused, 1);
	return got == P_TAKEN;
}

/* m gives its P up.  No other thread writes `taken` while this one holds the lock. */
static void p_give_up_locked(struct m *m)
{
	st_rlx(&m->taken, (uint8_t)P_TAKEN);
	p_taken_locked(m, m->p);
}

static void hand_off_given(struct p *pp)
{
	sched_hand_off(pp, false);
	os_thread_slice(0, sched.slice); /* after the last lock */
}

/* Step 4 of the M.  A try: sysmon holds the lock for a membarrier.  The caller may hold the lock of
 * a channel, so the M makes no OS thread here: that is left to spare.h. */
bool sched_give_p_up(struct m *m)
{
	struct p *pp = m->p;
	bool given = false;

	if (!ld_rlx(&sched.nmidle) || !try_lock_against(&sched.lock, LR_SCHED))
		return false;
	uint8_t was = P_WANTED;

	if (p_steps(pp) != m->preempted.steps || ld_rlx(&sched.state) != RUN_ON) {
		cas_rlx(&m->taken, &was, (uint8_t)P_KEPT); /* asked in an earlier run */
	} else if (sched.nmidle) {
		p_give_up_locked(m);
		given = true;
	}
	unlock(&sched.lock, LR_SCHED);
	if (given)
		hand_off_given(pp);
	return given;
}

void sched_start_preempted(struct m *m)
{
	struct p *pp = m->p;

	lock(&sched.lock, LR_SCHED);
	bool given =
		!spare_may_start() && m_is_there_locked(true) && ld_rlx(&sched.state) == RUN_ON;

	if (given) {
		m->preempted.at_start = true;
		m->preempted.sample.tid = 0; /* sysmon has seen no run of this G */
		p_give_up_locked(m);
	}
	unlock(&sched.lock, LR_SCHED);
	if (given)
		hand_off_given(pp);
}

/* --- checkpoints --- */

/*
 *   PREEMPT-6  A checkpoint that is asked to yield does not if the kernel seems to have descheduled
 *              the M for most of the run: since sysmon last saw the P switch, less than
 *              DESCHEDULED_SLICES have passed, and the M has used less CPU time than slice_short,
 *              than a quantum and than half of the time.  sysmon reads the CPU time at a poll
 *              MIXED_NS / 2 or more after that; what the M used before counts as the real time,
 *              MIXED_NS at most.
 *   -          This does not apply if no such reading of this M exists, if the P has another reason
 *              to switch, with preemption off (PREEMPT-5), or at the end of blocking code
 *              (BLOCK-4).  A G that sleeps in the kernel between its checkpoints looks the same: it
 *              yields at the first checkpoint for which sysmon asks after these two slices.
 *   -          Without this, a G of an event waits behind all Gs that compute if other processes
 *              use the CPUs: with two such processes, one of 100 reads beside 200 Gs took 97 ms in
 *              half of all runs of loaded/fd.  The P may be taken nevertheless: others can use it
 *              meanwhile.
 *
 * The sample may be of an earlier run on this M, which makes both times longer.  If it is another
 * M's, that M has another tid.
 */
bool m_is_descheduled(struct m *m, bool taken)
{
	const struct run_sample *s = taken ? &m->preempted.sample : &m->p->run_sample;
	int tid = ld_acq(&s->tid); /* ORD(run_sample) */
	int64_t cpu = os_cpu_time() - ld_rlx(&s->cpu), real = os_now() - ld_rlx(&s->since);

	return tid == m->tid &&
	       cpu < min_of(slice_short(), QUANTUM_TICKS / TICKS_10US * (10 * US)) &&
	       cpu < real / 2 && real < DESCHEDULED_SLICES * sched.slice;
}
