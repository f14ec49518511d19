/* SPDX-License-Identifier: MIT */
/*
 * The view as lines of text: head, rates, scheduling latency, Ps, and two tables of green threads.
 *
 * The head and the rates are cells that flow into as many lines as the width needs. A line of a
 * table is not broken: the caller cuts it at the width.
 */
#include "view.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CELL 20         /* columns of a rate */
#define NAME_COLUMNS 24 /* of the name of a green thread */
#define BAR_MOST 40     /* columns of a bar */
#define BAR_AT 58       /* column at which the bars begin */

__attribute__((format(printf, 3, 4))) static void line(struct page *page, enum style style,
						       const char *format, ...)
{
	va_list args;

	if (page->count == LINES_MOST)
		return;
	page->lines[page->count].style = style;
	va_start(args, format);
	vsnprintf(page->lines[page->count].text, LINE_SIZE, format, args);
	va_end(args);
	page->count++;
}

/* Append a cell of ASCII text to the last line, or begin a line if it does not fit there. */
__attribute__((format(printf, 2, 3))) static void cell(struct page *page, const char *format, ...)
{
	char text[200];
	char *last = page->lines[page->count - 1].text;
	size_t used = strlen(last);
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (used > 0 && used + 2 + strlen(text) > (size_t)page->columns) {
		line(page, STYLE_PLAIN, "%s", text);
		return;
	}
	snprintf(last + used, LINE_SIZE - used, "%s%s", used ? "  " : "", text);
}

/* Fill up or cut clean text to a number of columns. */
static void pad(char out[NAME_SIZE], const char *text, int columns)
{
	int used = columns;
	size_t n = text_fit(text, &used);

	snprintf(out, NAME_SIZE, "%.*s%*s", (int)n, text, columns - used, "");
}

static const char *count(char out[NUMBER_SIZE], int64_t n)
{
	text_count(out, n);
	return out;
}

static const char *duration(char out[NUMBER_SIZE], int64_t ns)
{
	text_duration(out, ns);
	return out;
}

/* ------------------------------------------------------------------------ Head */

static void add_title(struct page *page, const struct view *v)
{
	char text[NUMBER_SIZE];

	line(page, STYLE_TITLE, "gmp-top %s  every %s%s", v->address, duration(text, v->interval),
	     v->paused ? "  PAUSED" : "");
	if (v->error[0])
		line(page, STYLE_NOTICE, "%s; trying again%s", v->error,
		     v->paused ? " when p is pressed" : "");
}

static void add_greens(struct page *page, const struct sample *s)
{
	const int64_t *stat = s->stat;
	char text[NUMBER_SIZE];

	line(page, STYLE_PLAIN, "green threads");
	cell(page, "%s alive", count(text, s->alive >= 0 ? s->alive : stat[STAT_greens]));
	cell(page, "%s running", count(text, stat[STAT_greens_running]));
	cell(page, "%s runnable", count(text, stat[STAT_greens_runnable]));
	cell(page, "%s waiting", count(text, stat[STAT_greens_waiting]));
	cell(page, "%s blocked", count(text, stat[STAT_greens_blocked]));
	cell(page, "%s preempted", count(text, stat[STAT_preempted]));
}

static void add_head(struct page *page, const struct sample *s)
{
	const int64_t *stat = s->stat;
	char a[NUMBER_SIZE], b[NUMBER_SIZE];
	int64_t up =
		s->start_ns < 0 || s->time_ns < s->start_ns ? UNKNOWN : s->time_ns - s->start_ns;

	line(page, STYLE_PLAIN, "%s", "");
	if (s->pid >= 0)
		cell(page, "pid %lld", (long long)s->pid);
	cell(page, "gmp %s", s->version[0] ? s->version : "-");
	cell(page, "run %s", count(a, s->run));
	cell(page, "up %s", duration(a, up));
	cell(page, "%s Ps, %s idle", count(a, s->procs), count(b, stat[STAT_procs_idle]));
	cell(page, "%s OS threads, %s idle", count(a, stat[STAT_threads]),
	     count(b, stat[STAT_threads_idle]));
	add_greens(page, s);
	line(page, STYLE_PLAIN, "%s", "");
	cell(page, "%s timers", count(a, stat[STAT_timers]));
	cell(page, "%s descriptors", count(a, stat[STAT_descriptors]));
	text_bytes(a, stat[STAT_stack_bytes]);
	cell(page, "%s of stacks", a);
	cell(page, "global queue %s + %s yielded", count(a, s->global_events),
	     count(b, s->global_yielded));
	cell(page, "longest run %s", duration(a, stat[STAT_longest_run]));
}

