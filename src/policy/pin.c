/* SPDX-License-Identifier: MIT */
/* Bound and pinned Gs; see pin.h. */
#include "policy/pin.h"

#include <errno.h>

#include "base/emit.h"
#include "base/os.h"
#include "base/throw.h"
#include "enter.h"
#include "handoff.h"
#include "idle.h"
#include "proc.h"
#include "ready.h"
#include "runq.h"
#include "waiter.h"

/* The P of m goes to `its`, which has not woken yet: until then it has no M. */
static void give_p_locked(struct m *m, struct m *its)
{
	emit(EVENT_P_STOP, 0, (uint64_t)m->p->id, 0, 0);
	its->nextp = m->p;
	st_rlx(&m->p->m, (struct m *)NULL);
	st_rlx(&m->p, (struct p *)NULL);
}

/* --- bound Gs: PIN-1 --- */

bool pin_hand_over(struct m *m, struct g *gp)
{
	struct m *its = gp->lockedm;

	st_rlx(&m->curg, (struct g *)NULL);
	g_set_status(gp, G_RUNNABLE);
	lock(&sched.lock, LR_SCHED);
	bool stopping = ld_rlx(&sched.state) != RUN_ON;

	if (!stopping) {
		give_p_locked(m, its);
		midle_put(m);
	}
	unlock(&sched.lock, LR_SCHED);
	if (stopping)
		return false;
	m_wake(its, false);
	wake_for_queued();
	return wait_for_p(m);
}

bool pin_sleep(struct m *m)
{
	if (!m->lockedg && m->ours)
		return false; /* the OS thread ends; the caller of gmp_run stays */
	struct p *pp;

	do
		m_sleep(m);
	while (!(pp = acquirep(m, &(struct glist){ 0 })) && ld_rlx(&sched.state) == RUN_ON);
	return pp;
}

/* Under sched.lock, which it drops meanwhile: make sure that n Ms are not bound.  Returns 0 or
 * -EAGAIN.  An M that is being made does not count: if that fails, and all others have been bound
 * meanwhile, no M is left. */
static int ensure_unbound_m_locked(int n)
{
	while (sched.nm - sched.nstarting - sched.nbound < n) {
		if (ld_rlx(&sched.state) != RUN_ON)
			return 0; /* no G runs any more */
		if (!m_reserve_locked()) {
			if (sched.nm - sched.nbound < n)
				return -EAGAIN;
			unlock(&sched.lock, LR_SCHED);
			os_yield(); /* until that M is made, or has failed */
			lock(&sched.lock, LR_SCHED);
			continue;
		}
		sched.nstarting++;
		unlock(&sched.lock, LR_SCHED);
		bool started = start_m(NULL, false, false);

		lock(&sched.lock, LR_SCHED);
		sched.nstarting--;
		if (!started)
			return -EAGAIN;
	}
	return 0;
}

/* Under sched.lock: m runs any G from now on. */
static void pin_free_locked(struct m *m)
{
	m->dedicated = m->bound = false;
	st_rlx(&m->lockedg, (struct g *)NULL);
	sched.nbound--;
}

void pin_dedicate(struct m *m)
{
	lock(&sched.lock, LR_SCHED); /* sysmon runs already */
	m->dedicated = m->bound = true;
	sched.nbound++;
	unlock(&sched.lock, LR_SCHED);
}

bool pin_rest(struct m *m)
{
	lock(&sched.lock, LR_SCHED);
	bool serves =
		sched.nm - sched.nstarting - sched.nbound < 1 && ld_rlx(&sched.state) == RUN_ON;

	if (serves) {
		pin_free_locked(m);
		midle_put(m);
	} else if (m->dedicated) {
		st_rlx(&sched.nresting, 1);
	}
	unlock(&sched.lock, LR_SCHED);
	if (!serves)
		return pin_sleep(m);
	wake_for_queued();
	notify_poller(sched.allp[0]);
	return wait_for_p(m);
}

bool pin_stop(struct m *m)
{
	struct p *pp = m->p;

	if (ld_rlx(&sched.state) != RUN_ON)
		return false;
	st_rlx(&m->p, (struct p *)NULL);
	sched_hand_off(pp, false);
	return m->lockedg || m->ours ? pin_sleep(m) : pin_rest(m);
}

/* Bind m and its G to each other (PIN-1).  Returns 0, or -EAGAIN if no M would be left for the
 * other Gs, or if other Gs are pinned to m. */
