/* SPDX-License-Identifier: MIT */
/*
 * A sample: the figures of one answer to GET /debug/vars.
 *
 * A figure that is missing, negative or not an integer is UNKNOWN; a text that is missing is "".
 * All texts are clean (TEXT-1).
 */
#ifndef TOP_SAMPLE_H
#define TOP_SAMPLE_H

#include "text.h"

#include <stdbool.h>

#define PS_MOST 1024
#define GREENS_MOST 100 /* of a table; a server sends 20 */
#define NAME_SIZE 200

/* The fields of gmp_stats that are shown. */
#define STATS(X)                                                                                   \
	X(greens)                                                                                  \
	X(greens_running)                                                                          \
	X(greens_runnable)                                                                         \
	X(greens_waiting)                                                                          \
	X(greens_blocked)                                                                          \
	X(preempted)                                                                               \
	X(threads)                                                                                 \
	X(threads_idle)                                                                            \
	X(procs_idle)                                                                              \
	X(timers)                                                                                  \
	X(descriptors)                                                                             \
	X(stack_bytes)                                                                             \
	X(longest_run)                                                                             \
	X(switches)                                                                                \
	X(spawns)                                                                                  \
	X(exits)                                                                                   \
	X(wakeups)                                                                                 \
	X(steals)                                                                                  \
	X(handoffs)                                                                                \
	X(preemptions)                                                                             \
	X(polls)                                                                                   \
	X(poll_events)                                                                             \
	X(timers_fired)

enum stat {
#define X(name) STAT_##name,
	STATS(X)
#undef X
		STAT_COUNT
};

/* The causes of scheduling latency, in the order in which they are shown. */
#define CAUSES(X) X(spawn) X(yield) X(timer) X(descriptor) X(blocking) X(wake)

enum cause {
#define X(name) CAUSE_##name,
	CAUSES(X)
#undef X
		CAUSE_COUNT
};

struct latency {
	int64_t samples, p50, p99, max;
};

struct proc {
	char status[16];
	int64_t id, runnext, ring, yielded, timers, switches;
};

struct green {
	char name[NAME_SIZE], entry[NAME_SIZE], state[32], wait[64];
	int64_t id, cpu_ns, wait_ns;
};

struct greens {
	int count;
	struct green at[GREENS_MOST];
};

struct sample {
	char version[32];
	int64_t pid, run, time_ns, start_ns, procs;
	bool cputime; /* CPU time per green thread is measured */
	int64_t stat[STAT_COUNT];
	struct latency latency[CAUSE_COUNT];
	int ps_count;
	struct proc ps[PS_MOST];
	int64_t global_events, global_yielded, alive;
	struct greens by_cpu, by_wait;
};

extern const char *const cause_names[CAUSE_COUNT];

/*
 * Parse JSON text of n bytes. Returns false with a clean message in error, of size bytes, if it is
 * no answer to /debug/vars.
 */
bool sample_parse(struct sample *s, const char *json, size_t n, char *error, size_t size);

/* Events per second of a figure that only grows; UNKNOWN if both samples are not of one run. */
int64_t sample_rate(const struct sample *now, const struct sample *before, int64_t value,
		    int64_t value_before);

/* Both samples are of one run, and time has passed between them. */
bool sample_follows(const struct sample *now, const struct sample *before);

/* CPU time of the green thread since `before`, in 1/1000 of that time, or UNKNOWN. */
int64_t sample_cpu_permille(const struct sample *now, const struct sample *before,
			    const struct green *g);

#endif