static void add_rates(struct page *page, const struct sample *now, const struct sample *before)
{
	static const struct {
		const char *name;
		enum stat stat;
	} rates[] = {
		{ "switches", STAT_switches },
		{ "spawns", STAT_spawns },
		{ "exits", STAT_exits },
		{ "wakeups", STAT_wakeups },
		{ "steals", STAT_steals },
		{ "handoffs", STAT_handoffs },
		{ "preemptions", STAT_preemptions },
		{ "polls", STAT_polls },
		{ "poll events", STAT_poll_events },
		{ "timers", STAT_timers_fired },
	};

	line(page, STYLE_HEADING, "PER SECOND");
	line(page, STYLE_PLAIN, "%s", "");
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		enum stat k = rates[i].stat;
		int64_t rate = UNKNOWN;
		char text[NUMBER_SIZE];

		if (before)
			rate = sample_rate(now, before, now->stat[k], before->stat[k]);
		cell(page, "%-11s %6s", rates[i].name, count(text, rate));
	}
}

static void add_latency(struct page *page, const struct sample *now, const struct sample *before)
{
	line(page, STYLE_HEADING, "LATENCY     SAMPLES/s     P50     P99     MAX");
	for (int i = 0; i < CAUSE_COUNT; i++) {
		struct latency l = now->latency[i];
		int64_t rate = UNKNOWN;
		char r[NUMBER_SIZE], p50[NUMBER_SIZE], p99[NUMBER_SIZE], max[NUMBER_SIZE];

		if (before)
			rate = sample_rate(now, before, l.samples, before->latency[i].samples);
		if (l.samples <= 0)
			l.p50 = l.p99 = l.max = UNKNOWN;
		line(page, STYLE_PLAIN, "%-11s %9s %7s %7s %7s", cause_names[i], count(r, rate),
		     duration(p50, l.p50), duration(p99, l.p99), duration(max, l.max));
	}
}

/* -------------------------------------------------------------------------- Ps */

static int64_t proc_rate(const struct sample *now, const struct sample *before, int i)
{
	const struct proc *p = &now->ps[i];

	if (!before || i >= before->ps_count || before->ps[i].id != p->id)
		return UNKNOWN;
	return sample_rate(now, before, p->switches, before->ps[i].switches);
}

/* A bar: the share of the busiest P's switches, in full columns. */
static void bar(char out[BAR_MOST + 3], int64_t rate, int64_t most, int columns)
{
	int width = columns - BAR_AT - 2 < BAR_MOST ? columns - BAR_AT - 2 : BAR_MOST;
	int full = rate > 0 && most > 0 ? (int)((double)rate / (double)most * width + 0.5) : 0;

	out[0] = '\0';
	if (width < 5)
		return;
	out[0] = '[';
	memset(out + 1, '#', (size_t)full);
	memset(out + 1 + full, ' ', (size_t)(width - full));
	strcpy(out + 1 + width, "]");
}

static void add_ps(struct page *page, const struct sample *now, const struct sample *before)
{
	int64_t most = 0;

	line(page, STYLE_HEADING, "   P STATUS    NEXT   RING YIELDED TIMERS SWITCHES/s");
	for (int i = 0; i < now->ps_count; i++) {
		int64_t rate = proc_rate(now, before, i);

		most = rate > most ? rate : most;
	}
	for (int i = 0; i < now->ps_count; i++) {
		const struct proc *p = &now->ps[i];
		int64_t rate = proc_rate(now, before, i);
		char text[6][NUMBER_SIZE], status[NAME_SIZE], shown[BAR_MOST + 3];

		pad(status, p->status[0] ? p->status : "-", 9);
		bar(shown, rate, most, page->columns);
		line(page, STYLE_PLAIN, "%4s %s %4s %6s %7s %6s %10s      %s",
		     count(text[0], p->id), status, count(text[1], p->runnext),
		     count(text[2], p->ring), count(text[3], p->yielded), count(text[4], p->timers),
		     count(text[5], rate), shown);
	}
}

/* ---------------------------------------------------------------------- Tables */

struct row {
	const struct green *g;
	int64_t permille; /* CPU time since the last sample */
	int64_t key;      /* larger ones come first */
	int place;        /* in the answer, which decides between equal keys */
};

static int compare_rows(const void *left, const void *right)
{
	const struct row *a = left, *b = right;

	return a->key != b->key ? (a->key < b->key) - (a->key > b->key) : a->place - b->place;
}

static void format_cpu(char out[NUMBER_SIZE], int64_t permille)
{
	if (permille < 0)
		strcpy(out, "-");
	else
		snprintf(out, NUMBER_SIZE, "%.1f", (double)permille / 10);
}

