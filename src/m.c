/* SPDX-License-Identifier: MIT */
/* Ms: OS threads that run Gs; see m.h. */
#include "m.h"

#include <stdlib.h>
#include <string.h>

#include "base/emit.h"
#include "base/os.h"
#include "base/throw.h"
#include "enter.h"
#include "poller.h"
#include "runq.h"
#include "variant/variant.h"
#include "waiter.h"

enum { M_STACK = 256 * 1024 }; /* bytes of an M's stack */

/* --- making and ending --- */

static struct {
	m_entry entry; /* (c) */
	int dead;      /* (l) Ms in sched.allm that have ended: not joined yet */
	int next;      /* (l) the next id */
} ms;

void ms_begin(m_entry entry)
{
	ms.entry = entry;
	ms.dead = ms.next = 0;
}

bool m_reserve_locked(void)
{
	if (sched.nm - sched.nresting >= sched.nmlimit)
		return false;
	st_rlx(&sched.nm, sched.nm + 1);
	return true;
}

struct m *m_new(void)
{
	/* of its own cache lines: each P section of another M writes the fields of that one */
	struct m *m = aligned_alloc(CACHE_LINE, round_up(sizeof(*m), CACHE_LINE));

	if (m)
		memset(m, 0, sizeof(*m));
	lock(&sched.lock, LR_SCHED);
	if (!m) {
		st_rlx(&sched.nm, sched.nm - 1);
		unlock(&sched.lock, LR_SCHED);
		return NULL;
	}
	m->spin_ticks = TICKS_10US;
	m->inside = 1; /* it begins on g0 */
	m->abandon.sleep.nr = -1;
	m->abandon.cpu = -1;
	m->id = ms.next++;
	m->alllink = sched.allm;
	sched.allm = m;
	m->rand = sched.options.c.seed ^ (uint64_t)(m->id + 1) * 0xd1342543de82ef95u;
	unlock(&sched.lock, LR_SCHED);
	return m;
}

/* sched.nm is a futex for the end of a run, which no other thread waits for. */
void m_wake_end(void)
{
	os_futex_wake((uint32_t *)&sched.nm, 1);
}

bool m_wait_end(int64_t until)
{
	int n = ld_rlx(&sched.nm); /* all that the Ms wrote is ordered by their join */

	if (n)
		os_futex_wait((uint32_t *)&sched.nm, (uint32_t)n, until);
	return n;
}

/* M-3; under sched.lock. */
static void m_dead_locked(struct m *m)
{
	if (m->dead)
		return;
	m->dead = true;
	ms.dead++;
	st_rlx(&sched.nm, sched.nm - 1);
	if (m->bound)
		sched.nbound--;
	if (sched.nm == 0)
		m_wake_end();
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
			if (m->dead)
				ms.dead--;
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

void m_abandon_locked(struct m *m)
{
	if (ld_rlx(&m->taken) != P_TAKEN && m->p) {
		st_rlx(&m->p->tid, 0);
		st_rlx(&m->p->m, (struct m *)NULL);
	}
	m_end_taken_locked(m);
	m_dead_locked(m);
	m_unlink_locked(m);
}

bool m_join_one(bool dead)
{
	struct m *m = NULL;

	lock(&sched.lock, LR_SCHED);
	if (!dead || ms.dead) /* sysmon asks at each poll: no search through all Ms */
		m = sched.allm;
	for (; m && !(m->joinable && (m->dead || !dead)); m = m->alllink)
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
	size_t stack = variant_m_stack(m, M_STACK);

	m->ours = true;
	int err = os_thread_start(&m->thread, ms.entry, m, stack, &m->tid);

	if (err)
		return err;
	lock(&sched.lock, LR_SCHED);
	m->joinable = true;
	unlock(&sched.lock, LR_SCHED);
	return 0;
}

/* --- without a P: monitor/preempt.h --- */

noinline bool m_end_request(struct m *m)
{
	uint8_t was = ld_rlx(&m->taken);

	while (was == P_ASKED || was == P_WANTED)
		if (cas_acq(&m->taken, &was, (uint8_t)P_KEPT)) /* ORD(preempt) */
			return true;
	return was == P_KEPT;
}

noinline bool m_defer_request(struct m *m)
{
	uint8_t was = P_ASKED;

	if (cas_acq(&m->taken, &was, (uint8_t)P_WANTED)) /* ORD(preempt) */
		was = P_WANTED;
	if (was == P_WANTED && m->inside == 1)
		return !sched.up.give_p_up(m);
	return was != P_TAKEN;
}

void m_end_taken_locked(struct m *m)
{
	if (ld_rlx(&m->taken) != P_TAKEN)
		return;
	st_rlx(&m->taken, (uint8_t)P_KEPT);
	st_rlx(&sched.npreempted, sched.npreempted - 1);
	int64_t ns = os_now() - m->preempted.at;

	if (m->preempted.at_start && ns < sched.slice)
		st_rlx(&sched.starts_preempted, false);
	m->preempted.at_start = false;
	add_rlx(&sched.total.preempted_ns, (uint64_t)ns);
}

/* --- sleeping and waking --- */

void m_sleep(struct m *m)
{
	emit(EVENT_M_SLEEP, 0, 0, 0, 0);
	while (!ld_acq(&m->wake)) /* ORD(m.wake) */
		os_futex_wait(&m->wake, 0, NEVER);
	st_rlx(&m->wake, 0);
	emit(EVENT_M_WAKE, 0, 0, 0, 0);
}

void m_wake(struct m *m, bool in_poller)
{
	variant_delays_wakeup();
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

struct m *midle_get_poller(void)
{
	return sched.polling || !sched.midle ? NULL : midle_get();
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
