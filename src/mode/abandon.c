/* SPDX-License-Identifier: MIT */
/* OS threads that compute on when their run has ended; see abandon.h. */
#include "mode/abandon.h"

#include <stdlib.h>

#include "base/finding.h"
#include "base/os.h"
#include "base/trace.h"
#include "m.h"
#include "mode/longrun.h"
#include "stack.h"

static struct m *abandoned; /* those of the run that ends, by m->link */
static uint64_t threads;    /* (a) of this run and earlier ones */

uint64_t abandoned_threads(void)
{
	return ld_rlx(&threads);
}

/* --- the OS thread --- */

/* abandon_<arch>.S: calls gmp__abandoned_end. */
extern const char gmp__abandoned_return[];

void abandon_sig(struct m *m, uintptr_t pc)
{
	if (ld_acq(&m->leave) != LEAVE_ASKED || /* ORD(abandon) */
	    ld_rlx(&m->inside) || !m->curg)
		return;
	uintptr_t *back = trace_way_back(pc, code_is_gmps);

	if (!back)
		return;
	*back = (uintptr_t)gmp__abandoned_return;
	m->kept.lo = m->curg->stack;
	m->kept.klass = m->curg->stack_class;
	m->curg = NULL;
	gmp__setm_abandoned(m);
	st_rel(&m->leave, (uint32_t)LEAVE_LEFT); /* ORD(abandon) */
	m_wake_end();
}

static void free_abandoned(struct m *m)
{
	stack_release_kept(&m->kept);
	free(m);
}

void abandon_ended(struct m *m)
{
	add_rlx(&threads, UINT64_MAX);                          /* subtracts 1 */
	if (xchg_seq(&m->leave, LEAVE_ENDED) == LEAVE_DETACHED) /* ORD(abandon) */
		free_abandoned(m);
}

/* --- the end of the run --- */

/* Step 2 of m.  A thread that sleeps in the kernel is not signalled: its call could fail. */
static void ask(struct m *m)
{
	uint32_t leave = ld_rlx(&m->leave);

	if (m->dead || !m->joinable || leave > LEAVE_ASKED || os_thread_state(m->tid) != 'R')
		return;
	if (leave == LEAVE_NONE) /* otherwise it may become LEFT meanwhile */
		st_rel(&m->leave, (uint32_t)LEAVE_ASKED); /* ORD(abandon) */
	os_thread_signal(m->tid, LONGRUN_SIGNAL);
}

bool abandon_one(void)
{
	struct m *m;

	lock(&sched.lock, LR_SCHED);
	for (m = sched.allm; m && ld_acq(&m->leave) < LEAVE_LEFT; m = m->alllink) /* ORD(abandon) */
		;
	if (m)
		m_abandon_locked(m);
	unlock(&sched.lock, LR_SCHED);
	if (!m)
		return false;
	stack_keep(&m->kept);
	m->link = abandoned;
	abandoned = m;
	add_rlx(&threads, 1);
	return true;
}

void abandon_ask(void)
{
	lock(&sched.lock, LR_SCHED); /* no OS thread of an M that is not dead ends meanwhile */
	for (struct m *m = sched.allm; m; m = m->alllink)
		ask(m);
	unlock(&sched.lock, LR_SCHED);
}

void abandon_release(void)
{
	struct m *m;

	while ((m = abandoned)) {
		abandoned = m->link;
		pthread_detach(m->thread);
		if (xchg_seq(&m->leave, LEAVE_DETACHED) == LEAVE_ENDED) /* ORD(abandon) */
			free_abandoned(m);
	}
}
