/* SPDX-License-Identifier: MIT */
/*
 * Output "json": the Chrome trace event format, which Perfetto and chrome://tracing open.
 *
 * Events are written as the model finds them, so memory does not grow with the trace. A slice (X)
 * is written when it ends; the viewers sort by time. Numbers of tracks are unique in the file.
 *
 *   JSON-1  Slices of a track nest: a region is outside of the states of its G, so the state is cut
 *           in two where a region begins or ends.
 *   JSON-2  Arrows are written in pairs, after the run that the arrow leads to; an arrow whose G
 *           never runs is not written. Its beginning lies in a slice of the waker's track, or of
 *           the thread's if the waker is no known G.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"

enum { PID_P = 1, PID_THREAD, PID_GREEN };
enum { TID_P = 1, TID_THREAD = 100000, TID_GREEN = 1000000 };

struct json {
	FILE *out;
	struct model model;
	bool has_event;
	uint64_t arrows;
	struct map named; /* numbers of tracks of Ps that have a name */
};

static uint64_t track_of_green(const struct green *g)
{
	return TID_GREEN + g->track;
}

static uint64_t track_of_thread(uint32_t number)
{
	return (uint64_t)TID_THREAD + number;
}

/* Writes {"ph":"X","pid":1,"tid":2,"ts":3.000 ; the caller writes the rest. */
static void begin_event(struct json *j, char phase, unsigned pid, uint64_t tid, int64_t ns)
{
	fprintf(j->out, "%s{\"ph\":\"%c\",\"pid\":%u,\"tid\":%" PRIu64 ",\"ts\":%" PRId64 ".%03d",
		j->has_event ? ",\n" : "\n", phase, pid, tid, ns / 1000, (int)(ns % 1000));
	j->has_event = true;
}

static void begin_slice(struct json *j, unsigned pid, uint64_t tid, int64_t begin, int64_t end)
{
	int64_t ns = end - begin;

	begin_event(j, 'X', pid, tid, begin);
	fprintf(j->out, ",\"dur\":%" PRId64 ".%03d,\"name\":", ns / 1000, (int)(ns % 1000));
}

static void name_track(struct json *j, unsigned pid, uint64_t tid, const char *name)
{
	begin_event(j, 'M', pid, tid, 0);
	fputs(",\"name\":\"thread_name\",\"args\":{\"name\":", j->out);
	put_json_string(j->out, name);
	fputs("}}", j->out);
	begin_event(j, 'M', pid, tid, 0);
	fprintf(j->out, ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%" PRIu64 "}}",
		tid);
}

static void name_process(struct json *j, unsigned pid, const char *name)
{
	begin_event(j, 'M', pid, 0, 0);
	fputs(",\"name\":\"process_name\",\"args\":{\"name\":", j->out);
	put_json_string(j->out, name);
	fputs("}}", j->out);
	begin_event(j, 'M', pid, 0, 0);
	fprintf(j->out, ",\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%u}}", pid);
}

static void put_green(struct json *j, const struct green *g, const char *more)
{
	char name[300];

	snprintf(name, sizeof(name), "%.250s%s", green_name(g), more);
	put_json_string(j->out, name);
}

/* --- tracks of Gs --- */

static void put_arrow(struct json *j, struct green *g, int64_t run)
{
	const struct wake *w = &g->wake;
	const char *name = w->cause == j->model.cause_of[CAUSE_SPAWN] ? "spawn" : "wakeup";

	g->has_flow = false;
	j->arrows++;
	if (w->by_track != 0)
		begin_event(j, 's', PID_GREEN, TID_GREEN + w->by_track, w->time);
	else
		begin_event(j, 's', PID_THREAD, track_of_thread(w->thread), w->time);
	fprintf(j->out, ",\"cat\":\"%s\",\"name\":\"%s\",\"id\":%" PRIu64 "}", name, name,
		j->arrows);
	begin_event(j, 'f', PID_GREEN, track_of_green(g), run);
	fprintf(j->out, ",\"bp\":\"e\",\"cat\":\"%s\",\"name\":\"%s\",\"id\":%" PRIu64 "}", name,
		name, j->arrows);
}

static void put_wake_arguments(struct json *j, const struct wake *w)
{
	fputs(",\"args\":{\"cause\":", j->out);
	put_json_string(j->out, j->model.causes[w->cause]);
	fputs(",\"queue\":", j->out);
	put_json_string(j->out, j->model.queues[w->queue]);
	if (w->by != 0) {
		fprintf(j->out, ",\"by G\":%" PRIu64 ",\"by\":", w->by);
		put_json_string(j->out, w->by_entry->name);
	}
	fputs("}}", j->out);
}

