/* SPDX-License-Identifier: MIT */
/* Events about Gs and the running time of Gs; see observe/tracing.h. */
#include "observe/tracing.h"

#include <errno.h>

#include "base/os.h"
#include "enter.h"
#include "g.h"
#include "observe/latency.h"

/* The G on behalf of which the calling thread acts: 0 for none.  On g0, a wakeup that is caused
 * neither by the poller nor by a timer is the work of the G that has just left its stack: its end
 * wakes a joiner, its commit step unlocks. */
static uint64_t acting_g(gmp_latency_cause cause)
{
	struct m *m = getm();

	if (!m)
		m = gmp__blockedm();
	const struct g *gp = m ? ld_rlx(&m->curg) : NULL;

	if (gp)
		return gp->id;
	return m && cause == GMP_LATENCY_WAKE ? m->traced.left_id : 0;
}

noinline void trace_ready_event(struct g *gp, enum event_queue queue, gmp_latency_cause cause)
{
	uint32_t what = recording();

	if (!ld_rlx(&gp->stack) && queue != QUEUE_YIELDED)
		gmp__emit(what, EVENT_SPAWN, queue, gp->id, acting_g(cause), (uintptr_t)gp->fn);
	else
		gmp__emit(what, EVENT_READY, (unsigned)queue | (unsigned)cause << 4, gp->id,
			  acting_g(cause), 0);
}

/* Measure, record, or both: one call, since a second would cost the fast path a register. */
noinline void observe_ready(struct p *pp, struct g *gp, enum event_queue queue,
			    gmp_latency_cause cause)
{
	if (pp->sample_in == 0) /* it was drawn */
		latency_sample(pp, gp, cause);
	trace_ready(gp, queue, cause);
}

/* --- running time --- */

static struct {
	uint64_t *of;   /* (a) by g_index: cpu_ticks; NULL: never switched on in this run */
	size_t bytes;   /* (c) */
	uint64_t since; /* (a) cpu_ticks when the accounting was switched on */
} times;

double ns_per_tick(void)
{
	uint64_t ticks = cpu_ticks() - sched.start_ticks;

	return ticks ? (double)(os_now() - sched.start_now) / (double)ticks : 0;
}

int cputime_begin(void)
{
	uint64_t *of = ld_rlx(&times.of);

	if (of) {
		os_discard(of, times.bytes);
		return 0;
	}
	times.bytes = round_up((size_t)sched.options.c.max_green * sizeof(*of), PAGE);
	of = os_reserve(times.bytes);
	if (!of)
		return -ENOMEM;
	st_rel(&times.of, of); /* ORD(cputime) */
	return 0;
}

void cputime_on(void)
{
	st_rlx(&times.since, cpu_ticks());
}

void cputime_forget(void)
{
	times.of = NULL;
}

int64_t cputime_present(uint64_t ran_from)
{
	uint64_t now = cpu_ticks(), from = max_of(ran_from, ld_rlx(&times.since));

	return ran_from && now > from ? (int64_t)((double)(now - from) * ns_per_tick()) : 0;
}

void cputime_fini(void)
{
	os_release(times.of, times.bytes);
	times.of = NULL;
}

/* gp leaves its stack on m, or enters blocking code: add the time since it began to run. */
static void cputime_add(struct m *m, struct g *gp)
{
	uint64_t *of = ld_acq(&times.of); /* ORD(cputime) */
	uint64_t now = cpu_ticks(), from = ld_rlx(&m->traced.ran_from);

	m->traced.left_id = gp->id;
	st_rlx(&m->traced.ran_from, (uint64_t)0);
	/* m ran it while nothing was accounted, and another G before that */
	from = from ? max_of(from, ld_rlx(&times.since)) : 0;
	if (!of || !from || now <= from)
		return;
	bump(&of[g_index(gp)], now - from);
	/* in a P section, with a P.  It has none if its P was taken from blocking code */
	if (m->p && ld_rlx(&m->inside) && !p_is_asked(m))
		bump(&m->p->count.ran, now - from);
	else
		add_rlx(&sched.total.ran_without_p, now - from);
}

bool cputime_of(const struct g *gp, uint64_t *ns)
{
	uint64_t *of = ld_acq(&times.of); /* ORD(cputime) */

	*ns = of && recording() ? (uint64_t)((double)ld_rlx(&of[g_index(gp)]) * ns_per_tick()) : 0;
	return of && recording();
}

noinline void trace_run_event(struct m *m, struct p *pp, struct g *gp)
{
	uint64_t *of = ld_acq(&times.of); /* ORD(cputime) */
	bool first = !ld_rlx(&gp->stack);

	if (first && of)
		st_rlx(&of[g_index(gp)], (uint64_t)0);
	m->traced.left_id = 0;
	st_rlx(&m->traced.ran_from, cpu_ticks());
	gmp__emit(recording(), EVENT_RUN, first, gp->id, (uint64_t)pp->id, 0);
}

/* --- blocking code --- */

noinline void trace_block_event(struct m *m)
{
	cputime_add(m, m->curg);
	gmp__emit(recording(), EVENT_BLOCK, 0, m->curg->id, (uint64_t)m->p->id, 0);
}

noinline void trace_unblock_event(struct m *m, bool has_p)
{
	st_rlx(&m->traced.ran_from, cpu_ticks());
	gmp__emit(recording(), EVENT_UNBLOCK, has_p, m->curg->id, 0, 0);
}

void trace_leave(struct m *m, struct g *gp, enum event type, unsigned small, uint64_t a, uint64_t b)
{
	uint32_t what = recording();

	if (!what)
		return;
	cputime_add(m, gp);
	gmp__emit(what, type, small, gp->id, a, b);
}
