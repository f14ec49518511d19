/* SPDX-License-Identifier: MIT */
/*
 * Which Ps and Ms are there, who runs whom, and who is idle?
 *
 * Invariants
 *  B3 A P is run by at most one M.  An idle P has empty queues (its timers may stay).
 *  B4 A sleeping M stands in exactly one place, sched.midle or sched.pollm; whoever takes it out,
 *     under sched.lock, gives it a P (or the end) and wakes it.  It takes itself out by the same
 *     rule.
 */
#include "proc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/rand.h"
#include "base/throw.h"
#include "g.h"
#include "mode/chaos.h"
#include "netpoll/record.h"
#include "poller.h"
#include "runq.h"
#include "timerheap.h"

enum { M_STACK = 256 * 1024 };

struct sched sched;

/* --- P --- */

/* As many timers as green threads for their waits, as many for the program's own, and those of
 * descriptors (T4). */
static uint32_t timer_limit(void)
{
	return sched.options.c.max_green * 2 + DEADLINES_MAX;
}

static void p_delete(struct p *pp)
{
	timers_fini(&pp->timers, timer_limit());
	free(pp->seen);
	free(pp);
}

static struct p *p_new(int id)
{
	struct p *pp = aligned_alloc(CACHE_LINE, round_up(sizeof(*pp), CACHE_LINE));

	if (!pp)
		return NULL;
	memset(pp, 0, sizeof(*pp));
	pp->seen = malloc(PROCS_MAX * sizeof(*pp->seen));
	if (!pp->seen || timers_init(&pp->timers, timer_limit()) || stackcache_init(&pp->stacks)) {
		p_delete(pp);
		return NULL;
	}
	pp->id = id;
	pp->sample_in = 1;
	pp->watched.since = NEVER;
	pp->in_order = sched.options.c.sched > GMP_SCHED_RUNNEXT;
	pp->room = sched.options.c.sched == GMP_SCHED_GLOBAL ? 0 : RUNQ_SIZE;
	st_rlx(&pp->status, P_RETIRED);
	st_rlx(&pp->attention, chaos_on() ? (uint32_t)ATTENTION_CHAOS : 0u);
	pp->rand = rand_start(sched.options.c.seed, (uint64_t)id);
	return pp;
}

struct p *pidle_get(void)
{
	struct p *pp = sched.pidle;

	if (!pp)
		return NULL;
	sched.pidle = pp->link;
	pp->link = NULL;
	st_rlx(&pp->status, P_RUNNING);
	st_rlx(&sched.npidle, sched.npidle - 1);
	return pp;
}

void pidle_put(struct p *pp)
{
	pp->m = NULL;
	st_rlx(&pp->status, P_IDLE);
	pp->link = sched.pidle;
	sched.pidle = pp;
	st_seq(&sched.npidle, sched.npidle + 1); /* ORD(idle): before the last look at the queues */
}

void pidle_del(struct p *pp)
{
	for (struct p **at = &sched.pidle; *at; at = &(*at)->link) {
		if (*at != pp)
			continue;
		*at = pp->link;
		pp->link = NULL;
		st_rlx(&sched.npidle, sched.npidle - 1);
		return;
	}
}

void p_flush(struct p *pp)
{
	stackcache_flush(&pp->stacks);
	gfree_spill(pp, 0);
}

void p_empty_locked(struct p *pp)
{
	struct g *gp = runnext_swap(pp, NULL);

	if (gp)
		gq_put(gp);
	while ((gp = runq_get(pp)))
		gq_put(gp);
	runq_flush_yielded_locked(pp);
}

void p_rest_locked(struct p *pp)
{
	p_empty_locked(pp);
	if (ld_rlx(&pp->attention) & ATTENTION_RETIRE) {
		and_rlx(&pp->attention, ~(uint32_t)ATTENTION_RETIRE);
		pp->m = NULL;
		st_rlx(&pp->status, P_RETIRED); /* its timers are seen to there, too */
	} else {
		pidle_put(pp);
	}
}

bool p_retire(struct p *pp)
{
	lock(&sched.lock, LR_SCHED);
	p_empty_locked(pp);
	unlock(&sched.lock, LR_SCHED);
	p_flush(pp);
	timers_move(pp, sched.allp[0]);
	lock(&sched.lock, LR_SCHED);
	/* unless it has been called back meanwhile: once it says that it is retired, another may run it */
	bool still = ld_rlx(&pp->attention) & ATTENTION_RETIRE;

	if (still) {
		and_rlx(&pp->attention, ~(uint32_t)ATTENTION_RETIRE);
		pp->m = NULL;
		st_rlx(&pp->status, P_RETIRED);
	}
	unlock(&sched.lock, LR_SCHED);
	return still;
}

/* Under sched.lock. */
static void p_revive(struct p *pp)
{
	if (ld_rlx(&pp->status) == P_RETIRED)
		pidle_put(pp);
	else
		and_rlx(&pp->attention, ~(uint32_t)ATTENTION_RETIRE);
}

