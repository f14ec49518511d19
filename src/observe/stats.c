/* SPDX-License-Identifier: MIT */
/* gmp_stats_get: sums the counters of all Ps. Each P writes its own counters without a locked
 * instruction; this file only reads them. Scheduling latency: observe/latency.h. */
#include <errno.h>
#include <string.h>

#include "base/os.h"
#include "enter.h"
#include "gmp.h"
#include "netpoll/netpoll.h"
#include "observe/latency.h"
#include "observe/tracing.h"
#include "proc.h"
#include "runq.h"
#include "timer/timerheap.h"
#include "variant/abandon.h"

struct sums {
	uint64_t queued, unbinds, ran;
};

static void add_latency(struct latency *sum, const struct latency *l)
{
	sum->samples += ld_rlx(&l->samples);
	sum->max = max_of(sum->max, ld_rlx(&l->max));
	for (int i = 0; i < LATENCY_BUCKETS; i++)
		sum->in[i] += ld_rlx(&l->in[i]);
}

static void add_p(struct p *pp, gmp_stats *s, struct sums *sum)
{
	const struct counters *c = &pp->count;

	s->spawns += ld_rlx(&c->spawns);
	s->exits += ld_rlx(&c->exits);
	s->switches += ld_rlx(&c->switches);
	s->steals += ld_rlx(&c->steals);
	s->stolen += ld_rlx(&c->stolen);
	s->overflows += ld_rlx(&c->overflows);
	s->wakeups += ld_rlx(&c->wakeups);
	s->parks += ld_rlx(&c->parks);
	s->spins += ld_rlx(&c->spins);
	s->timers_fired += ld_rlx(&c->timers_fired);
	s->timers += timers_count(pp);
	s->stacks_used += ld_rlx(&c->binds);
	sum->unbinds += ld_rlx(&c->unbinds);
	sum->ran += ld_rlx(&c->ran);
	sum->queued += runq_len(pp);
	if (ld_rlx(&pp->runnext))
		sum->queued++;
	latency_note_running(pp, os_now());
}

/* Return quantile q of the samples, in cpu_ticks; total: the sum of all buckets. */
static uint64_t quantile(const struct latency *l, uint64_t total, double q)
{
	uint64_t seen = 0;

	for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
		seen += l->in[i];
		if (seen && (double)seen >= q * (double)total)
			return min_of(latency_bound(i), l->max);
	}
	return 0;
}

static gmp_latency latency_in_ns(const struct latency *l, double scale)
{
	uint64_t total = 0;

	for (unsigned i = 0; i < LATENCY_BUCKETS; i++)
		total += l->in[i];
	return (gmp_latency){
		.samples = l->samples,
		.p50 = (uint64_t)((double)quantile(l, total, 0.5) * scale),
		.p90 = (uint64_t)((double)quantile(l, total, 0.9) * scale),
		.p99 = (uint64_t)((double)quantile(l, total, 0.99) * scale),
		.max = (uint64_t)((double)l->max * scale),
	};
}

/* Return ns, or the longest that an earlier call returned: ns of the same ticks differ a little,
 * since the length of a tick is measured at each call. */
static uint64_t longest_told(uint64_t *told, uint64_t ns)
{
	raise_rlx(told, ns);
	return ld_rlx(told);
}

/* n: Ps.  One cause after the other: the histograms of all take 8 KiB, and the caller's stack may
 * have 16. */
static void set_latency(gmp_stats *s, int n)
{
	double scale = ns_per_tick();
	struct latency total = { 0 };
	uint64_t longest = (uint64_t)ld_rlx(&sched.longest.queued);

	for (int cause = 0; cause < GMP_LATENCY_CAUSES; cause++) {
		struct latency l = { 0 };

		for (int i = 0; i < n; i++)
			add_latency(&l, &sched.allp[i]->latency[cause]);
		s->latency[cause] = latency_in_ns(&l, scale);
		s->latency[cause].max =
			longest_told(&sched.longest.told[cause], s->latency[cause].max);
		longest = max_of(longest, s->latency[cause].max);
		add_latency(&total, &l);
	}
	gmp_latency all = latency_in_ns(&total, scale);

	s->latency_samples = all.samples;
	s->latency_p50 = all.p50;
	s->latency_p90 = all.p90;
	s->latency_p99 = all.p99;
	s->latency_max = longest_told(&sched.longest.told[GMP_LATENCY_CAUSES], longest);
	s->longest_run = (uint64_t)ld_rlx(&sched.longest.run);
}

/* Return a - b, at least 0: the counters are read at different times. */
static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static void set_levels(gmp_stats *s, const struct sums *sum)
{
	struct stack_counts stacks = stack_counts();

	/* a G that loses its P, or yields without one, is in one of these counts at any time */
	lock(&sched.lock, LR_SCHED);
	s->greens_runnable = sum->queued + sched.gqn;
	s->procs = (uint64_t)sched.procs;
	s->procs_idle = (uint64_t)sched.npidle;
	s->greens_blocked = (uint64_t)sched.nblocked;
	s->preempted = (uint64_t)sched.npreempted;
	unlock(&sched.lock, LR_SCHED);
	s->greens = less(s->spawns, s->exits);
	s->greens_running = less(s->procs, s->procs_idle);
	s->greens_running = min_of(s->greens_running, less(s->greens, s->greens_runnable));
	s->greens_waiting =
		less(s->greens, s->greens_runnable + s->greens_running + s->greens_blocked);
	s->handoffs = ld_rlx(&sched.total.handoffs);
	s->preemptions = ld_rlx(&sched.total.preemptions);
	s->preempted_ns = ld_rlx(&sched.total.preempted_ns);
	s->unannounced = ld_rlx(&sched.total.unannounced);
	s->preempt_refused = ld_rlx(&sched.total.refused);
	s->timers_skipped = ld_rlx(&sched.total.timers_skipped);
	s->abandoned = abandoned_threads();
	s->threads = (uint64_t)(ld_rlx(&sched.nm) - ld_rlx(&sched.nresting));
	s->threads_idle = (uint64_t)ld_rlx(&sched.nmidle);
	s->descriptors = netpoll_count();
	s->stacks_used = less(s->stacks_used, sum->unbinds);
	s->stacks_cached = less(stacks.made, s->stacks_used);
	s->stacks_unguarded = stacks.unguarded;
	s->stack_bytes =
		(less(s->stacks_used, stacks.special) << sched.stack_class) + stacks.special_bytes;
	s->trimmed_bytes = stacks.trimmed_bytes;
}

int gmp_stats_get(gmp_stats *out)
{
	gmp_stats s = GMP_STATS_INIT;
	struct sums sum = { 0 };

	if (!out || out->size == 0)
		return -EINVAL;
	if (!rt_enter())
		return -ESRCH;
	int n = ld_acq(&sched.nallp); /* ORD(allp) */

	for (int i = 0; i < n; i++)
		add_p(sched.allp[i], &s, &sum);
	s.spawns += ld_rlx(&sched.total.external_spawns);
	s.exits += ld_rlx(&sched.total.external_exits);
	s.polls = ld_rlx(&sched.total.polls);
	s.poll_events = ld_rlx(&sched.total.poll_events);
	s.cpu_ns =
		(uint64_t)((double)(sum.ran + ld_rlx(&sched.total.ran_without_p)) * ns_per_tick());
	set_levels(&s, &sum);
	set_latency(&s, n);
	rt_leave();
	s.size = out->size;
	memcpy(out, &s, min_of(out->size, sizeof(s)));
	return 0;
}