static int pin_bind(struct m *m)
{
	uint32_t own = m->curg->pins > 0 ? 1 : 0;

	if (m->npinned > own)
		return -EAGAIN;
	lock(&sched.lock, LR_SCHED);
	int err = ensure_unbound_m_locked(m->bound ? 1 : 2);

	if (!err) {
		sched.nbound += !m->bound;
		m->bound = true;
		st_rlx(&m->lockedg, m->curg);
	}
	unlock(&sched.lock, LR_SCHED);
	return err;
}

/* --- pinned Gs: PIN-2 --- */

bool pin_send(struct m *m, struct g *gp)
{
	struct m *its = gp->lockedm;
	bool releases = false;

	st_rlx(&m->curg, (struct g *)NULL);
	g_set_status(gp, G_RUNNABLE);
	lock(&sched.lock, LR_SCHED);
	if (ld_rlx(&sched.state) != RUN_ON) {
		unlock(&sched.lock, LR_SCHED);
		return false;
	}
	bool in_poller = its->in_poller, asleep = !its->held && !its->nextp && midle_del(its);

	if (asleep || its->nextp || its->held)
		glist_push(&its->pinned, gp);
	else
		gq_put(gp);
	if (asleep) {
		its->nextp = pidle_get();
		releases = !its->nextp;
		if (releases) {
			give_p_locked(m, its);
			midle_put(m);
		}
	} else if (its->held) {
		or_rlx(&its->held->attention, ATTENTION_PINNED);
	}
	unlock(&sched.lock, LR_SCHED);
	if (asleep)
		m_wake(its, in_poller);
	if (!releases)
		return true;
	wake_for_queued();
	return wait_for_p(m);
}

struct g *pin_take(struct m *m, struct p *pp)
{
	and_rlx(&pp->attention, ~(uint32_t)ATTENTION_PINNED);
	lock(&sched.lock, LR_SCHED);
	struct g *gp = glist_pop(&m->pinned);

	if (m->pinned.head)
		or_rlx(&pp->attention, ATTENTION_PINNED);
	unlock(&sched.lock, LR_SCHED);
	return gp;
}

/* Pin the G of m to m. */
static void pin_to(struct m *m)
{
	if (m->bound && !m->lockedg) { /* PIN-3 */
		lock(&sched.lock, LR_SCHED);
		pin_free_locked(m);
		unlock(&sched.lock, LR_SCHED);
	}
	m->curg->lockedm = m;
	m->curg->resume |= RESUME_PINNED;
	m->npinned++;
}

/* --- calls of a running green thread --- */

/* The M of the calling G; otherwise the call is an error. */
static struct m *owner_for(const char *call)
{
	struct m *m = self_m();

	if (!m && gmp__blockedm())
		gmp__fatal("%s in blocking code\ncall gmp_block_leave before %s", call, call);
	if (!m)
		gmp__fatal("%s on a thread that is not a green thread\n"
			   "call it in a green thread only",
			   call);
	return m;
}

int gmp_lock_thread(void)
{
	struct m *m = getm(), *owner = owner_for("gmp_lock_thread");

	/* a G that is an OS thread is always bound */
	int err = owner->locks || !m ? 0 : pin_bind(m);

	if (err || owner->locks == UINT32_MAX)
		return -EAGAIN;
	owner->locks++;
	if (!m)
		return 0;
	m->curg->lockedm = m;
	m->curg->resume |= RESUME_BOUND;
	return 0;
}

int gmp_unlock_thread(void)
{
	struct m *m = getm(), *owner = owner_for("gmp_unlock_thread");

	if (!owner->locks)
		gmp__fatal("gmp_unlock_thread of a green thread that is not locked to its thread");
	if (--owner->locks > 0 || !m)
		return 0;
	m->curg->resume &= (uint8_t)~RESUME_BOUND;
	lock(&sched.lock, LR_SCHED);
	if (m->dedicated)
		st_rlx(&m->lockedg, (struct g *)NULL); /* PIN-3 */
	else
		pin_free_locked(m);
	unlock(&sched.lock, LR_SCHED);
	return 0;
}

int gmp_pin(void)
{
	struct m *m = getm() ? getm() : gmp__blockedm();

	if (!m)
		return 0;
	if (m->curg->pins == UINT8_MAX)
		return -EAGAIN;
	if (m->curg->pins++ == 0)
		pin_to(m);
	return 0;
}

int gmp_unpin(void)
{
	struct m *m = getm() ? getm() : gmp__blockedm();

	if (!m)
		return 0;
	if (m->curg->pins == 0)
		return -EINVAL;
	if (--m->curg->pins == 0) {
		m->curg->resume &= (uint8_t)~RESUME_PINNED;
		m->npinned--;
	}
	return 0;
}
