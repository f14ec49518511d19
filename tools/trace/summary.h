/* SPDX-License-Identifier: MIT */
/*
 * Figures of the output "summary": collected from the model in one pass, then sorted and printed.
 */
#ifndef TOOLS_TRACE_SUMMARY_H
#define TOOLS_TRACE_SUMMARY_H

#include "output.h"

enum { LONGEST_RUNS = 10, BUCKET_BITS = 7, BUCKETS = (65 - BUCKET_BITS) << BUCKET_BITS };

/* Histogram of times: 128 buckets per power of two, so a quantile is at most 0.8 % too large. */
struct histogram {
	uint64_t count[BUCKETS], samples;
	int64_t max;
};

struct entry_figures {
	struct entry *entry;
	uint64_t greens;
	int64_t ns[STATES];
	int64_t wait[LABEL_CODES];
	uint64_t waits[LABEL_CODES];
};

/* How often Gs of one entry function, or a cause, woke those of another. */
struct waker {
	struct entry *by; /* NULL: no G */
	const char *source;
	struct entry *woken;
	uint64_t count;
};

struct holder {
	struct holder *next;
	struct entry *entry; /* NULL: unknown */
	uint64_t waits;
	int64_t ns;
};

struct mutex_figures {
	uint64_t object, waits;
	uint8_t reason;
	int64_t ns, longest;
	struct holder *holders; /* most time first, after sorting */
};

struct region_figures {
	const struct text *name;
	uint64_t count;
	int64_t ns, longest;
};

struct latency_figures {
	uint8_t cause, queue;
	struct histogram *times;
};

struct run_figures {
	uint64_t g;
	char *name;
	struct entry *entry;
	int64_t begin, ns;
};

struct proc_figures {
	uint32_t number;
	int64_t running, blocking, held;
};

struct summary {
	struct model model;
	bool is_mutex[LABEL_CODES]; /* the reason is that of a lock */
	struct entry_figures **entries;
	size_t entry_count, entry_capacity;
	struct map waker_map, mutex_map, proc_map;
	struct waker **wakers;
	size_t waker_count, waker_capacity;
	struct mutex_figures unnamed; /* waits for locks without an address, mostly of the start */
	struct mutex_figures **mutexes;
	size_t mutex_count, mutex_capacity;
	struct region_figures *regions; /* by index of the name */
	size_t region_count, region_capacity;
	struct proc_figures **procs;
	size_t proc_count, proc_capacity;
	struct histogram *latency[CAUSES][QUEUES];
	struct latency_figures latencies[CAUSES * QUEUES]; /* most samples first, after sorting */
	size_t latency_count;
	struct run_figures runs[LONGEST_RUNS];
	size_t run_count;
	uint64_t steals, stolen, overflows, overflowed, polls, poll_events, timers, timers_fired;
};

int64_t quantile(const struct histogram *h, unsigned percent);
void summary_as_text(struct summary *s, FILE *out);
void summary_as_json(struct summary *s, FILE *out);

#endif
