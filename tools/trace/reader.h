/* SPDX-License-Identifier: MIT */
/*
 * Reader of trace files: maps a file, indexes its blocks, and yields all events in order of time.
 *
 * Opening reads the file once: it checks each block, and collects what names the rest (labels,
 * symbols, threads, the Gs of the start) and the clock events. Then trace_next merges the threads
 * with one cursor each: memory grows with the number of blocks, not with that of events.
 * docs/trace-format.md has the format. Bytes are never trusted: damage costs the rest of a block,
 * and is counted in `warnings`. Times outside of the trace become that of its start or end.
 */
#ifndef TOOLS_TRACE_READER_H
#define TOOLS_TRACE_READER_H

#include "util.h"

enum event_type {
	EVENT_NONE,
#define EVENT(id, name, small, a, b, c, text, help) EVENT_##id,
#include "base/event.def"
#undef EVENT
	EVENT_TYPES
};

struct event_kind {
	const char *name, *small, *a, *b, *c, *help;
	bool has_text;
	uint8_t varints; /* number of arguments */
};

extern struct event_kind event_kinds[EVENT_TYPES];

struct event {
	uint8_t type, small;
	uint32_t thread; /* number in the file */
	uint32_t text_length;
	int64_t tick; /* since the start of the trace */
	int64_t ns;   /* the same */
	uint64_t a, b, c;
	const char *text; /* in the file; not terminated */
};

enum label_table { LABEL_REASON, LABEL_CAUSE, LABEL_QUEUE, LABEL_STATE, LABEL_KIND, LABEL_STATUS };
enum { LABEL_TABLES = 6, LABEL_CODES = 256 };

struct block {
	const uint8_t *at, *end; /* the events that can be read */
	int64_t tick;
};

/* Blocks of one thread, and the cursor of the merge. */
struct source {
	uint32_t thread;
	struct block *blocks;
	size_t count, capacity, next;
	const uint8_t *at, *end;
	int64_t tick, latest;
	struct event event; /* the next one */
};

struct clock_point {
	int64_t tick, ns;
};

/* What the file says of a thread. */
struct thread_name {
	uint64_t tid, m;
	uint8_t kind;
};

/* What the file says of a G that is alive soon after the start. */
struct green_name {
	uint64_t entry;
	char *name; /* or NULL */
};

struct trace {
	const uint8_t *data;
	size_t size;
	bool is_mapped;
	uint64_t start_ticks, start_clock, start_real, pid;
	struct map source_of; /* thread number -> index in sources + 1 */
	struct source *sources;
	size_t source_count, source_capacity;
	struct source **heap;
	size_t heap_count;
	struct clock_point *clock;
	size_t clock_count, clock_capacity, segment;
	int64_t last_ns;
	int64_t slack;     /* ticks of 1 ms: clocks of different CPUs differ by less */
	int64_t stop_tick; /* of the first stop event */
	char *labels[LABEL_TABLES][LABEL_CODES];
	struct map symbols; /* address -> char * */
	struct map threads; /* thread number -> struct thread_name * */
	struct map greens;  /* G -> struct green_name * */
	uint64_t events, lost, file_lost;
	uint64_t stop_count; /* events before the first stop event, as that says */
	bool has_stop;
	struct warnings warnings;
};

/*
 * Opens a file, or standard input if path is "-".
 * Returns NULL, or the reason why nothing can be read, in memory that the next call may use.
 */
const char *trace_open(struct trace *t, const char *path);

/* The same with a file in memory, which must stay until trace_close. */
const char *trace_open_memory(struct trace *t, const void *data, size_t size);

/* Fetches the next event in order of time. Returns false at the end. */
bool trace_next(struct trace *t, struct event *e);

void trace_close(struct trace *t);

/* Returns true if the file has all of the trace: call it after the last event. */
bool trace_is_complete(const struct trace *t);

/* Text of a code: its label, or "reason 7" in `buf`, which has 32 bytes. */
const char *trace_label(const struct trace *t, enum label_table table, unsigned code, char *buf);

#endif
