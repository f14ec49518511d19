/* SPDX-License-Identifier: MIT */
/*
 * Model of the traced program: follows Gs, threads and Ps through the events of a trace.
 *
 * The model turns events into spans (a G was in one state from begin to end) and slices (a thread
 * or P had one G), and hands them to a sink. All times are ns since the start of the trace and
 * never decrease.
 *
 * Damage and differences between the counters of CPUs: a G that the model does not know is in
 * STATE_UNKNOWN, for which there are no spans, until an event says what it does. If a G becomes
 * runnable less than EARLY_NS before it parks, it has waited for 0 ns. A G that has ended is kept
 * for GRAVE_NS, so that late events do not bring it back.
 *
 * Holders of locks: while an unlock has handed a lock to a G that has not run yet, the runtime does
 * not know the holder, and PARK has none. The model knows it from the READY of that G.
 */
#ifndef TOOLS_TRACE_MODEL_H
#define TOOLS_TRACE_MODEL_H

#include "reader.h"

enum { EARLY_NS = 2000, GRAVE_NS = 10000, MOST_P = 65535, MOST_REGIONS = 1000 };

enum state {
	STATE_UNKNOWN,
	STATE_RUNNABLE,
	STATE_RUNNING,
	STATE_WAITING,
	STATE_BLOCKING,
	STATE_DEAD,
	STATES
};

extern const char *const state_names[STATES];

/* Entry function of Gs. Index 0 is that of Gs whose start is not in the trace. */
struct entry {
	uint64_t address;
	uint32_t index;
	const char *name;
	char buf[24]; /* the address, if no symbol names it */
};

/* Causes and queues of a runnable G that no label names, because they follow from the event. */
enum { CAUSE_SPAWN = 16, CAUSE_YIELD, CAUSE_LOSE_P, CAUSE_UNKNOWN, CAUSES };
enum { QUEUE_NONE = 16, QUEUES };

/* Why and by what a G became runnable. */
struct wake {
	int64_t time;
	uint64_t by; /* G, or 0 */
	struct entry *by_entry;
	uint64_t by_track; /* struct green.track of the waker; 0: thread */
	uint32_t thread;
	uint8_t cause, queue;
	bool is_wakeup; /* by READY or SPAWN; not after a yield */
};

struct region {
	const struct text *name;
	int64_t begin;
};

struct regions {
	struct region *at;
	size_t count, capacity;
	uint64_t ignored; /* nested too deeply */
};

struct green {
	uint64_t id, track; /* track: 1, 2, ... in the order of appearance */
	struct entry *entry;
	char *name; /* or NULL */
	enum state state;
	int64_t since;
	struct thread *thread; /* if it runs or blocks */
	struct proc *p;        /* the same, if it has a P */
	uint8_t reason;
	uint64_t object, holder;
	struct entry *holder_entry;
	struct wake wake, early;
	struct regions regions;
	int64_t drawn; /* for sinks: up to here the state is written */
	bool is_guess; /* the state is that of the snapshot at the start, which may be late */
	bool has_flow; /* for sinks: the next run ends an arrow from `wake` */
	struct green *next_dead;
};

enum doing { DOING_OTHER, DOING_RUN, DOING_BLOCK, DOING_SLEEP, DOING_POLL };

struct thread {
	uint32_t number;
	struct thread_name name;
	bool is_m; /* the name says so, or what it does */
	enum doing doing;
	int64_t since, latest, drawn;
	struct green *g;
	struct proc *p; /* that it holds, or NULL */
	struct regions regions;
};

struct proc {
	uint32_t number;
	struct green *g;
	struct thread *holder; /* or NULL */
	bool is_blocking;
	int64_t since, held_since, held;
};

struct span {
	struct green *g;
	enum state state;
	int64_t begin, end;
	bool is_open; /* the trace ends before the state */
};

struct sink {
	void *user;
	/* A state of a G ends. Of g->wake: what ended a wait, or why it was runnable. */
	void (*span)(void *user, const struct span *s);
	/* A P stops running p->g, which it has run since p->since. */
	void (*proc)(void *user, const struct proc *p, int64_t end);
	/* A thread stops doing t->doing. */
	void (*thread)(void *user, const struct thread *t, int64_t end);
	/* A region of g, or of t if g is NULL, begins or ends. */
	void (*region)(void *user, struct green *g, struct thread *t, const struct region *r,
		       bool ends, int64_t now);
	/* A G became runnable: g->wake. */
	void (*wake)(void *user, struct green *g);
	/* An event, after the model has followed it. */
	void (*event)(void *user, const struct event *e, struct thread *t, struct green *g);
	/* A G has ended, or the trace has. */
	void (*gone)(void *user, struct green *g);
};

struct model {
	struct trace *trace;
	const struct sink *sink;
	int64_t now;
	uint64_t counts[EVENT_TYPES];
	struct map greens, threads, procs, entries;
	struct map handovers;       /* object -> struct handover * */
	bool is_owned[LABEL_CODES]; /* the reason is a lock that one G owns */
	struct entry **all_entries;
	size_t entry_count, entry_capacity;
	struct texts texts; /* names of regions */
	uint64_t tracks;
	struct green *first_dead, *last_dead;
	const char *causes[CAUSES], *queues[QUEUES], *reasons[LABEL_CODES];
	char label_buf[CAUSES + QUEUES + LABEL_CODES][32];
	uint8_t cause_of[CAUSES]; /* the label's code for causes that follow from an event */
	uint8_t yield_queue;      /* the code of the queue of Gs that have yielded */
	enum state states[LABEL_CODES];
};

/* Reads all events of t, and hands what they mean to the sink. The caller frees the model. */
void model_run(struct model *m, struct trace *t, const struct sink *sink);
void model_free(struct model *m);

struct entry *model_entry(struct model *m, uint64_t address);
struct green *model_green(struct model *m, uint64_t id);

/* Name of a G: its own, or its entry function. */
const char *green_name(const struct green *g);

#endif
