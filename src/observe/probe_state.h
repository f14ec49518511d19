/* SPDX-License-Identifier: MIT */
/* Probe state: what observers keep in G, M and P (probe.h). */
#ifndef GMP_PROBE_STATE_H
#define GMP_PROBE_STATE_H

#include "gmp.h"
#include "runq_state.h"

/* Written by the owner alone, read by any thread. */
struct counters {
	uint64_t spawns, exits, binds, unbinds, switches, steals, stolen, overflows, wakeups, parks,
		spins, timers_fired, blocks, ran;
};

/* Counters of a run that belong to no P. */
struct totals {
	uint64_t polls, poll_events;
	uint64_t external_spawns; /* by external threads */
	uint64_t external_exits;  /* ends of Gs that no P counts */
	uint64_t handoffs;        /* how often a P was taken from blocking code */
	uint64_t preemptions;     /* how often a P was taken by preemption */
	uint64_t unannounced;     /* of these, from a thread that slept in the kernel */
	uint64_t refused;         /* how often a P was kept for want of an OS thread */
	uint64_t preempted_ns;    /* how long Gs ran without a P after preemption */
	uint64_t ran_without_p;   /* cpu_ticks of Gs without a P: observe/tracing.h */
	uint64_t timers_skipped;  /* periods of timers without a run: USERTIMER-5 */
};

/* Longest times of a run, ns; run and queued are sysmon's: observe/latency.h. */
struct longest {
	int64_t run, queued;
	uint64_t told[GMP_LATENCY_CAUSES + 1]; /* that gmp_stats_get has returned */
};

enum { LATENCY_BUCKETS = 168 }; /* up to 2^43 cpu_ticks, about an hour */

struct latency {
	uint64_t samples;             /* (a) measurements */
	uint64_t max;                 /* (a) cpu_ticks */
	uint64_t in[LATENCY_BUCKETS]; /* (a) by octave and quarter: the sum of the weights */
};

/* sysmon's record of the run that a P is in. */
struct watched_run {
	uint64_t steps;        /* (a) what run_steps was */
	int64_t since;         /* (a) when sysmon first saw that; NEVER: nothing runs */
	int64_t queued_since;  /* (o) sysmon's: since when a queue has the same first G */
	uint64_t heads[LANES]; /* (o) sysmon's: of a lane, if a G was queued; otherwise NO_HEAD */
	const void *next;      /* (o) sysmon's: runnext */
};

/* What an M runs: observe/tracing.h. */
struct traced {
	uint64_t left_id;  /* (o) the G that left its stack last, for trace events on g0 */
	uint64_t ran_from; /* (a) cpu_ticks when its G began to run; 0: unknown */
};

/* An M that the CPU profile may sample: observe/cpusample.h.  Guarded by its lock. */
struct sampled {
	struct m *next, **at; /* all Ms whose OS threads run; at: what points to it */
	int tid;
	int timer; /* -1: none */
};

#endif
