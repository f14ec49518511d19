/* SPDX-License-Identifier: MIT */
/* OS threads that continue when their run has ended; see abandon.h. */
#include "variant/abandon.h"

#include <stdlib.h>

#include "base/finding.h"
#include "base/os.h"
#include "base/trace.h"
#include "m.h"
#include "observe/longrun.h"
#include "variant/owntls.h"

/* ASK_AGAIN_NS: until a thread is asked in a sleep again.  It doubles each time, ASK_DOUBLED times
 * at most, to 2 s: each question may lengthen a sleep. */
#define ASK_AGAIN_NS (2 * MS)
enum { ASK_DOUBLED = 10 };
/* The CPU time of a thread that computes, without a sleep.  A write that moves data until it sleeps
 * uses less: at most a buffer of 4 MB (TCP), at 2 GB/s or more. */
#define COMPUTED_NS (2 * MS)

static struct m *abandoned; /* those of the run that ends, by m->link */
static uint64_t threads;    /* (a) of this run and earlier ones */

uint64_t abandoned_threads(void)
{
	return ld_rlx(&threads);
}

/* --- the OS thread --- */

/* abandon_<arch>.S: calls gmp__abandoned_end. */
extern const char gmp__abandoned_return[];

static bool leave_sig(struct m *m, uintptr_t pc)
{
	if (m != getm() || ld_rlx(&m->inside) || !m->curg)
		return false;
	if (!trace_program_return(pc, code_is_gmps, (uintptr_t)gmp__abandoned_return))
		return false;
	m->abandon.stack.lo = m->curg->stack;
	m->abandon.stack.klass = m->curg->stack_class;
	m->abandon.block = owntls_abandon(m->curg);
	m->curg = NULL;
	gmp__setm_abandoned(m);
	os_thread_count_self(false);
	return true;
}

void abandon_sig(struct m *m, void *context)
{
	if (ld_acq(&m->abandon.state) != LEAVE_ASKED) /* ORD(abandon) */
		return;
	bool left = leave_sig(m, context_pc_sig(context));

	context_restart_sig(context, &m->abandon.sleep);                       /* after the walk */
	st_rel(&m->abandon.state, (uint32_t)(left ? LEAVE_LEFT : LEAVE_NONE)); /* ORD(abandon) */
	if (left)
		m_wake_end();
}

static void free_abandoned(struct m *m)
{
	stack_release_kept(&m->abandon.stack);
	if (m->abandon.block)
		tlsblock_free(m->abandon.block);
	free(m);
}

void abandon_ended(struct m *m)
{
	os_thread_count_self(true);
	add_rlx(&threads, UINT64_MAX);                                  /* subtracts 1 */
	if (xchg_seq(&m->abandon.state, LEAVE_ENDED) == LEAVE_DETACHED) /* ORD(abandon) */
		free_abandoned(m);
}

/* --- the end of the run --- */

static bool is_in_blocking_code(const struct m *m)
{
	const struct g *gp = ld_rlx(&m->curg);

	return gp && ld_rlx(&gp->status) == G_BLOCKED;
}

/* ABANDON-4 */
static bool may_signal(struct m *m, int64_t now)
{
	char state = os_thread_state(m->tid);
	uint64_t sleeps = os_thread_sleeps(m->tid);
	int64_t cpu = os_thread_cpu_time(m->tid);
	bool again = m->abandon.cpu >= 0, slept = sleeps != m->abandon.sleeps,
	     awake = again && !slept && m->abandon.awake && state == 'R';

	m->abandon.awake = state == 'R';
	m->abandon.sleeps = sleeps;
	if (!awake)
		m->abandon.cpu = cpu;
	if (state == 'R')
		return awake && cpu - m->abandon.cpu >= COMPUTED_NS;
	if (state != 'S' || !os_thread_sleep(m->tid, &m->abandon.sleep) || !again || !slept ||
	    now < m->abandon.ask_after)
		return false;
	m->abandon.cpu = -1; /* the sleep that the handler begins again is no new one */
	m->abandon.ask_after = now + (ASK_AGAIN_NS << m->abandon.asked);
	m->abandon.asked = (uint8_t)min_of(m->abandon.asked + 1, ASK_DOUBLED);
	return true;
}

/* Step 2 of m. */
static void ask(struct m *m, int64_t now)
{
	if (m->dead || !m->joinable || ld_acq(&m->abandon.state) != LEAVE_NONE || /* ORD(abandon) */
	    is_in_blocking_code(m) || !may_signal(m, now))
		return;
	st_rel(&m->abandon.state, (uint32_t)LEAVE_ASKED); /* ORD(abandon) */
	os_thread_signal(m->tid, LONGRUN_SIGNAL);
}

bool abandon_one(void)
{
	struct m *m;

	lock(&sched.lock, LR_SCHED);
	/* ORD(abandon) */
	for (m = sched.allm; m && ld_acq(&m->abandon.state) < LEAVE_LEFT; m = m->alllink)
		;
	if (m)
		m_abandon_locked(m);
	unlock(&sched.lock, LR_SCHED);
	if (!m)
		return false;
	stack_keep(&m->abandon.stack);
	m->link = abandoned;
	abandoned = m;
	add_rlx(&threads, 1);
	return true;
}

void abandon_ask(void)
{
	lock(&sched.lock, LR_SCHED); /* no OS thread of an M that is not dead ends meanwhile */
	for (struct m *m = sched.allm; m; m = m->alllink)
		ask(m, os_now());
	unlock(&sched.lock, LR_SCHED);
}

void abandon_release(void)
{
	struct m *m;

	while ((m = abandoned)) {
		abandoned = m->link;
		pthread_detach(m->thread);
		if (xchg_seq(&m->abandon.state, LEAVE_DETACHED) == LEAVE_ENDED) /* ORD(abandon) */
			free_abandoned(m);
	}
}