/* Under sched.lock; true if it is empty now and only its timers are left to move. */
static bool p_dismiss(struct p *pp)
{
	uint32_t status = ld_rlx(&pp->status);

	if (status == P_IDLE) {
		pidle_del(pp);
		st_rlx(&pp->status, P_RETIRED);
		return true;
	}
	if (status != P_RETIRED)
		or_rlx(&pp->attention, ATTENTION_RETIRE);
	return false;
}

/* Thieves may come from now on: say so to those who have run alone. */
static void p_share(struct p *pp)
{
	if (ld_rlx(&pp->open)) /* once true, it stays */
		return;
	uint32_t status = ld_rlx(&pp->status);

	if (status != P_IDLE && status != P_RETIRED)
		or_rlx(&pp->attention, ATTENTION_SHARE);
	else
		p_open(pp); /* its queue is empty */
}

/* Several resizes at a time would undo each other. */
static struct lock resizing;

/* Under sched.lock, after gfree_set_keep: those that run see to it when they free one. */
static void gfree_spill_idle(void)
{
	for (struct p *pp = sched.pidle; pp; pp = pp->link)
		gfree_trim(pp);
}

/* Under `resizing`: records for n Ps.  0 or -ENOMEM. */
static int p_make_up_to(int n)
{
	for (int i = sched.nallp; i < n; i++) {
		struct p *pp = p_new(i);

		if (!pp)
			return -ENOMEM;
		sched.allp[i] = pp;
		st_rel(&sched.nallp, i + 1); /* ORD(allp): the P before its number */
	}
	return 0;
}

/* Under `resizing`: the Ps from first to end - 1 go. */
static void p_dismiss_from(int first, int end)
{
	static struct p *leaving[PROCS_MAX]; /* the caller's stack may be that of a green thread */
	int nleaving = 0;

	lock(&sched.lock, LR_SCHED);
	for (int i = first; i < end; i++)
		if (p_dismiss(sched.allp[i]))
			leaving[nleaving++] = sched.allp[i];
	unlock(&sched.lock, LR_SCHED);
	for (int i = 0; i < nleaving; i++) {
		p_flush(leaving[i]);
		timers_move(leaving[i], sched.allp[0]);
	}
}

int procs_resize(int n, bool *fresh)
{
	int old, end;

	lock(&resizing, LR_START);
	if (p_make_up_to(n)) {
		unlock(&resizing, LR_START);
		return -ENOMEM;
	}
	gfree_set_keep(n);
	lock(&sched.lock, LR_SCHED);
	gfree_spill_idle();
	old = sched.procs;
	end = old + sched.nspare;
	st_rlx(&sched.procs, n);
	st_rlx(&sched.nspare, 0);
	for (int i = 0; i < sched.nallp && n > 1; i++)
		p_share(sched.allp[i]);
	for (int i = old; i < n; i++)
		p_revive(sched.allp[i]);
	unlock(&sched.lock, LR_SCHED);
	p_dismiss_from(n, end);
	unlock(&resizing, LR_START);
	*fresh = n > old;
	return old;
}

/* --- spare Ps --- */

/* A P that is not shared, whose thread sleeps and will not come to a turn of the scheduler.  A thread
 * that sleeps in a system call is in the middle of no operation on its ring, since those make none;
 * and those that it begins once the barrier is over see the flag.  ORD(p.open) */
static bool p_open_asleep(struct p *pp)
{
	if (ld_rlx(&pp->open))
		return true;
	if (!sched.asymmetric)
		return false;
	st_rlx(&pp->shared, true);
	os_membarrier();
	if (os_thread_state(ld_rlx(&pp->tid)) != 'S') /* 'D' may be a page of the ring */
		return false; /* it may have begun one before: let it open by its own hand */
	p_open(pp);
	return true;
}

bool procs_add_spare(void)
{
	bool added;
	int i;

	lock(&resizing, LR_START);
	i = sched.procs + sched.nspare;
	added = i < PROCS_MAX && p_make_up_to(i + 1) == 0;
	for (int k = 0; k < i && added; k++)
		added = p_open_asleep(sched.allp[k]);
	if (added)
		gfree_set_keep(i + 1);
	lock(&sched.lock, LR_SCHED);
	added = added && ld_rlx(&sched.state) == RUN_ON;
	if (added) {
		st_rlx(&sched.nspare, sched.nspare + 1);
		add_rlx(&sched.spares, 1); /* before anyone can run on it, and ask */
		p_share(sched.allp[i]);
		p_revive(sched.allp[i]);
	}
	unlock(&sched.lock, LR_SCHED);
	unlock(&resizing, LR_START);
	return added;
}

void procs_drop_spares(void)
{
	int first, end;

	lock(&resizing, LR_START);
	lock(&sched.lock, LR_SCHED);
	first = sched.procs;
	end = first + sched.nspare;
	st_rlx(&sched.nspare, 0);
	unlock(&sched.lock, LR_SCHED);
	gfree_set_keep(first);
	p_dismiss_from(first, end);
	unlock(&resizing, LR_START);
}

/* --- hand-off: Ps of Ms that do not run yet (HO4, HO5 of handoff.h) --- */

