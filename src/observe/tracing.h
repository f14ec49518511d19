/* SPDX-License-Identifier: MIT */
/*
 * Events about Gs, which the probes emit (probe.h), and the running time of each G.
 *
 * The events PARK, YIELD and EXIT are emitted by the leave steps of trace/tracing.c, which are in
 * use while something is recorded (variant/leave.h), the others that are not of a G where the
 * counter of gmp_stats is increased.
 *
 * Cost while nothing is recorded: a test of a global word and a branch in trace_ready, probe_run,
 * probe_block and probe_unblock; none in the leaving of a stack.
 *
 * Running time (RECORD_CPU, or a session): the M notes cpu_ticks when a G begins to run, and adds
 * the difference when the G leaves its stack or enters blocking code.  It includes the time in
 * which the kernel has descheduled the OS thread.  The sums lie in an array beside the arena of g
 * structs, so a program that records nothing has neither a larger g struct nor the array.
 *
 * Invariants
 *   TRACE-1  A G that waits has its PARK event before the event of the thread that makes it
 *            runnable: the event is emitted before the commit step (park.h).
 *   TRACE-2  The sum of a G is written by the M that runs it, so by one thread at a time.
 */
#ifndef GMP_TRACING_H
#define GMP_TRACING_H

#include "base/emit.h"
#include "types.h"

/* gp becomes runnable; pp: the caller's P, or NULL. */
void trace_ready_event(struct g *gp, enum event_queue queue, gmp_latency_cause cause);

static inline void trace_ready(struct g *gp, enum event_queue queue, gmp_latency_cause cause)
{
	if (unlikely(recording()))
		trace_ready_event(gp, queue, cause);
}

/* gp becomes runnable on pp, the caller's: record it, and measure it if it was drawn. */
void observe_ready(struct p *pp, struct g *gp, enum event_queue queue, gmp_latency_cause cause);

/* During a trace: see probe.h. */
void trace_run_event(struct m *m, struct p *pp, struct g *gp);
void trace_block_event(struct m *m);
void trace_unblock_event(struct m *m, bool has_p);

/* gp leaves its stack on m: the event, with its fields, and its running time. */
void trace_leave(struct m *m, struct g *gp, enum event type, unsigned small, uint64_t a,
		 uint64_t b);

/* --- running time --- */

/* Reserve the array of sums, for the Gs that can exist, and set it to 0.  Returns 0 or -ENOMEM.
 * One caller at a time. */
int cputime_begin(void);
/* End of a run; in the child of a fork. */
void cputime_fini(void);
void cputime_forget(void);
/* The accounting is switched on: runs that began while it was off count from here on. */
void cputime_on(void);
/* ns of the present run of a G that began at ran_from (of its M; 0: not known), as far as it is
 * accounted. */
int64_t cputime_present(uint64_t ran_from);
/* The running time of gp in ns, without its present run.  False if it is not known. */
bool cputime_of(const struct g *gp, uint64_t *ns);
/* ns for a number of cpu_ticks. */
double ns_per_tick(void);

#endif
