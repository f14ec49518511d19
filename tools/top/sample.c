/* SPDX-License-Identifier: MIT */
/*
 * A sample: parses the JSON of /debug/vars, and compares two samples.
 */
#include "sample.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static const char *const stat_names[STAT_COUNT] = {
#define X(name) #name,
	STATS(X)
#undef X
};

const char *const cause_names[CAUSE_COUNT] = {
#define X(name) #name,
	CAUSES(X)
#undef X
};

/* ------------------------------------------------------------------- Parsing */

/* The json_* functions accept NULL and values of other types. */
static int64_t number(const json_t *object, const char *key)
{
	const json_t *v = json_object_get(object, key);

	return json_is_integer(v) && json_integer_value(v) >= 0 ? json_integer_value(v) : UNKNOWN;
}

static void text(char *out, size_t size, const json_t *object, const char *key)
{
	const json_t *v = json_object_get(object, key);

	out[0] = '\0';
	if (json_is_string(v))
		text_clean(out, size, json_string_value(v), json_string_length(v));
}

static void parse_ps(struct sample *s, const json_t *ps)
{
	s->ps_count = json_array_size(ps) < PS_MOST ? (int)json_array_size(ps) : PS_MOST;
	for (int i = 0; i < s->ps_count; i++) {
		const json_t *v = json_array_get(ps, (size_t)i);
		struct proc *p = &s->ps[i];

		text(p->status, sizeof(p->status), v, "status");
		p->id = number(v, "id");
		p->runnext = number(v, "runnext");
		p->ring = number(v, "ring");
		p->yielded = number(v, "yielded");
		p->timers = number(v, "timers");
		p->switches = number(v, "switches");
	}
}

static void parse_greens(struct greens *out, const json_t *list)
{
	out->count = json_array_size(list) < GREENS_MOST ? (int)json_array_size(list) : GREENS_MOST;
	for (int i = 0; i < out->count; i++) {
		const json_t *v = json_array_get(list, (size_t)i);
		struct green *g = &out->at[i];

		text(g->name, sizeof(g->name), v, "name");
		text(g->entry, sizeof(g->entry), v, "entry");
		text(g->state, sizeof(g->state), v, "state");
		text(g->wait, sizeof(g->wait), v, "wait");
		g->id = number(v, "id");
		g->cpu_ns = number(v, "cpu_ns");
		g->wait_ns = number(v, "wait_ns");
	}
}

static void parse_stats(struct sample *s, const json_t *stats)
{
	const json_t *latency = json_object_get(stats, "latency");

	for (int i = 0; i < STAT_COUNT; i++)
		s->stat[i] = number(stats, stat_names[i]);
	for (int i = 0; i < CAUSE_COUNT; i++) {
		const json_t *v = json_object_get(latency, cause_names[i]);

		s->latency[i].samples = number(v, "samples");
		s->latency[i].p50 = number(v, "p50");
		s->latency[i].p99 = number(v, "p99");
		s->latency[i].max = number(v, "max");
	}
}

static void parse_all(struct sample *s, const json_t *root)
{
	const json_t *queue = json_object_get(root, "global_queue");
	const json_t *greens = json_object_get(root, "greens");

	text(s->version, sizeof(s->version), root, "version");
	s->pid = number(root, "pid");
	s->run = number(root, "run");
	s->time_ns = number(root, "time_ns");
	s->start_ns = number(root, "start_ns");
	s->procs = number(root, "procs");
	s->cputime = json_is_true(json_object_get(root, "cputime"));
	parse_stats(s, json_object_get(root, "stats"));
	parse_ps(s, json_object_get(root, "ps"));
	s->global_events = number(queue, "events");
	s->global_yielded = number(queue, "yielded");
	s->alive = number(greens, "alive");
	parse_greens(&s->by_cpu, json_object_get(greens, "by_cpu"));
	parse_greens(&s->by_wait, json_object_get(greens, "by_wait"));
}

bool sample_parse(struct sample *s, const char *json, size_t n, char *error, size_t size)
{
	json_error_t why;
	json_t *root = json_loadb(json, n, JSON_ALLOW_NUL, &why);
	char clean[120];

	if (!root) {
		text_clean(clean, sizeof(clean), why.text, strlen(why.text));
		snprintf(error, size, "the answer is not valid JSON: line %d: %s", why.line, clean);
		return false;
	}
	if (number(root, "time_ns") == UNKNOWN) {
		json_decref(root);
		snprintf(error, size, "the answer has no time_ns; is it a debug server of gmp?");
		return false;
	}
	parse_all(s, root);
	json_decref(root);
	return true;
}

/* ----------------------------------------------------------------- Comparison */

bool sample_follows(const struct sample *now, const struct sample *before)
{
	return before && now->pid == before->pid && now->run == before->run &&
	       now->start_ns == before->start_ns && now->time_ns > before->time_ns;
}

int64_t sample_rate(const struct sample *now, const struct sample *before, int64_t value,
		    int64_t value_before)
{
	double seconds, rate;

	if (!sample_follows(now, before) || value_before < 0 || value < value_before)
		return UNKNOWN;
	seconds = (double)(now->time_ns - before->time_ns) / 1e9;
	rate = (double)(value - value_before) / seconds + 0.5;
	return rate < 9e18 ? (int64_t)rate : UNKNOWN;
}

static const struct green *find_green(const struct greens *list, int64_t id)
{
	for (int i = 0; i < list->count; i++) {
		if (list->at[i].id == id)
			return &list->at[i];
	}
	return NULL;
}

int64_t sample_cpu_permille(const struct sample *now, const struct sample *before,
			    const struct green *g)
{
	const struct green *old;
	double share;

	if (!sample_follows(now, before) || g->id < 0 || g->cpu_ns < 0)
		return UNKNOWN;
	old = find_green(&before->by_cpu, g->id);
	if (!old)
		old = find_green(&before->by_wait, g->id);
	if (!old || old->cpu_ns < 0 || g->cpu_ns < old->cpu_ns)
		return UNKNOWN;
	share = (double)(g->cpu_ns - old->cpu_ns) / (double)(now->time_ns - before->time_ns);
	return share < 1e6 ? (int64_t)(share * 1000 + 0.5) : UNKNOWN;
}
