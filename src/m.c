/* SPDX-License-Identifier: MIT */
/* Ms: OS threads that run Gs; see m.h. */
#include "m.h"

#include <stdlib.h>

#include "base/os.h"
#include "base/throw.h"
#include "enter.h"
#include "mode/hooks.h"
#include "poller.h"
#include "runq.h"
#include "waiter.h"

enum { M_STACK = 256 * 1024 }; /* bytes of an M's stack */

/* --- making and ending --- */

static m_entry m_main_fn;

void proc_set_entry(m_entry entry)
{
	m_main_fn = entry;
}

bool m_reserve_locked(void)
{
	if (sched.nm >= sched.nmlimit)
		return false;
	st_rlx(&sched.nm, sched.nm + 1);
	return true;
}

struct m *m_new(void)
{
	struct m *m = calloc(1, sizeof(*m));

	lock(&sched.lock, LR_SCHED);
	if (!m) {
		st_rlx(&sched.nm, sched.nm - 1);
		unlock(&sched.lock, LR_SCHED);
		return NULL;
	}
	m->patience = TICKS_10US;
	m->id = sched.nextm++;
	m->alllink = sched.allm;
	sched.allm = m;
	m->rand = sched.options.c.seed ^ (uint64_t)(m->id + 1) * 0xd1342543de82ef95u;
	unlock(&sched.lock, LR_SCHED);
	return m;
}

/* M-3; under sched.lock. */
static void m_dead_locked(struct m *m)
{
	if (m->dead)
		return;
	m->dead = true;
	st_rlx(&sched.nm, sched.nm - 1);
	if (m->bound)
		sched.nbound--;
}

void m_dead(struct m *m)
{
	lock(&sched.lock, LR_SCHED);
	m_dead_locked(m);
	unlock(&sched.lock, LR_SCHED);
}

static void m_unlink_locked(struct m *m)
{
	for (struct m **at = &sched.allm; *at; at = &(*at)->alllink) {
		if (*at == m) {
			*at = m->alllink;
			return;
		}
	}
}

void m_free(struct m *m)
{
	lock(&sched.lock, LR_SCHED);
	m_dead_locked(m);
	m_unlink_locked(m);
	unlock(&sched.lock, LR_SCHED);
	free(m);
}

bool m_join_one(bool dead)
{
	struct m *m;

	lock(&sched.lock, LR_SCHED);
	for (m = sched.allm; m && !(m->joinable && (m->dead || !dead)); m = m->alllink)
		;
	if (m)
		m_unlink_locked(m); /* no other caller joins it */
	unlock(&sched.lock, LR_SCHED);
	if (!m)
		return false;
	pthread_join(m->thread, NULL);
	m_free(m);
	return true;
}

int m_start(struct m *m)
{
	int err;

	m->ours = true;
	err = os_thread_start(&m->thread, m_main_fn, m,
			      m->alone ? (size_t)1 << m->curg->stack_class : M_STACK);

	if (err)
		return err;
	lock(&sched.lock, LR_SCHED);
	m->joinable = true;
	unlock(&sched.lock, LR_SCHED);
	return 0;
}

/* --- sleeping and waking --- */

noinline struct m *thread_m(void)
{
	struct m *m = gmp__blockedm();

	return m && m->alone ? m : NULL;
}

void m_sleep(struct m *m)
{
	while (!ld_acq(&m->wake)) /* ORD(m.wake) */
		os_futex_wait(&m->wake, 0, NEVER);
	st_rlx(&m->wake, 0);
}

void m_wake(struct m *m, bool in_poller)
{
	mode_delays_wakeup();
	if (in_poller) {
		gmp__poller.wake();
		return;
	}
	st_rel(&m->wake, 1); /* ORD(m.wake): after m->nextp */
	os_futex_wake(&m->wake, 1);
}

/* --- stopped Ms --- */

void midle_put(struct m *m)
{
	struct g *gp;

	m->held = NULL;
	while (unlikely((gp = glist_pop(&m->pinned)) != NULL))
		gq_put(gp);
	m->in_poller = !sched.polling;
	if (m->in_poller) {
		sched.polling = true;
		st_rlx(&sched.pollm, m);
	} else {
		m->link = sched.midle;
		sched.midle = m;
	}
	st_rlx(&sched.nmidle, sched.nmidle + 1);
}

struct m *midle_get(void)
{
	struct m *m = sched.midle;

	if (m) {
		sched.midle = m->link;
	} else {
		m = sched.pollm;
		st_rlx(&sched.pollm, (struct m *)NULL);
	}
	if (m)
		st_rlx(&sched.nmidle, sched.nmidle - 1);
	return m;
}

bool midle_del(struct m *m)
{
	if (m->in_poller) {
		if (sched.pollm != m)
			return false;
		st_rlx(&sched.pollm, (struct m *)NULL);
		st_rlx(&sched.nmidle, sched.nmidle - 1);
		return true;
	}
	for (struct m **at = &sched.midle; *at; at = &(*at)->link) {
		if (*at == m) {
			*at = m->link;
			st_rlx(&sched.nmidle, sched.nmidle - 1);
			return true;
		}
	}
	return false;
}

/* --- hand-off: Ms that do not run yet (HANDOFF-4, HANDOFF-5 of handoff.h) --- */

void p_hand_to_locked(struct m *m, struct p *pp)
{
	m->nextp = pp;
	m->link = sched.handed;
	st_rlx(&sched.handed, m);
}

struct m *m_take_lostp_locked(void)
{
	struct m *m = sched.lostp;

	if (m)
		sched.lostp = m->link;
	return m;
}

struct p *p_take_handed_locked(void)
{
	for (struct m **at = &sched.handed; *at; at = &(*at)->link) {
		struct m *m = *at;

		if (!m->pinned.head) {
			struct p *pp = m->nextp;

			gmp_debug_assert(pp); /* HANDOFF-4: m does not run yet */
			st_rlx(at, m->link);
			m->nextp = NULL;
			m->link = sched.lostp;
			sched.lostp = m;
			return pp;
		}
	}
	return NULL;
}

void m_unlist_handed_locked(struct m *m)
{
	struct m **at = m->nextp ? &sched.handed : &sched.lostp;

	while (*at && *at != m)
		at = &(*at)->link;
	if (*at)
		st_rlx(at, m->link);
}
