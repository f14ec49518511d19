/* SPDX-License-Identifier: MIT */
/*
 * Objects of the model: creates Gs, threads, Ps and entry functions, and finds them by number.
 */
#include "model_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const state_names[STATES] = { "unknown", "runnable", "running",
					  "waiting", "blocking", "dead" };

/* Returns the state that a label of the table of states means. */
static enum state state_of_label(const char *label)
{
	if (strstr(label, "runnable") != NULL)
		return STATE_RUNNABLE;
	if (strstr(label, "running") != NULL || strstr(label, "preempted") != NULL)
		return STATE_RUNNING;
	if (strstr(label, "waiting") != NULL)
		return STATE_WAITING;
	if (strstr(label, "block") != NULL)
		return STATE_BLOCKING;
	return STATE_UNKNOWN;
}

/* Uses the code of the label with this text for a cause that follows from an event. */
static void join_cause(struct model *m, unsigned cause, const char *text)
{
	m->causes[cause] = text;
	m->cause_of[cause] = (uint8_t)cause;
	for (unsigned i = 0; i < CAUSE_SPAWN; i++) {
		const char *label = m->trace->labels[LABEL_CAUSE][i];

		if (label != NULL && strcmp(label, text) == 0)
			m->cause_of[cause] = (uint8_t)i;
	}
}

static void init_labels(struct model *m)
{
	char(*buf)[32] = m->label_buf;

	for (unsigned i = 0; i < CAUSE_SPAWN; i++)
		m->causes[i] = trace_label(m->trace, LABEL_CAUSE, i, *buf++);
	for (unsigned i = 0; i < QUEUE_NONE; i++)
		m->queues[i] = trace_label(m->trace, LABEL_QUEUE, i, *buf++);
	for (unsigned i = 0; i < LABEL_CODES; i++) {
		const char *state = m->trace->labels[LABEL_STATE][i];

		m->reasons[i] = trace_label(m->trace, LABEL_REASON, i, *buf++);
		m->states[i] = state ? state_of_label(state) : STATE_UNKNOWN;
	}
	for (unsigned i = 0; i < LABEL_CODES; i++)
		m->is_owned[i] = strcmp(m->reasons[i], "mutex lock") == 0 ||
				 strcmp(m->reasons[i], "rwmutex lock") == 0;
	m->queues[QUEUE_NONE] = "none";
	m->yield_queue = QUEUE_NONE;
	for (unsigned i = 0; i < QUEUE_NONE; i++)
		if (strcmp(m->queues[i], "yielded") == 0)
			m->yield_queue = (uint8_t)i;
	join_cause(m, CAUSE_SPAWN, "spawn");
	join_cause(m, CAUSE_YIELD, "yield");
	join_cause(m, CAUSE_LOSE_P, "lost P");
	join_cause(m, CAUSE_UNKNOWN, "unknown");
}

void model_init(struct model *m, struct trace *t, const struct sink *sink)
{
	*m = (struct model){ .trace = t, .sink = sink };
	init_labels(m);
	model_entry(m, 0)->name = "unknown";
}

struct entry *model_entry(struct model *m, uint64_t address)
{
	struct entry *e = map_get(&m->entries, address);

	if (e != NULL)
		return e;
	e = new_memory(1, sizeof(*e));
	e->address = address;
	e->index = (uint32_t)m->entry_count;
	e->name = map_get(&m->trace->symbols, address);
	if (e->name == NULL || e->name[0] == '\0') {
		snprintf(e->buf, sizeof(e->buf), "0x%" PRIx64, address);
		e->name = e->buf;
	}
	ROOM_FOR_ONE(m->all_entries, m->entry_count, m->entry_capacity);
	m->all_entries[m->entry_count++] = e;
	map_put(&m->entries, address, e);
	return e;
}

struct entry *model_entry_of(struct model *m, uint64_t id)
{
	const struct green *g = map_get(&m->greens, id);
	const struct green_name *name = map_get(&m->trace->greens, id);

	if (g != NULL)
		return g->entry;
	return model_entry(m, name != NULL ? name->entry : 0);
}

struct green *model_green(struct model *m, uint64_t id)
{
	struct green *g = map_get(&m->greens, id);
	const struct green_name *name = map_get(&m->trace->greens, id);

	if (g != NULL)
		return g;
	g = new_memory(1, sizeof(*g));
	g->id = id;
	g->track = ++m->tracks;
	g->entry = model_entry(m, name != NULL ? name->entry : 0);
	if (name != NULL && name->name != NULL)
		g->name = copy_text(name->name, strlen(name->name));
	g->since = g->drawn = m->now;
	g->wake.cause = m->cause_of[CAUSE_UNKNOWN];
	g->wake.queue = QUEUE_NONE;
	map_put(&m->greens, id, g);
	return g;
}

struct thread *model_thread(struct model *m, uint32_t number)
{
	struct thread *t = map_get(&m->threads, number);
	const struct thread_name *name;

	if (t != NULL)
		return t;
	t = new_memory(1, sizeof(*t));
	t->number = number;
	t->since = t->drawn = m->now;
	name = map_get(&m->trace->threads, number);
	if (name != NULL)
		t->name = *name;
	t->is_m = t->name.m != 0;
	map_put(&m->threads, number, t);
	return t;
}

