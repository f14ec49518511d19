/* SPDX-License-Identifier: MIT */
/*
 * JSON layout of the summary, for scripts: docs/api/tracing.md has the fields. Times are in ns.
 */
#include <inttypes.h>

#include "summary.h"

static void put_number(FILE *out, const char *before, const char *name, uint64_t value)
{
	fprintf(out, "%s\"%s\":%" PRIu64, before, name, value);
}

static void put_text(FILE *out, const char *before, const char *name, const char *text)
{
	fprintf(out, "%s\"%s\":", before, name);
	put_json_string(out, text);
}

/* Begins an array of objects, one a line, or the next object of it. */
static void put_item(FILE *out, size_t i)
{
	fputs(i > 0 ? ",\n  " : "\n  ", out);
}

static void put_entry(struct summary *s, FILE *out, const struct entry_figures *f)
{
	const char *before = "";

	put_text(out, "{", "entry", f->entry->name);
	put_number(out, ",", "address", f->entry->address);
	put_number(out, ",", "greens", f->greens);
	for (unsigned i = STATE_RUNNABLE; i < STATE_DEAD; i++) {
		fprintf(out, ",\"%s_ns\":%" PRId64, state_names[i], f->ns[i]);
	}
	fputs(",\"waits\":[", out);
	for (unsigned i = 0; i < LABEL_CODES; i++) {
		if (f->waits[i] == 0)
			continue;
		fputs(before, out);
		put_text(out, "{", "reason", s->model.reasons[i]);
		put_number(out, ",", "count", f->waits[i]);
		put_number(out, ",", "ns", (uint64_t)f->wait[i]);
		fputs("}", out);
		before = ",";
	}
	fputs("]}", out);
}

static void put_entries(struct summary *s, FILE *out)
{
	size_t n = 0;

	fputs(",\n \"entries\":[", out);
	for (size_t i = 0; i < s->entry_count; i++) {
		if (s->entries[i]->greens == 0)
			continue;
		put_item(out, n++);
		put_entry(s, out, s->entries[i]);
	}
	fputs("]", out);
}

static void put_wakers(struct summary *s, FILE *out)
{
	fputs(",\n \"wakeups\":[", out);
	for (size_t i = 0; i < s->waker_count; i++) {
		const struct waker *w = s->wakers[i];

		put_item(out, i);
		put_text(out, "{", w->by ? "by" : "by_cause", w->by ? w->by->name : w->source);
		put_text(out, ",", "woken", w->woken->name);
		put_number(out, ",", "count", w->count);
		fputs("}", out);
	}
	fputs("]", out);
}

static void put_mutexes(struct summary *s, FILE *out)
{
	fputs(",\n \"locks\":[", out);
	for (size_t i = 0; i < s->mutex_count; i++) {
		const struct mutex_figures *m = s->mutexes[i];
		const char *before = "";

		put_item(out, i);
		put_number(out, "{", "object", m->object);
		put_text(out, ",", "reason", s->model.reasons[m->reason]);
		put_number(out, ",", "waits", m->waits);
		put_number(out, ",", "ns", (uint64_t)m->ns);
		put_number(out, ",", "longest_ns", (uint64_t)m->longest);
		fputs(",\"holders\":[", out);
		for (const struct holder *h = m->holders; h != NULL; h = h->next) {
			fprintf(out, "%s{\"entry\":", before);
			if (h->entry != NULL)
				put_json_string(out, h->entry->name);
			else
				fputs("null", out);
			put_number(out, ",", "waits", h->waits);
			put_number(out, ",", "ns", (uint64_t)h->ns);
			fputs("}", out);
			before = ",";
		}
		fputs("]}", out);
	}
	fputs("]", out);
	put_number(out, ",\n \"locks_unnamed\":{", "waits", s->unnamed.waits);
	put_number(out, ",", "ns", (uint64_t)s->unnamed.ns);
	put_number(out, ",", "longest_ns", (uint64_t)s->unnamed.longest);
	fputs("}", out);
}

