/* SPDX-License-Identifier: MIT */
/*
 * Figures of the output "summary": collected from the model in one pass, then sorted and printed.
 */
#include "summary.h"

#include <stdlib.h>
#include <string.h>

/* --- histograms --- */

static unsigned bucket_of(uint64_t ns)
{
	unsigned high;

	if (ns < 1 << BUCKET_BITS)
		return (unsigned)ns;
	high = 63 - (unsigned)__builtin_clzll(ns) - BUCKET_BITS;
	return ((high + 1) << BUCKET_BITS) + (unsigned)(ns >> high & ((1 << BUCKET_BITS) - 1));
}

/* The largest time of a bucket. */
static uint64_t top_of(unsigned bucket)
{
	unsigned high = bucket >> BUCKET_BITS;
	uint64_t low = bucket & ((1 << BUCKET_BITS) - 1);

	if (high == 0)
		return low;
	return (((low | 1 << BUCKET_BITS) + 1) << (high - 1)) - 1;
}

static void sample(struct histogram *h, int64_t ns)
{
	h->count[bucket_of((uint64_t)ns)]++;
	h->samples++;
	if (ns > h->max)
		h->max = ns;
}

int64_t quantile(const struct histogram *h, unsigned percent)
{
	uint64_t wanted = (h->samples * percent + 99) / 100, seen = 0;

	for (unsigned i = 0; i < BUCKETS; i++) {
		seen += h->count[i];
		if (seen >= wanted && seen > 0)
			return (int64_t)top_of(i) < h->max ? (int64_t)top_of(i) : h->max;
	}
	return h->max;
}

/* --- collection --- */

static struct entry_figures *figures_of(struct summary *s, struct entry *e)
{
	while (s->entry_count <= e->index) {
		ROOM_FOR_ONE(s->entries, s->entry_count, s->entry_capacity);
		s->entries[s->entry_count] = new_memory(1, sizeof(struct entry_figures));
		s->entries[s->entry_count]->entry = s->model.all_entries[s->entry_count];
		s->entry_count++;
	}
	return s->entries[e->index];
}

static struct mutex_figures *mutex_of(struct summary *s, const struct green *g)
{
	struct mutex_figures *m = map_get(&s->mutex_map, g->object);

	if (m != NULL)
		return m;
	m = new_memory(1, sizeof(*m));
	m->object = g->object;
	m->reason = g->reason;
	map_put(&s->mutex_map, g->object, m);
	ROOM_FOR_ONE(s->mutexes, s->mutex_count, s->mutex_capacity);
	s->mutexes[s->mutex_count++] = m;
	return m;
}

static void add_holder(struct mutex_figures *m, const struct green *g, int64_t ns)
{
	struct holder *h = m->holders;

	while (h != NULL && h->entry != g->holder_entry)
		h = h->next;
	if (h == NULL) {
		h = new_memory(1, sizeof(*h));
		h->entry = g->holder_entry;
		h->next = m->holders;
		m->holders = h;
	}
	h->waits++;
	add_ns(&h->ns, ns);
}

static void add_mutex_wait(struct summary *s, const struct green *g, int64_t ns)
{
	struct mutex_figures *m = g->object != 0 ? mutex_of(s, g) : &s->unnamed;

	m->waits++;
	add_ns(&m->ns, ns);
	if (ns > m->longest)
		m->longest = ns;
	if (g->object != 0)
		add_holder(m, g, ns);
}

/* Puts a run into the list of the longest ones, which is sorted. */
static void add_run(struct summary *s, const struct span *span)
{
	int64_t ns = span->end - span->begin;
	size_t i = s->run_count;

	if (i == LONGEST_RUNS) {
		if (s->runs[i - 1].ns >= ns)
			return;
		free(s->runs[--i].name);
	} else {
		s->run_count++;
	}
	for (; i > 0 && s->runs[i - 1].ns < ns; i--)
		s->runs[i] = s->runs[i - 1];
	s->runs[i] = (struct run_figures){
		.g = span->g->id,
		.name = copy_text(green_name(span->g), strlen(green_name(span->g))),
		.entry = span->g->entry,
		.begin = span->begin,
		.ns = ns,
	};
}

static void add_latency(struct summary *s, const struct span *span)
{
	const struct wake *w = &span->g->wake;
	struct histogram **h = &s->latency[w->cause][w->queue];

	if (*h == NULL)
		*h = new_memory(1, sizeof(**h));
	sample(*h, span->end - span->begin);
}

