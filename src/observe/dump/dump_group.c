/* SPDX-License-Identifier: MIT */
/* Groups of green threads that are alike: see observe/dump/dump_group.h. */
#include "observe/dump/dump_group.h"

#include <string.h>

enum { PROBES = 32 };

static uint64_t mix(uint64_t h, uint64_t word)
{
	h = (h ^ word) * 0x9e3779b97f4a7c15u;
	return h ^ h >> 29;
}

uint64_t dump_group_hash_trace(const struct trace *t)
{
	uint64_t h = (uint64_t)t->n;

	for (int i = 0; i < t->n; i++)
		h = mix(h, t->pc[i]);
	return h ? h : 1;
}

static uint64_t hash_view(const struct snapshot *v)
{
	uint64_t h = dump_group_hash_trace(&v->trace);

	h = mix(mix(h, (uintptr_t)v->fn), v->made_at);
	h = mix(mix(h, (uintptr_t)v->state), v->reason);
	for (size_t i = 0; v->awaits && i < v->what.n; i++)
		h = mix(h, (uint64_t)v->what.text[i]);
	return h;
}

static bool same_what(const struct snapshot *a, const struct snapshot *b)
{
	return a->what.n == b->what.n && memcmp(a->what.text, b->what.text, a->what.n) == 0;
}

static bool are_alike(const struct snapshot *a, const struct snapshot *b)
{
	return a->fn == b->fn && a->made_at == b->made_at && a->state == b->state &&
	       a->reason == b->reason && a->awaits == b->awaits &&
	       (!a->awaits || same_what(a, b)) && a->trace.n == b->trace.n &&
	       memcmp(a->trace.pc, b->trace.pc, (size_t)a->trace.n * sizeof(a->trace.pc[0])) == 0;
}

/* Return whether a and b form one range. An entry with a name is not part of a range. */
static bool continues(const struct members *a, const struct members *b)
{
	return !a->name[0] && !b->name[0] && a->last + 1 == b->first;
}

static void remove_entry(struct dump_group *g, unsigned i)
{
	g->members--;
	memmove(&g->member[i], &g->member[i + 1], (g->members - i) * sizeof(g->member[0]));
}

/* Insert v, keeping DUMPGROUP-1. Without room, the entry with the largest ids is counted in `more`.
 * */
static void add_member(struct dump_group *g, const struct snapshot *v)
{
	struct members m = { .first = v->id, .last = v->id };
	unsigned i = g->members;

	memcpy(m.name, v->name, sizeof(m.name));
	while (i > 0 && g->member[i - 1].first > m.first)
		i--;
	if (i > 0 && continues(&g->member[i - 1], &m)) {
		g->member[--i].last = m.last;
	} else if (i < g->members && continues(&m, &g->member[i])) {
		g->member[i].first = m.first;
	} else if (i == MEMBERS_MOST) {
		g->more++;
		return;
	} else {
		if (g->members == MEMBERS_MOST) {
			const struct members *last = &g->member[--g->members];

			g->more += last->last - last->first + 1;
		}
		memmove(&g->member[i + 1], &g->member[i],
			(g->members++ - i) * sizeof(g->member[0]));
		g->member[i] = m;
	}
	if (i + 1 < g->members && continues(&g->member[i], &g->member[i + 1])) {
		g->member[i].last = g->member[i + 1].last;
		remove_entry(g, i + 1);
	}
}

void dump_group_begin(struct dump_group *g, const struct snapshot *v, uint64_t hash)
{
	g->hash = hash;
	g->v = *v;
	g->n = 1;
	g->same_what = true;
	g->since_least = g->since_most = v->since;
	g->born_least = g->born_most = v->born;
	g->cpu_least = g->cpu_most = v->cpu_ns;
	g->members = 0;
	g->more = 0;
	add_member(g, v);
}

static void add_to(struct dump_group *g, const struct snapshot *v)
{
	g->n++;
	g->same_what = g->same_what && same_what(&g->v, v);
	g->since_least = min_of(g->since_least, v->since);
	g->since_most = max_of(g->since_most, v->since);
	g->cpu_least = min_of(g->cpu_least, v->cpu_ns);
	g->cpu_most = max_of(g->cpu_most, v->cpu_ns);
	g->born_least = min_of(g->born_least, v->born);
	g->born_most = max_of(g->born_most, v->born);
	add_member(g, v);
}

bool dump_group_add(struct dump_groups *a, const struct snapshot *v)
{
	uint64_t hash = hash_view(v);

	for (unsigned i = 0; i < PROBES; i++) {
		uint16_t *slot = &a->slot[(hash + i) % GROUP_SLOTS];
		struct dump_group *g = *slot ? &a->of[*slot - 1] : NULL;

		if (g && g->hash == hash && are_alike(&g->v, v)) {
			add_to(g, v);
			return true;
		}
		if (!g && a->n == GROUP_MOST)
			return false;
		if (!g) {
			dump_group_begin(&a->of[a->n++], v, hash);
			*slot = (uint16_t)a->n;
			return true;
		}
	}
	return false;
}

unsigned dump_group_members_sig(const struct dump_group *g, unsigned from, struct line *l)
{
	unsigned i = from;

	for (; i < g->members && l->n < sizeof(l->text) - G_NAME_MAX - 64; i++) {
		const struct members *m = &g->member[i];

		line_add_sig(l, "%s%lu", i == 0 ? "" : ", ", m->first);
		if (m->last > m->first)
			line_add_sig(l, "%s%lu", m->last == m->first + 1 ? ", " : "-", m->last);
		if (m->name[0])
			line_add_sig(l, " \"%s\"", m->name);
	}
	if (i == g->members && g->more)
		line_add_sig(l, ", and %lu more", g->more);
	return i - from;
}