static void put_latencies(struct summary *s, FILE *out)
{
	fputs(",\n \"latency\":[", out);
	for (size_t i = 0; i < s->latency_count; i++) {
		const struct latency_figures *l = &s->latencies[i];

		put_item(out, i);
		put_text(out, "{", "cause", s->model.causes[l->cause]);
		put_text(out, ",", "queue", s->model.queues[l->queue]);
		put_number(out, ",", "samples", l->times->samples);
		put_number(out, ",", "p50_ns", (uint64_t)quantile(l->times, 50));
		put_number(out, ",", "p90_ns", (uint64_t)quantile(l->times, 90));
		put_number(out, ",", "p99_ns", (uint64_t)quantile(l->times, 99));
		put_number(out, ",", "max_ns", (uint64_t)l->times->max);
		fputs("}", out);
	}
	fputs("]", out);
}

static void put_counts(struct summary *s, FILE *out)
{
	const uint64_t *counts = s->model.counts;

	fputs(",\n \"counts\":", out);
	put_number(out, "{", "steals", s->steals);
	put_number(out, ",", "stolen", s->stolen);
	put_number(out, ",", "handoffs", counts[EVENT_HANDOFF]);
	put_number(out, ",", "preemptions", counts[EVENT_PREEMPT]);
	put_number(out, ",", "overflows", s->overflows);
	put_number(out, ",", "overflowed", s->overflowed);
	put_number(out, ",", "polls", s->polls);
	put_number(out, ",", "poll_events", s->poll_events);
	put_number(out, ",", "timer_batches", s->timers);
	put_number(out, ",", "timers", s->timers_fired);
	fputs("}", out);
}

static void put_procs(struct summary *s, FILE *out)
{
	fputs(",\n \"ps\":[", out);
	for (size_t i = 0; i < s->proc_count; i++) {
		const struct proc_figures *p = s->procs[i];

		put_item(out, i);
		put_number(out, "{", "id", p->number);
		put_number(out, ",", "running_ns", (uint64_t)p->running);
		put_number(out, ",", "blocking_ns", (uint64_t)p->blocking);
		put_number(out, ",", "held_ns", (uint64_t)p->held);
		fputs("}", out);
	}
	fputs("]", out);
}

static void put_regions(struct summary *s, FILE *out)
{
	fputs(",\n \"regions\":[", out);
	for (size_t i = 0; i < s->region_count; i++) {
		const struct region_figures *r = &s->regions[i];

		put_item(out, i);
		fputs("{\"name\":", out);
		put_json_text(out, r->name->at, r->name->length);
		put_number(out, ",", "count", r->count);
		put_number(out, ",", "ns", (uint64_t)r->ns);
		put_number(out, ",", "longest_ns", (uint64_t)r->longest);
		fputs("}", out);
	}
	fputs("]", out);
}

static void put_runs(struct summary *s, FILE *out)
{
	fputs(",\n \"longest_runs\":[", out);
	for (size_t i = 0; i < s->run_count; i++) {
		const struct run_figures *r = &s->runs[i];

		put_item(out, i);
		put_number(out, "{", "g", r->g);
		put_text(out, ",", "name", r->name);
		put_text(out, ",", "entry", r->entry->name);
		put_number(out, ",", "begin_ns", (uint64_t)r->begin);
		put_number(out, ",", "ns", (uint64_t)r->ns);
		fputs("}", out);
	}
	fputs("]", out);
}

void summary_as_json(struct summary *s, FILE *out)
{
	const struct trace *t = s->model.trace;

	put_number(out, "{", "pid", t->pid);
	put_number(out, ",", "length_ns", (uint64_t)s->model.now);
	put_number(out, ",", "events", t->events);
	put_number(out, ",", "lost", t->warnings.count[WARN_LOST]);
	fprintf(out, ",\"complete\":%s", trace_is_complete(t) ? "true" : "false");
	fprintf(out, ",\"damaged\":%s", is_damaged(&t->warnings) ? "true" : "false");
	put_entries(s, out);
	put_wakers(s, out);
	put_mutexes(s, out);
	put_latencies(s, out);
	put_counts(s, out);
	put_procs(s, out);
	put_regions(s, out);
	put_runs(s, out);
	fputs("}\n", out);
}
