/* SPDX-License-Identifier: MIT */
/*
 * Text layout of the summary: sections with a headline and one line per item, columns by spaces.
 *
 * The layout is described in docs/api/tracing.md. Scripts use the JSON of `summary --json`.
 */
#include <inttypes.h>
#include <string.h>

#include "summary.h"

enum { MOST_LINES = 20, MOST_HOLDERS = 3 };

/* Milliseconds with three decimals, right-aligned. */
static void put_ms(FILE *out, int64_t ns)
{
	int64_t us = ns / 1000;

	fprintf(out, " %9" PRId64 ".%03d ms", us / 1000, (int)(us % 1000));
}

static void put_us(FILE *out, int64_t ns)
{
	fprintf(out, " %9" PRId64 ".%03d us", ns / 1000, (int)(ns % 1000));
}

static void put_share(FILE *out, int64_t part, int64_t whole)
{
	fprintf(out, " %5.1f %%", whole > 0 ? 100.0 * (double)part / (double)whole : 0.0);
}

static void put_name(FILE *out, const char *name)
{
	putc_unlocked(' ', out);
	put_plain_text(out, name, strlen(name));
}

static void put_rest(FILE *out, size_t count, const char *what)
{
	if (count > MOST_LINES)
		fprintf(out, "  ... and %zu more %s (summary --json has all)\n", count - MOST_LINES,
			what);
}

static size_t at_most(size_t count)
{
	return count < MOST_LINES ? count : MOST_LINES;
}

static void put_head(struct summary *s, FILE *out)
{
	const struct trace *t = s->model.trace;
	uint64_t lost = t->warnings.count[WARN_LOST];

	fprintf(out, "process %" PRIu64 "\nlength ", t->pid);
	put_ms(out, s->model.now);
	fprintf(out, "\nevents   %" PRIu64 "\nlost     %" PRIu64 "\n", t->events, lost);
	fprintf(out, "complete %s%s\n", trace_is_complete(t) ? "yes" : "no",
		is_damaged(&t->warnings) ? ": the file is damaged" : "");
}

static void put_entry(const struct summary *s, FILE *out, const struct entry_figures *f)
{
	int64_t all = 0;

	for (unsigned i = STATE_RUNNABLE; i < STATE_DEAD; i++)
		add_ns(&all, f->ns[i]);
	fprintf(out, " %7" PRIu64, f->greens);
	put_name(out, f->entry->name);
	putc_unlocked('\n', out);
	for (unsigned i = STATE_RUNNABLE; i < STATE_DEAD; i++) {
		if (f->ns[i] == 0)
			continue;
		fprintf(out, "        %-10s", state_names[i]);
		put_ms(out, f->ns[i]);
		put_share(out, f->ns[i], all);
		putc_unlocked('\n', out);
	}
	for (unsigned i = 0; i < LABEL_CODES; i++) {
		if (f->waits[i] == 0)
			continue;
		fputs("          on      ", out);
		put_ms(out, f->wait[i]);
		put_share(out, f->wait[i], all);
		put_name(out, s->model.reasons[i]);
		fprintf(out, " (%" PRIu64 " times)\n", f->waits[i]);
	}
}

static void put_entries(struct summary *s, FILE *out)
{
	fputs("\nEntry functions: number of Gs; time by state and its share; most running first\n",
	      out);
	for (size_t i = 0; i < at_most(s->entry_count); i++)
		if (s->entries[i]->greens > 0)
			put_entry(s, out, s->entries[i]);
	put_rest(out, s->entry_count, "functions");
}

static void put_wakers(struct summary *s, FILE *out)
{
	fputs("\nWakeups: number, waker (entry function, or cause), woken entry function\n", out);
	for (size_t i = 0; i < at_most(s->waker_count); i++) {
		const struct waker *w = s->wakers[i];

		fprintf(out, " %9" PRIu64, w->count);
		put_name(out, w->by ? w->by->name : "");
		if (w->by == NULL)
			fprintf(out, "(%s)", w->source);
		fputs(" ->", out);
		put_name(out, w->woken->name);
		putc_unlocked('\n', out);
	}
	put_rest(out, s->waker_count, "pairs");
}

