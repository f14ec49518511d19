/* SPDX-License-Identifier: MIT */
#include "pick.h"

#include "base/rand.h"
#include "ready.h"
#include "source.h"

enum {
	SPIN_TICKS_MAX = 3 * TICKS_10US,
	SPIN_TICKS_MIN = TICKS_10US / 8,
	/* PICK-2 */
	DRAIN_PROBES = 4, /* a ring that is empty within so many probes is left to its owner */
	BACKOFF_MIN = 16,
	BACKOFF_MAX = 128, /* cpu_relax calls between two probes: about 4 us */
};

/* --- the own queues and the global queue --- */

struct g *from_global(struct p *pp, unsigned most)
{
	if (ld_rlx(&sched.gqn) == 0)
		return NULL;
	lock(&sched.lock, LR_SCHED);
	struct g *gp = gq_get(pp, most);
	unlock(&sched.lock, LR_SCHED);
	return gp;
}

noinline struct g *check_global(struct p *pp)
{
	poll_if_due(pp);
	if (runq_yielded(pp)) /* otherwise starvation: this P may never run out of work */
		runq_flush_yielded(pp);
	return from_global(pp, GLOBAL_CHECK_BATCH);
}

/* --- other Ps --- */

/*
 * PICK-2: will the owner of victim empty its ring soon, at its pace since the last probe?  A thief
 * that takes half of a few short-running Gs makes both Ps fetch what the other has just used; one P
 * alone finishes sooner.
 */
static bool drains_soon(struct p *victim, struct probe *probe)
{
	uint32_t head = (uint32_t)ld_rlx(&victim->runqhead);
	int32_t ran = max_of((int32_t)(head - probe->head), 0); /* < 0: timers put Gs in front */

	probe->head = head;
	return runq_len(victim) <= DRAIN_PROBES * (uint32_t)ran;
}

/*
 * Steal from the first of n Ps that has work, beginning at a random one.  probes NULL: no back-off.
 * last: also steal Gs that their owner is about to run, and the runnext of a P that has not
 * switched since the search began.
 */
static struct g *steal_from_ps(struct p *pp, int n, struct probe *probes, bool last)
{
	int first = (int)rand_below(&pp->rand, (uint32_t)n);

	for (int k = 0; k < n; k++) {
		int i = (first + k) % n;
		struct p *victim = sched.allp[i];

		if (victim == pp || (probes && !last && drains_soon(victim, &probes[i])))
			continue;
		bool next = last && probes[i].switches == ld_rlx(&victim->count.switches);
		struct g *gp = runq_steal(pp, victim, next);

		if (gp) {
			bump(&pp->count.steals, 1);
			bump(&pp->count.stolen, 1);
			return gp;
		}
	}
	return NULL;
}

/* The search of spin_for_work. */
static struct g *steal_work(struct m *m, struct p *pp, bool *from_source)
{
	struct probe *probes = pp->probes;
	uint64_t began = cpu_ticks();
	int n = ld_acq(&sched.nallp); /* ORD(allp) */
	bool patient = sched.cpus > 1 && n > 1;
	int backoff = 0; /* an M that was woken to spin finds work at once */
	struct g *gp;

	if (!m->spinning) {
		m->spinning = true;
		add_seq(&sched.nmspinning, 1); /* ORD(idle) */
		backoff = BACKOFF_MIN;
	}
	for (int i = 0; i < n; i++) {
		probes[i].switches = ld_rlx(&sched.allp[i]->count.switches);
		probes[i].head = (uint32_t)ld_rlx(&sched.allp[i]->runqhead);
	}
	do {
		if ((gp = from_global(pp, GLOBAL_BATCH)))
			return gp;
		steal_timers(pp);
		if (sched_should_poll() && cpu_ticks() - ld_rlx(&sched.lastpoll) > TICKS_10US / 2)
			sched_poll_now();
		if ((gp = local_work(pp)) || p_attends(pp)) {
			*from_source = gp;
			return gp;
		}
		bump(&pp->count.spins, 1);
		for (int i = 0; i < backoff && patient; i++)
			cpu_relax();
		if ((gp = steal_from_ps(pp, n, patient ? probes : NULL, false)))
			return gp;
		backoff = max_of(min_of(backoff * 2, (int)BACKOFF_MAX), (int)BACKOFF_MIN);
	} while (patient && cpu_ticks() - began < m->patience);
	return patient ? steal_from_ps(pp, n, probes, true) : NULL;
}

/*
 * The patience of an M adapts: it doubles after a success and halves after a failed search.
 * Threads that exchange work thus find each other spinning, and a server whose work comes from the
 * poller does not burn the CPU that its clients want.  Work from a timer or the poller does not
 * count: it would have woken the M.
 */
struct g *spin_for_work(struct m *m, struct p *pp, bool *from_source)
{
	struct g *gp = steal_work(m, pp, from_source);

	if (*from_source)
		return gp;
	m->patience = gp ? min_of(m->patience * 2, (uint32_t)SPIN_TICKS_MAX)
			 : max_of(m->patience / 2, (uint32_t)SPIN_TICKS_MIN);
	return gp;
}

bool may_spin(struct m *m)
{
	/* it sleeps in the poller instead: the kernel wakes it as soon as there is an event */
	if (!m->spinning && sched_should_poll() && !has_work())
		return false;
	return m->spinning ||
	       2 * ld_rlx(&sched.nmspinning) < ld_rlx(&sched.procs) - ld_rlx(&sched.npidle);
}