static void on_span(void *user, const struct span *span)
{
	struct summary *s = user;
	struct green *g = span->g;
	struct entry_figures *f = figures_of(s, g->entry);
	int64_t ns = span->end - span->begin;

	add_ns(&f->ns[span->state], ns);
	switch (span->state) {
	case STATE_WAITING:
		add_ns(&f->wait[g->reason], ns);
		f->waits[g->reason]++;
		if (s->is_mutex[g->reason])
			add_mutex_wait(s, g, ns);
		break;
	case STATE_RUNNABLE:
		if (!span->is_open)
			add_latency(s, span);
		break;
	case STATE_RUNNING: add_run(s, span); break;
	default: break;
	}
}

static void on_wake(void *user, struct green *g)
{
	struct summary *s = user;
	const struct wake *w = &g->wake;
	uint64_t by = w->by_entry ? w->by_entry->index : (UINT32_MAX - (uint64_t)w->cause);
	uint64_t key = by << 32 | g->entry->index;
	struct waker *k;

	if (!w->is_wakeup)
		return;
	k = map_get(&s->waker_map, key);
	if (k == NULL) {
		k = new_memory(1, sizeof(*k));
		k->by = w->by_entry;
		k->source = s->model.causes[w->cause];
		k->woken = g->entry;
		map_put(&s->waker_map, key, k);
		ROOM_FOR_ONE(s->wakers, s->waker_count, s->waker_capacity);
		s->wakers[s->waker_count++] = k;
	}
	k->count++;
}

static void on_gone(void *user, struct green *g)
{
	figures_of(user, g->entry)->greens++;
}

static void on_proc(void *user, const struct proc *p, int64_t end)
{
	struct summary *s = user;
	struct proc_figures *f = map_get(&s->proc_map, p->number);

	if (f == NULL) {
		f = new_memory(1, sizeof(*f));
		f->number = p->number;
		map_put(&s->proc_map, p->number, f);
		ROOM_FOR_ONE(s->procs, s->proc_count, s->proc_capacity);
		s->procs[s->proc_count++] = f;
	}
	add_ns(p->is_blocking ? &f->blocking : &f->running, end - p->since);
}

static void on_region(void *user, struct green *g, struct thread *t, const struct region *r,
		      bool ends, int64_t now)
{
	struct summary *s = user;
	struct region_figures *f;

	(void)g, (void)t;
	while (s->region_count <= r->name->index) {
		ROOM_FOR_ONE(s->regions, s->region_count, s->region_capacity);
		s->region_count++;
	}
	f = &s->regions[r->name->index];
	f->name = r->name;
	if (!ends)
		return;
	f->count++;
	add_ns(&f->ns, now - r->begin);
	if (now - r->begin > f->longest)
		f->longest = now - r->begin;
}

static void on_event(void *user, const struct event *e, struct thread *t, struct green *g)
{
	struct summary *s = user;

	(void)t, (void)g;
	switch (e->type) {
	case EVENT_STEAL:
		s->steals++;
		s->stolen += e->c;
		break;
	case EVENT_OVERFLOW:
		s->overflows++;
		s->overflowed += e->b;
		break;
	case EVENT_POLL:
		s->polls++;
		s->poll_events += e->a;
		break;
	case EVENT_TIMER:
		s->timers++;
		s->timers_fired += e->b;
		break;
	default: break;
	}
}

/* --- sorting: most first; then by number or name, so that the output is stable --- */

#define BY(more, less)                                                                             \
	if ((more) != (less))                                                                      \
	return (more) < (less) ? 1 : -1

static int compare_entries(const void *a, const void *b)
{
	const struct entry_figures *x = *(struct entry_figures *const *)a;
	const struct entry_figures *y = *(struct entry_figures *const *)b;

	BY(x->ns[STATE_RUNNING], y->ns[STATE_RUNNING]);
	BY(x->greens, y->greens);
	return strcmp(x->entry->name, y->entry->name);
}

static int compare_wakers(const void *a, const void *b)
{
	const struct waker *x = *(struct waker *const *)a, *y = *(struct waker *const *)b;

	BY(x->count, y->count);
	if (x->woken != y->woken)
		return x->woken->index < y->woken->index ? -1 : 1;
	return strcmp(x->by ? x->by->name : x->source, y->by ? y->by->name : y->source);
}

static int compare_mutexes(const void *a, const void *b)
{
	const struct mutex_figures *x = *(struct mutex_figures *const *)a;
	const struct mutex_figures *y = *(struct mutex_figures *const *)b;

	BY(x->ns, y->ns);
	BY(y->object, x->object);
	return 0;
}