static void put_wait_arguments(struct json *j, const struct green *g)
{
	fputs(",\"args\":{\"reason\":", j->out);
	put_json_string(j->out, j->model.reasons[g->reason]);
	fprintf(j->out, ",\"object\":\"0x%" PRIx64 "\"", g->object);
	if (g->holder != 0) {
		fprintf(j->out, ",\"holder G\":%" PRIu64 ",\"holder\":", g->holder);
		put_json_string(j->out, g->holder_entry->name);
	}
	fputs("}}", j->out);
}

/* Writes the state of g from where it was written last until `end`. */
static void draw_state(struct json *j, struct green *g, enum state state, int64_t end,
		       bool is_whole)
{
	int64_t begin = g->drawn;
	char name[300];

	g->drawn = end;
	if (state == STATE_UNKNOWN || state == STATE_DEAD)
		return;
	if (begin == end && (!is_whole || (state != STATE_RUNNING && state != STATE_BLOCKING)))
		return;
	begin_slice(j, PID_GREEN, track_of_green(g), begin, end);
	snprintf(name, sizeof(name), "%s%.250s",
		 state == STATE_WAITING ? "waiting on " : state_names[state],
		 state == STATE_WAITING ? j->model.reasons[g->reason] : "");
	put_json_string(j->out, name);
	fprintf(j->out, ",\"cat\":\"%s\"", state_names[state]);
	if (state == STATE_RUNNABLE)
		put_wake_arguments(j, &g->wake);
	else if (state == STATE_WAITING)
		put_wait_arguments(j, g);
	else if (g->thread != NULL)
		fprintf(j->out, ",\"args\":{\"thread\":%u}}", g->thread->number);
	else
		fputs("}", j->out);
	if (state == STATE_RUNNING && g->has_flow)
		put_arrow(j, g, begin);
}

static void on_span(void *user, const struct span *s)
{
	if (s->g->drawn < s->begin)
		s->g->drawn = s->begin;
	draw_state(user, s->g, s->state, s->end, s->begin == s->end);
}

static void on_gone(void *user, struct green *g)
{
	struct json *j = user;
	char name[300];

	snprintf(name, sizeof(name), "%.250s (G %" PRIu64 ")", green_name(g), g->id);
	name_track(j, PID_GREEN, track_of_green(g), name);
}

/* --- tracks of Ps and threads --- */

static void on_proc(void *user, const struct proc *p, int64_t end)
{
	struct json *j = user;
	char name[32];

	if (map_get(&j->named, p->number) == NULL) {
		map_put(&j->named, p->number, j);
		snprintf(name, sizeof(name), "P %u", p->number);
		name_track(j, PID_P, TID_P + (uint64_t)p->number, name);
	}
	begin_slice(j, PID_P, TID_P + (uint64_t)p->number, p->since, end);
	put_green(j, p->g, p->is_blocking ? " (blocking)" : "");
	fprintf(j->out, ",\"cat\":\"%s\",\"args\":{\"G\":%" PRIu64 "}}",
		p->is_blocking ? "blocking" : "running", p->g->id);
}

static const char *kind_of(struct json *j, const struct thread *t, char *buf)
{
	if (t->number == 0)
		return "trace writer";
	return trace_label(j->model.trace, LABEL_KIND, t->name.kind, buf);
}

/* Writes what a thread does, from where it was written last until `end`. */
static void draw_thread(struct json *j, const struct thread *t, int64_t begin, int64_t end)
{
	char buf[32];

	if (begin == end && t->doing != DOING_RUN && t->doing != DOING_OTHER)
		return;
	begin_slice(j, PID_THREAD, track_of_thread(t->number), begin, end);
	switch (t->doing) {
	case DOING_RUN: put_green(j, t->g, ""); break;
	case DOING_BLOCK: put_green(j, t->g, " (blocking)"); break;
	case DOING_SLEEP: put_json_string(j->out, "sleep"); break;
	case DOING_POLL: put_json_string(j->out, "sleep in poller"); break;
	default: put_json_string(j->out, t->is_m ? "scheduler" : kind_of(j, t, buf));
	}
	if (t->g != NULL)
		fprintf(j->out, ",\"args\":{\"G\":%" PRIu64 "}", t->g->id);
	fputs("}", j->out);
}

static void on_thread(void *user, const struct thread *t, int64_t end)
{
	draw_thread(user, t, t->drawn > t->since ? t->drawn : t->since, end);
}

static void name_thread(struct json *j, const struct thread *t)
{
	char name[200], buf[32];

	if (t->name.m != 0)
		snprintf(name, sizeof(name), "M %" PRIu64 " (tid %" PRIu64 ")", t->name.m,
			 t->name.tid);
	else if (t->is_m)
		snprintf(name, sizeof(name), "M (tid %" PRIu64 ")", t->name.tid);
	else
		snprintf(name, sizeof(name), "%.100s (tid %" PRIu64 ")", kind_of(j, t, buf),
			 t->name.tid);
	name_track(j, PID_THREAD, track_of_thread(t->number), name);
}

/* --- regions, instants, counters --- */

