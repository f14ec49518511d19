/* SPDX-License-Identifier: MIT */
/* What do the counters say, summed up?  They are written where things happen, without a locked
 * instruction, and only read here. */
#include <errno.h>
#include <string.h>

#include "base/os.h"
#include "gmp.h"
#include "netpoll.h"
#include "proc.h"
#include "runq.h"
#include "timer.h"

/* The upper bound of a bucket, in cpu_ticks; the reverse of latency_bucket. */
static uint64_t bucket_bound(unsigned bucket)
{
	unsigned octave = bucket / 4 + 1;

	return bucket < 4 ? bucket : (((uint64_t)bucket % 4 + 5) << (octave - 2)) - 1;
}

static double ns_per_tick(void)
{
	uint64_t ticks = cpu_ticks() - sched.start_ticks;

	return ticks ? (double)(os_now() - sched.start_now) / (double)ticks : 0;
}

struct sums {
	uint64_t latency[LATENCY_BUCKETS];
	uint64_t queued, unbinds;
};

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
	sum->queued += runq_len(pp) + (ld_rlx(&pp->runnext) != NULL);
	for (int i = 0; i < LATENCY_BUCKETS; i++)
		sum->latency[i] += ld_rlx(&pp->latency[i]);
}

static uint64_t quantile(const struct sums *sum, uint64_t total, double q, double scale)
{
	uint64_t seen = 0;

	for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
		seen += sum->latency[i];
		if (seen && (double)seen >= q * (double)total)
			return (uint64_t)((double)bucket_bound(i) * scale);
	}
	return 0;
}

static void set_latency(gmp_stats *s, const struct sums *sum)
{
	double scale = ns_per_tick();

	for (unsigned i = 0; i < LATENCY_BUCKETS; i++)
		s->latency_samples += sum->latency[i];
	s->latency_p50 = quantile(sum, s->latency_samples, 0.5, scale);
	s->latency_p90 = quantile(sum, s->latency_samples, 0.9, scale);
	s->latency_p99 = quantile(sum, s->latency_samples, 0.99, scale);
	s->latency_max = quantile(sum, s->latency_samples, 1, scale);
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0; /* read at different times, a difference may be negative */
}

static void set_levels(gmp_stats *s, const struct sums *sum)
{
	struct stack_counts stacks = stack_counts();

	s->greens = less(s->spawns, s->exits);
	s->greens_runnable = sum->queued + ld_rlx(&sched.gqn);
	s->greens_running = less((uint64_t)ld_rlx(&sched.procs), (uint64_t)ld_rlx(&sched.npidle));
	s->greens_running = min_of(s->greens_running, less(s->greens, s->greens_runnable));
	s->greens_blocked = (uint64_t)max_of(ld_rlx(&sched.nblocked), 0);
	s->greens_waiting =
		less(s->greens, s->greens_runnable + s->greens_running + s->greens_blocked);
	s->handoffs = ld_rlx(&sched.handoffs);
	s->procs_spare = (uint64_t)ld_rlx(&sched.nspare);
	s->spares = ld_rlx(&sched.spares);
	s->threads = (uint64_t)ld_rlx(&sched.nm);
	s->threads_idle = (uint64_t)ld_rlx(&sched.nmidle);
	s->procs = (uint64_t)ld_rlx(&sched.procs);
	s->procs_idle = (uint64_t)ld_rlx(&sched.npidle);
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
	s.spawns += ld_rlx(&sched.foreign_spawns);
	s.exits += ld_rlx(&sched.thread_exits);
	s.polls = ld_rlx(&sched.polls);
	s.poll_events = ld_rlx(&sched.poll_events);
	set_levels(&s, &sum);
	set_latency(&s, &sum);
	rt_leave();
	s.size = out->size;
	memcpy(out, &s, min_of(out->size, sizeof(s)));
	return 0;
}