struct proc *model_proc(struct model *m, uint64_t number)
{
	struct proc *p = map_get(&m->procs, number);

	if (p != NULL)
		return p;
	if (number > MOST_P) {
		m->trace->warnings.count[WARN_BAD_P]++;
		return NULL;
	}
	p = new_memory(1, sizeof(*p));
	p->number = (uint32_t)number;
	map_put(&m->procs, number, p);
	return p;
}

static void free_green(struct model *m, struct green *g)
{
	map_remove(&m->greens, g->id);
	free(g->regions.at);
	free(g->name);
	free(g);
}

void model_bury(struct model *m, struct green *g)
{
	g->state = STATE_DEAD;
	g->since = m->now;
	if (m->last_dead != NULL)
		m->last_dead->next_dead = g;
	else
		m->first_dead = g;
	m->last_dead = g;
	while (m->first_dead->since + GRAVE_NS < m->now) { /* never g itself */
		struct green *old = m->first_dead;

		m->first_dead = old->next_dead;
		free_green(m, old);
	}
}

/* --- holders of locks ---
 *
 * An unlock hands a lock over: the waiter owns it from its READY on, but the runtime knows the
 * holder only when that G has run. A G that parks in between has a PARK without a holder. The G
 * whose wait for the object ended last is taken as the holder then, until it parks for the object
 * itself, ends, or a PARK names another holder.
 *
 * A wait for an rwmutex without a holder may also be for readers, so the G must not have run yet.
 */

/* The G whose wait for a lock ended last. */
struct handover {
	uint64_t g; /* 0: it does not own the lock any more */
};

static bool is_rwmutex(const struct model *m, const struct green *g)
{
	return strncmp(m->reasons[g->reason], "rwmutex", 7) == 0;
}

void model_hand_over(struct model *m, const struct green *g, const struct wake *wake)
{
	struct handover *h;

	if (!m->is_owned[g->reason] || g->object == 0 ||
	    strcmp(m->causes[wake->cause], "wake") != 0)
		return;
	h = map_get(&m->handovers, g->object);
	if (h == NULL) {
		h = new_memory(1, sizeof(*h));
		map_put(&m->handovers, g->object, h);
	}
	h->g = g->id;
}

uint64_t model_holder(struct model *m, const struct green *g, uint64_t named)
{
	struct handover *h = g->object != 0 ? map_get(&m->handovers, g->object) : NULL;
	const struct green *owner;

	if (h == NULL)
		return named;
	if (h->g == g->id || (named != 0 && named != h->g))
		h->g = 0;
	if (named != 0 || h->g == 0)
		return named;
	owner = map_get(&m->greens, h->g);
	if (owner == NULL || owner->state == STATE_DEAD)
		return h->g = 0;
	if (is_rwmutex(m, g) && owner->state != STATE_RUNNABLE)
		return 0;
	return h->g;
}

/* --- sorting, and the end --- */

static int compare_greens(const void *a, const void *b)
{
	uint64_t x = (*(struct green *const *)a)->track, y = (*(struct green *const *)b)->track;

	return (x > y) - (x < y);
}

static int compare_threads(const void *a, const void *b)
{
	uint32_t x = (*(struct thread *const *)a)->number, y = (*(struct thread *const *)b)->number;

	return (x > y) - (x < y);
}

static int compare_procs(const void *a, const void *b)
{
	uint32_t x = (*(struct proc *const *)a)->number, y = (*(struct proc *const *)b)->number;

	return (x > y) - (x < y);
}

static void *sorted(const struct map *map, int (*compare)(const void *, const void *),
		    size_t *count)
{
	void **all = new_memory(map->used + 1, sizeof(*all));

	*count = 0;
	for (size_t i = 0; i < map->size; i++)
		if (map->slots[i].value != NULL)
			all[(*count)++] = map->slots[i].value;
	qsort(all, *count, sizeof(*all), compare);
	return all;
}

struct green **sorted_greens(const struct model *m, size_t *count)
{
	return sorted(&m->greens, compare_greens, count);
}

struct thread **sorted_threads(const struct model *m, size_t *count)
{
	return sorted(&m->threads, compare_threads, count);
}

struct proc **sorted_procs(const struct model *m, size_t *count)
{
	return sorted(&m->procs, compare_procs, count);
}

const char *green_name(const struct green *g)
{
	return g->name != NULL && g->name[0] != '\0' ? g->name : g->entry->name;
}

void model_free(struct model *m)
{
	struct map *maps[] = { &m->threads, &m->procs, &m->entries, &m->handovers };

	for (size_t i = 0; i < m->greens.size; i++) {
		struct green *g = m->greens.slots[i].value;

		if (g == NULL)
			continue;
		free(g->regions.at);
		free(g->name);
		free(g);
	}
	for (size_t i = 0; i < m->threads.size; i++)
		if (m->threads.slots[i].value != NULL)
			free(((struct thread *)m->threads.slots[i].value)->regions.at);
	for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
		for (size_t k = 0; k < maps[i]->size; k++)
			free(maps[i]->slots[k].value);
		map_free(maps[i]);
	}
	map_free(&m->greens);
	free(m->all_entries);
	texts_free(&m->texts);
}
