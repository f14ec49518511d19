/* SPDX-License-Identifier: MIT */
/* Probe state: what observers keep in G, M and P (probe.h). */
#ifndef GMP_PROBE_STATE_H
#define GMP_PROBE_STATE_H

#include "base/base.h"

/* Written by the owner alone, read by any thread. */
struct counters {
	uint64_t spawns, exits, binds, unbinds, switches, steals, stolen, overflows, wakeups, parks,
		spins, timers_fired, blocks, ran;
};

enum { LATENCY_BUCKETS = 168 }; /* up to 2^43 cpu_ticks, about an hour */

struct latency {
	uint64_t samples;             /* (a) measurements */
	uint64_t max;                 /* (a) cpu_ticks */
	uint64_t in[LATENCY_BUCKETS]; /* (a) by octave and quarter: the sum of the weights */
};

/* sysmon's record of the run that a P is in. */
struct watched_run {
	uint64_t steps;       /* (a) what run_steps was */
	int64_t since;        /* (a) when sysmon first saw that; NEVER: nothing runs */
	int64_t queued_since; /* (o) sysmon's: since when a queue has the same first G */
	uint64_t heads[2]; /* (o) sysmon's: of both rings, if a G was queued; otherwise NO_HEAD */
	const void *next;  /* (o) sysmon's: runnext */
};

/* An M that the CPU profile may sample: observe/cpusample.h.  Guarded by its lock. */
struct sampled {
	struct m *next, **at; /* all Ms whose OS threads run; at: what points to it */
	int tid;
	int timer; /* -1: none */
};

#endif