static int compare_regions(const void *a, const void *b)
{
	const struct region_figures *x = a, *y = b;

	BY(x->ns, y->ns);
	BY(x->count, y->count);
	return (x->name->index > y->name->index) - (x->name->index < y->name->index);
}

static int compare_latencies(const void *a, const void *b)
{
	const struct latency_figures *x = a, *y = b;

	BY(x->times->samples, y->times->samples);
	BY(y->cause, x->cause);
	BY(y->queue, x->queue);
	return 0;
}

static int compare_procs(const void *a, const void *b)
{
	const struct proc_figures *x = *(struct proc_figures *const *)a;
	const struct proc_figures *y = *(struct proc_figures *const *)b;

	BY(y->number, x->number);
	return 0;
}

/* Sorts the holders of a lock: most time first (insertion sort, for there are few). */
static void sort_holders(struct mutex_figures *m)
{
	struct holder *sorted = NULL, *h = m->holders;

	while (h != NULL) {
		struct holder *next = h->next, **place = &sorted;

		while (*place != NULL && (*place)->ns >= h->ns)
			place = &(*place)->next;
		h->next = *place;
		*place = h;
		h = next;
	}
	m->holders = sorted;
}

static void collect_latencies(struct summary *s)
{
	for (unsigned cause = 0; cause < CAUSES; cause++)
		for (unsigned queue = 0; queue < QUEUES; queue++)
			if (s->latency[cause][queue] != NULL)
				s->latencies[s->latency_count++] =
					(struct latency_figures){ (uint8_t)cause, (uint8_t)queue,
								  s->latency[cause][queue] };
}

#define SORT(array, count, compare)                                                                \
	do {                                                                                       \
		if ((count) > 0)                                                                   \
			qsort((array), (count), sizeof(*(array)), (compare));                      \
	} while (0)

static void sort_all(struct summary *s)
{
	struct map *procs = &s->model.procs;

	for (size_t i = 0; i < s->proc_count; i++) {
		const struct proc *p = map_get(procs, s->procs[i]->number);

		s->procs[i]->held = p->held;
	}
	for (size_t i = 0; i < s->mutex_count; i++)
		sort_holders(s->mutexes[i]);
	collect_latencies(s);
	SORT(s->entries, s->entry_count, compare_entries);
	SORT(s->wakers, s->waker_count, compare_wakers);
	SORT(s->mutexes, s->mutex_count, compare_mutexes);
	SORT(s->regions, s->region_count, compare_regions);
	SORT(s->procs, s->proc_count, compare_procs);
	SORT(s->latencies, s->latency_count, compare_latencies);
}

/* --- the whole --- */

static void free_mutexes(struct summary *s)
{
	for (size_t i = 0; i < s->mutex_count; i++) {
		struct holder *h = s->mutexes[i]->holders;

		while (h != NULL) {
			struct holder *next = h->next;

			free(h);
			h = next;
		}
		free(s->mutexes[i]);
	}
	free(s->mutexes);
	map_free(&s->mutex_map);
}

static void summary_free(struct summary *s)
{
	for (size_t i = 0; i < s->entry_count; i++)
		free(s->entries[i]);
	for (size_t i = 0; i < s->waker_count; i++)
		free(s->wakers[i]);
	for (size_t i = 0; i < s->proc_count; i++)
		free(s->procs[i]);
	for (size_t i = 0; i < s->latency_count; i++)
		free(s->latencies[i].times);
	for (size_t i = 0; i < s->run_count; i++)
		free(s->runs[i].name);
	free_mutexes(s);
	free(s->entries);
	free(s->wakers);
	free(s->procs);
	free(s->regions);
	map_free(&s->waker_map);
	map_free(&s->proc_map);
	model_free(&s->model);
	free(s);
}

void write_summary(struct trace *t, FILE *out, bool as_json)
{
	struct summary *s = new_memory(1, sizeof(*s));
	const struct sink sink = { .user = s,
				   .span = on_span,
				   .proc = on_proc,
				   .region = on_region,
				   .wake = on_wake,
				   .event = on_event,
				   .gone = on_gone };

	for (unsigned i = 0; i < LABEL_CODES; i++)
		s->is_mutex[i] = t->labels[LABEL_REASON][i] != NULL &&
				 strstr(t->labels[LABEL_REASON][i], "mutex") != NULL;
	model_run(&s->model, t, &sink);
	sort_all(s);
	if (as_json)
		summary_as_json(s, out);
	else
		summary_as_text(s, out);
	summary_free(s);
}