static void on_region(void *user, struct green *g, struct thread *t, const struct region *r,
		      bool ends, int64_t now)
{
	struct json *j = user;
	unsigned pid = g != NULL ? PID_GREEN : PID_THREAD;

	if (g != NULL) {
		draw_state(j, g, g->state, now, false);
	} else {
		on_thread(j, t, now);
		t->drawn = now;
	}
	begin_event(j, ends ? 'E' : 'B', pid,
		    g != NULL ? track_of_green(g) : track_of_thread(t->number), now);
	fputs(",\"cat\":\"region\",\"name\":", j->out);
	put_json_text(j->out, r->name->at, r->name->length);
	fputs("}", j->out);
}

static void put_log(struct json *j, const struct event *e, struct thread *t, struct green *g)
{
	const char *zero = memchr(e->text, '\0', e->text_length);
	size_t category = zero != NULL ? (size_t)(zero - e->text) : 0;
	size_t skip = zero != NULL ? category + 1 : 0;

	if (g != NULL && g->state != STATE_DEAD)
		begin_event(j, 'i', PID_GREEN, track_of_green(g), e->ns);
	else
		begin_event(j, 'i', PID_THREAD, track_of_thread(t->number), e->ns);
	fputs(",\"s\":\"t\",\"cat\":\"log\",\"name\":", j->out);
	put_json_text(j->out, e->text + skip, e->text_length - skip);
	fputs(",\"args\":{\"category\":", j->out);
	put_json_text(j->out, e->text, category);
	fputs("}}", j->out);
}

static void put_instant(struct json *j, const struct event *e)
{
	const struct event_kind *kind = &event_kinds[e->type];
	const char *names[] = { kind->a, kind->b, kind->c, kind->small };
	const uint64_t values[] = { e->a, e->b, e->c, e->small };
	const char *comma = "";

	begin_event(j, 'i', PID_THREAD, track_of_thread(e->thread), e->ns);
	fprintf(j->out, ",\"s\":\"t\",\"cat\":\"scheduler\",\"name\":\"%s\",\"args\":{",
		kind->name);
	for (unsigned i = 0; i < 4; i++) {
		if (names[i][0] == '\0')
			continue;
		fprintf(j->out, "%s\"%s\":%" PRIu64, comma, names[i], values[i]);
		comma = ",";
	}
	fputs("}}", j->out);
}

static void put_counter(struct json *j, const char *name, const char *a_name, uint64_t a,
			const char *b_name, uint64_t b, int64_t ns)
{
	begin_event(j, 'C', PID_P, 0, ns);
	fprintf(j->out, ",\"name\":\"%s\",\"args\":{\"%s\":%" PRIu64 ",\"%s\":%" PRIu64 "}}", name,
		a_name, a, b_name, b);
}

static void on_event(void *user, const struct event *e, struct thread *t, struct green *g)
{
	struct json *j = user;
	char name[48];

	switch (e->type) {
	case EVENT_STEAL:
	case EVENT_HANDOFF:
	case EVENT_PREEMPT:
	case EVENT_POLL:
	case EVENT_OVERFLOW:
	case EVENT_TIMER:
	case EVENT_PROCS:
	case EVENT_LOST: put_instant(j, e); break;
	case EVENT_LOG: put_log(j, e, t, g); break;
	case EVENT_P_STATE:
		snprintf(name, sizeof(name), "queue of P %" PRIu64, e->a);
		put_counter(j, name, "ring", e->b, "yielded", e->c, e->ns);
		break;
	case EVENT_QUEUES:
		put_counter(j, "global queue", "events", e->a, "yielded", e->b, e->ns);
		put_counter(j, "Ms", "spinning", e->small, "sleeping", e->c, e->ns);
		break;
	default: break;
	}
}

static void name_threads(struct json *j)
{
	struct map *threads = &j->model.threads;

	for (size_t i = 0; i < threads->size; i++)
		if (threads->slots[i].value != NULL)
			name_thread(j, threads->slots[i].value);
}

void write_json(struct trace *t, FILE *out)
{
	struct json *j = new_memory(1, sizeof(*j));
	const struct sink sink = { .user = j,
				   .span = on_span,
				   .gone = on_gone,
				   .proc = on_proc,
				   .thread = on_thread,
				   .region = on_region,
				   .event = on_event };

	j->out = out;
	fprintf(out,
		"{\"displayTimeUnit\":\"ns\",\"otherData\":{\"pid\":%" PRIu64
		",\"start_ns\":%" PRIu64 ",\"start_realtime_ns\":%" PRIu64 "},\"traceEvents\":[",
		t->pid, t->start_clock, t->start_real);
	name_process(j, PID_P, "Ps");
	name_process(j, PID_THREAD, "threads");
	name_process(j, PID_GREEN, "green threads");
	model_run(&j->model, t, &sink);
	name_threads(j);
	fputs("\n]}\n", out);
	map_free(&j->named);
	model_free(&j->model);
	free(j);
}