/* The state of a green thread in at most ten columns; an unknown one is cut. */
static const char *short_state(const char *state)
{
	static const char *const words[][2] = {
		{ "", "-" },
		{ "in blocking code", "blocking" },
		{ "running without a P", "without P" },
		{ "running, the caller of gmp_dump", "running" },
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(state, words[i][0]) == 0)
			return words[i][1];
	return state;
}

static void add_cpu(struct page *page, const struct view *v, const struct sample *now,
		    const struct sample *before)
{
	struct row rows[GREENS_MOST];
	int n = now->by_cpu.count;

	line(page, STYLE_HEADING, "BY CPU TIME %s",
	     !now->cputime ? "(the program does not measure it)"
	     : v->by_total ? "(all)"
			   : "(since the last sample)");
	line(page, STYLE_HEADING, "      ID   CPU%%      CPU STATE      %-*s ENTRY", NAME_COLUMNS,
	     "NAME");
	for (int i = 0; i < n; i++) {
		const struct green *g = &now->by_cpu.at[i];

		rows[i] = (struct row){ .g = g, .permille = UNKNOWN, .place = i };
		if (before)
			rows[i].permille = sample_cpu_permille(now, before, g);
		rows[i].key = v->by_total ? g->cpu_ns : rows[i].permille;
	}
	qsort(rows, (size_t)n, sizeof(rows[0]), compare_rows);
	for (int i = 0; i < n; i++) {
		const struct green *g = rows[i].g;
		char id[NUMBER_SIZE], cpu[NUMBER_SIZE], all[NUMBER_SIZE], state[NAME_SIZE];
		char name[NAME_SIZE];

		format_cpu(cpu, rows[i].permille);
		snprintf(id, sizeof(id), g->id < 0 ? "-" : "%lld", (long long)g->id);
		pad(state, short_state(g->state), 10);
		pad(name, g->name[0] ? g->name : "-", NAME_COLUMNS);
		line(page, STYLE_PLAIN, "%8s %6s %8s %s %s %s", id, cpu, duration(all, g->cpu_ns),
		     state, name, g->entry);
	}
}

static void add_waits(struct page *page, const struct view *v, const struct sample *now)
{
	struct row rows[GREENS_MOST];
	int n = now->by_wait.count;

	line(page, STYLE_HEADING, "BY PRESENT WAIT %s", v->by_id ? "(by ID)" : "(longest first)");
	line(page, STYLE_HEADING, "      ID     WAIT FOR                  %-*s ENTRY", NAME_COLUMNS,
	     "NAME");
	for (int i = 0; i < n; i++) {
		const struct green *g = &now->by_wait.at[i];

		rows[i] = (struct row){ .g = g, .place = i };
		rows[i].key = v->by_id ? -g->id : g->wait_ns;
		if (g->id < 0)
			rows[i].key = UNKNOWN;
	}
	qsort(rows, (size_t)n, sizeof(rows[0]), compare_rows);
	for (int i = 0; i < n; i++) {
		const struct green *g = rows[i].g;
		char id[NUMBER_SIZE], wait[NUMBER_SIZE], reason[NAME_SIZE], name[NAME_SIZE];

		snprintf(id, sizeof(id), g->id < 0 ? "-" : "%lld", (long long)g->id);
		pad(reason, g->wait[0] ? g->wait : "-", 20);
		pad(name, g->name[0] ? g->name : "-", NAME_COLUMNS);
		line(page, STYLE_PLAIN, "%8s %8s %s  %s %s", id, duration(wait, g->wait_ns), reason,
		     name, g->entry);
	}
}

void view_build(struct page *page, const struct view *v, const struct sample *now,
		const struct sample *before, int columns)
{
	page->count = 0;
	page->columns = columns;
	add_title(page, v);
	if (!now)
		return;
	add_head(page, now);
	add_rates(page, now, before);
	add_latency(page, now, before);
	add_ps(page, now, before);
	if (v->wait_first)
		add_waits(page, v, now);
	add_cpu(page, v, now, before);
	if (!v->wait_first)
		add_waits(page, v, now);
}

void view_help(struct page *page, int columns)
{
	static const char *const lines[] = {
		"",
		"q            quit",
		"p            pause, resume",
		"c            CPU time first; again: sort by all",
		"w            waits first; again: sort by ID",
		"+ -          longer, shorter interval",
		"arrows, PgUp, PgDn, Home, End  scroll",
		"h            this help, and back",
		"",
		"Rates are differences of two samples.",
		"Latency: from runnable to running, by cause.",
		"\"-\" is a figure that is not known.",
		"See also: man gmp-top",
	};

	page->count = 0;
	page->columns = columns;
	line(page, STYLE_TITLE, "gmp-top: keys");
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		line(page, STYLE_PLAIN, "%s", lines[i]);
}
