/* SPDX-License-Identifier: MIT */
/* Places of running green threads: see observe/dump/running.h. */
#include "observe/dump/running.h"

#include <errno.h>

#include "base/os.h"
#include "enter.h"
#include "monitor/faultsig.h"
#include "observe/longrun.h"

/*
 * ANSWER_NS, ANSWER_MOST_NS: RUNNING-2.  A thread that is on a CPU answers in 20 us.  A thread that
 * waits for a CPU answers when it gets one: with k computing threads a CPU, after k time slices.
 * POLL_NS: between two polls for answers.
 */
enum { ANSWER_NS = 20 * MS, ANSWER_MOST_NS = S, POLL_NS = 100 * US };

static void collect(struct locations *p, const struct g *self)
{
	p->n = 0;
	lock(&sched.lock, LR_SCHED);
	for (struct m *m = sched.allm; m && p->n < LOCATIONS_MOST; m = m->alllink) {
		const struct g *gp = ld_rlx(&m->curg);
		int tid = ld_rlx(&m->tid);

		if (gp && gp != self && tid && ld_acq(&gp->status) == G_RUNNING) /* ORD(g.status) */
			p->of[p->n++] = (struct location){ ld_rlx(&gp->id), tid, .question = -1 };
	}
	unlock(&sched.lock, LR_SCHED);
}

static bool thread_computes(int tid)
{
	return os_thread_state(tid) == 'R';
}

/* RUNNING-3 */
static bool is_any_computing(struct locations *p)
{
	bool any = false;

	for (unsigned i = 0; i < p->n; i++) {
		p->of[i].over = !thread_computes(p->of[i].tid);
		any = any || !p->of[i].over;
	}
	return any;
}

/* Ask the thread, if it has not been asked, or take its answer. */
static void location_poll(struct location *at)
{
	uint64_t id;

	if (at->question < 0) {
		at->over = !thread_computes(at->tid); /* RUNNING-1 */
		if (!at->over)
			at->question = longrun_ask(at->tid);
		at->over = at->over || (at->question < 0 && at->question != -EBUSY);
	} else if (longrun_answered(at->question, &id, &at->trace)) {
		at->over = true;
		if (id != at->id)
			at->trace.n = 0; /* the G has switched meanwhile */
	}
}

static void ask_all(struct locations *p)
{
	int64_t rotation = (int64_t)p->n * min_of(sched.slice, (int64_t)ANSWER_NS) / sched.cpus;
	int64_t until = os_now() + ANSWER_NS + min_of(rotation, (int64_t)ANSWER_MOST_NS);
	bool open;

	for (;;) {
		open = false;
		for (unsigned i = 0; i < p->n; i++) {
			if (!p->of[i].over)
				location_poll(&p->of[i]);
			open = open || !p->of[i].over;
		}
		if (!open || os_now() >= until)
			break;
		os_nap(POLL_NS);
	}
	for (unsigned i = 0; open && i < p->n; i++)
		if (!p->of[i].over && p->of[i].question >= 0)
			longrun_drop(p->of[i].question);
}

void locations_ask(struct locations *p, const struct g *self)
{
	if (getm() && !self)
		return; /* on g0, which cannot wait */
	collect(p, self);
	if (!is_any_computing(p))
		return;
	gmp_block_enter();
	if (signal_ask_begin()) {
		ask_all(p);
		signal_ask_end();
	}
	gmp_block_leave();
}

const struct trace *locations_find(const struct locations *p, uint64_t id)
{
	for (unsigned i = 0; p && i < p->n; i++)
		if (p->of[i].id == id)
			return p->of[i].trace.n ? &p->of[i].trace : NULL;
	return NULL;
}

bool m_of_running(const struct g *gp, int *tid, int64_t *since, uint64_t *ran_from)
{
	struct m *m;

	if (!try_lock(&sched.lock, LR_SCHED))
		return false;
	for (m = sched.allm; m && ld_rlx(&m->curg) != gp; m = m->alllink)
		;
	if (m) {
		*tid = ld_rlx(&m->tid);
		*since = ld_rlx(&m->taken) == P_TAKEN ? m->preempted.at : 0;
		*ran_from = ld_rlx(&m->traced.ran_from);
	}
	unlock(&sched.lock, LR_SCHED);
	return m;
}

int m_tids(int *tids, int n)
{
	int found = 0;

	lock(&sched.lock, LR_SCHED);
	for (struct m *m = sched.allm; m && found < n; m = m->alllink)
		if (ld_rlx(&m->tid))
			tids[found++] = ld_rlx(&m->tid);
	unlock(&sched.lock, LR_SCHED);
	return found;
}