static void put_mutexes(struct summary *s, FILE *out)
{
	fputs("\nLocks: waits, total time, longest, object; then the holders: waits, time\n", out);
	for (size_t i = 0; i < at_most(s->mutex_count); i++) {
		const struct mutex_figures *m = s->mutexes[i];
		const struct holder *h = m->holders;

		fprintf(out, " %9" PRIu64, m->waits);
		put_ms(out, m->ns);
		put_ms(out, m->longest);
		fprintf(out, " 0x%" PRIx64, m->object);
		put_name(out, s->model.reasons[m->reason]);
		putc_unlocked('\n', out);
		for (unsigned k = 0; k < MOST_HOLDERS && h != NULL; k++, h = h->next) {
			fprintf(out, "   %9" PRIu64, h->waits);
			put_ms(out, h->ns);
			fputs(" held by", out);
			put_name(out, h->entry ? h->entry->name : "an unknown holder");
			putc_unlocked('\n', out);
		}
	}
	put_rest(out, s->mutex_count, "locks");
	if (s->unnamed.waits == 0)
		return;
	fprintf(out, " %9" PRIu64, s->unnamed.waits);
	put_ms(out, s->unnamed.ns);
	put_ms(out, s->unnamed.longest);
	fputs(" waits without an address: begun before the trace, or woken at once\n", out);
}

static void put_latencies(struct summary *s, FILE *out)
{
	fputs("\nScheduling latency: samples, p50, p90, p99, max; cause, queue\n", out);
	for (size_t i = 0; i < s->latency_count; i++) {
		const struct latency_figures *l = &s->latencies[i];

		fprintf(out, " %9" PRIu64, l->times->samples);
		put_us(out, quantile(l->times, 50));
		put_us(out, quantile(l->times, 90));
		put_us(out, quantile(l->times, 99));
		put_us(out, l->times->max);
		put_name(out, s->model.causes[l->cause]);
		putc_unlocked(',', out);
		put_name(out, s->model.queues[l->queue]);
		putc_unlocked('\n', out);
	}
}

static void put_counts(struct summary *s, FILE *out)
{
	const uint64_t *counts = s->model.counts;

	fprintf(out, "\nCounts\n steals      %" PRIu64 " (%" PRIu64 " Gs)\n", s->steals, s->stolen);
	fprintf(out, " handoffs    %" PRIu64 "\n", counts[EVENT_HANDOFF]);
	fprintf(out, " preemptions %" PRIu64 "\n", counts[EVENT_PREEMPT]);
	fprintf(out, " overflows   %" PRIu64 " (%" PRIu64 " Gs)\n", s->overflows, s->overflowed);
	fprintf(out, " polls       %" PRIu64 " (%" PRIu64 " events)\n", s->polls, s->poll_events);
	fprintf(out, " timers      %" PRIu64 " (in %" PRIu64 " batches)\n", s->timers_fired,
		s->timers);
}

static void put_procs(struct summary *s, FILE *out)
{
	fputs("\nPs: running Gs, in blocking code, held by a thread (all three); shares of the "
	      "length\n",
	      out);
	for (size_t i = 0; i < s->proc_count; i++) {
		const struct proc_figures *p = s->procs[i];

		fprintf(out, " P %-5u", p->number);
		put_share(out, p->running, s->model.now);
		put_share(out, p->blocking, s->model.now);
		put_share(out, p->held, s->model.now);
		putc_unlocked('\n', out);
	}
}

static void put_regions(struct summary *s, FILE *out)
{
	if (s->region_count == 0)
		return;
	fputs("\nRegions: number, total time, longest, name\n", out);
	for (size_t i = 0; i < at_most(s->region_count); i++) {
		const struct region_figures *r = &s->regions[i];

		fprintf(out, " %9" PRIu64, r->count);
		put_ms(out, r->ns);
		put_ms(out, r->longest);
		putc_unlocked(' ', out);
		put_plain_text(out, r->name->at, r->name->length);
		putc_unlocked('\n', out);
	}
	put_rest(out, s->region_count, "regions");
}

static void put_runs(struct summary *s, FILE *out)
{
	fputs("\nLongest runs without a switch: time, begin, G, name, entry function\n", out);
	for (size_t i = 0; i < s->run_count; i++) {
		const struct run_figures *r = &s->runs[i];

		put_ms(out, r->ns);
		fputs(" at", out);
		put_ms(out, r->begin);
		fprintf(out, " G %" PRIu64, r->g);
		put_name(out, r->name);
		putc_unlocked(',', out);
		put_name(out, r->entry->name);
		putc_unlocked('\n', out);
	}
}

void summary_as_text(struct summary *s, FILE *out)
{
	put_head(s, out);
	put_entries(s, out);
	put_wakers(s, out);
	put_mutexes(s, out);
	put_latencies(s, out);
	put_counts(s, out);
	put_procs(s, out);
	put_regions(s, out);
	put_runs(s, out);
}