void p_hand_to_locked(struct m *m, struct p *pp)
{
	m->nextp = pp;
	m->link = sched.handed;
	st_rlx(&sched.handed, m);
}

struct m *m_overtaken_locked(void)
{
	struct m *m = sched.overtaken;

	if (m)
		sched.overtaken = m->link;
	return m;
}

struct p *p_overtake_locked(void)
{
	for (struct m **at = &sched.handed; *at; at = &(*at)->link) {
		struct m *m = *at;

		if (!m->pinned.head) {
			struct p *pp = m->nextp;

			gmp_debug_assert(pp); /* HO4: m does not run yet */
			st_rlx(at, m->link);
			m->nextp = NULL;
			m->link = sched.overtaken;
			sched.overtaken = m;
			return pp;
		}
	}
	return NULL;
}

void m_is_up_locked(struct m *m)
{
	struct m **at = m->nextp ? &sched.handed : &sched.overtaken;

	while (*at && *at != m)
		at = &(*at)->link;
	if (*at)
		st_rlx(at, m->link);
}

struct p *p_take_blocked_locked(void)
{
	int n = ld_acq(&sched.nallp); /* ORD(allp) */

	for (int i = 0; i < n; i++) {
		struct p *pp = sched.allp[i];
		uint32_t status = ld_rlx(&pp->status);

		if ((status & (P_STATUS_MASK | P_LONG)) == (P_BLOCKED | P_LONG) &&
		    cas_acq(&pp->status, &status, (uint32_t)P_RUNNING)) { /* ORD(p.blocked) */
			add_rlx(&sched.handoffs, 1);
			st_rlx(&sched.nblocked, sched.nblocked + 1);
			return pp;
		}
	}
	return NULL;
}

/* --- M --- */

static m_entry first_function;

void proc_set_entry(m_entry entry)
{
	first_function = entry;
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

/* Under sched.lock: it counts no more. */
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

int m_start(struct m *m)
{
	int err;

	m->ours = true;
	err = os_thread_start(&m->thread, first_function, m,
			      m->alone ? (size_t)1 << m->curg->stack_class : M_STACK);

	if (err)
		return err;
	lock(&sched.lock, LR_SCHED);
	m->joinable = true;
	unlock(&sched.lock, LR_SCHED);
	return 0;
}

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
	if (chaos_on())
		chaos_delay();
	if (in_poller) {
		gmp__poller.wake();
		return;
	}
	st_rel(&m->wake, 1); /* ORD(m.wake): nextp before it */
	os_futex_wake(&m->wake, 1);
}

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

bool m_join_one(bool dead)
{
	struct m *m;

	lock(&sched.lock, LR_SCHED);
	for (m = sched.allm; m && !(m->joinable && (m->dead || !dead)); m = m->alllink)
		;
	if (m)
		m_unlink_locked(m); /* so that nobody else joins it */
	unlock(&sched.lock, LR_SCHED);
	if (!m)
		return false;
	pthread_join(m->thread, NULL);
	m_free(m);
	return true;
}

/* --- begin and end --- */

void sched_reset(void)
{
	size_t kept = offsetof(struct sched, run);

	memset((char *)&sched + kept, 0, sizeof(sched) - kept);
	sched.poll_until = INT64_MIN;
}

void proc_forget(void)
{
	allgs_forget();
	resizing = (struct lock){ 0 };
	stack_forget();
}

/* Set address space aside for that many green threads, and make the Ps. */
static int proc_try(uint32_t max_green)
{
	gmp_config *c = &sched.options.c;
	bool fresh;
	int err;

	c->max_green = max_green; /* T4: the program's timers go by it, too */
	err = allgs_init(max_green);
	if (err)
		return err;
	err = gq_init(max_green);
	sched.stack_class = log2_ceil(c->stack_size);
	if (!err)
		err = stack_init(max_green + PROCS_MAX * STACK_CACHE + 1024, sched.stack_class);
	stack_limit(c->max_stack_memory);
	if (!err)
		err = procs_resize(c->procs, &fresh);
	return err < 0 ? err : 0;
}

/* For as many green threads as asked for, or as address space allows.  What had to be less than
 * asked for is a quarter of what would just fit: stacks need most of the space, and the program
 * some, too. */
int proc_init(void)
{
	uint32_t want = sched.options.c.max_green, least = min_of(want, 1024u);
	bool shrunk = false;
	int err;

#ifdef SAN_THREAD
	want = min_of(want,
		      1u << 17); /* it clears its shadow of every mapping, at each start and end */
#endif
	while ((err = proc_try(want)) == -ENOMEM && !stack_lock_refused() && want / 2 >= least) {
		proc_fini();
		want /= 2;
		shrunk = true;
	}
	if (!err && shrunk) {
		proc_fini();
		err = proc_try(max_of(want / 4, least));
	}
	return err;
}

void proc_fini(void)
{
	for (int i = 0; i < sched.nallp; i++)
		p_delete(sched.allp[i]);
	sched.nallp = sched.procs = sched.npidle = 0;
	sched.pidle = NULL;
	stack_fini();
	gq_fini();
	allgs_fini();
}
