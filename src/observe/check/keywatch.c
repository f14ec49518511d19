/* SPDX-License-Identifier: MIT */
/*
 * Values of pthread keys: finds keys that a green thread set and that have another value after a
 * wait.
 *
 * The value of a key belongs to an OS thread, as a thread-local does (tlswatch.c). libgmprtcheck
 * notes the keys that are set on an OS thread. When a G leaves its stack, the keys noted since the
 * last switch there are set by this G. When the G continues, their values are compared.
 *
 * Not compared: keys that a library of the system or gmp sets, keys whose value is NULL at the
 * wait, keys deleted meanwhile, more than KEYS_OF_G keys of one G.
 *
 * Invariant
 *   - Only the M that runs a G accesses the record of the G, on g0. Only the M itself
 *     accesses the record of an M.
 */
#include "observe/check/keywatch.h"

#include <dlfcn.h>
#include <limits.h>
#include <string.h>

#include "base/finding.h"
#include "base/os.h"
#include "g.h"
#include "observe/check/tlswatch.h"

enum { KEYS_OF_G = 8, TAKEN_MOST = 16, MS_MOST = 4096 };

/* check/keys.c */
struct gmp_check_key {
	unsigned key, generation;
	const void *where;
};
typedef int (*keys_fn)(struct gmp_check_key *keys, int room);
typedef int (*value_fn)(const struct gmp_check_key *key, const void **value);

struct g_record {
	uint32_t m; /* id + 1 of the M that the G left */
	uint32_t n;
	struct {
		struct gmp_check_key key;
		const void *value;
	} set[KEYS_OF_G];
};

struct m_record {
	uint64_t setter[PTHREAD_KEYS_MAX]; /* id of the G that set the key last; 0: none */
};

enum verdict { UNKNOWN, PROGRAMS, OTHERS };

static struct {
	keys_fn keys;
	value_fn value;
	struct g_record *gs;
	struct m_record *ms;
	size_t gs_bytes, ms_bytes;
	uint32_t verdict[PTHREAD_KEYS_MAX]; /* (a) enum verdict */
	uint32_t reports[PTHREAD_KEYS_MAX]; /* (a) changes found; only the first one is reported */
} watch;

/* Return whether code of the program sets the key: decided by the first code that sets it. */
static bool is_programs(const struct gmp_check_key *k)
{
	uint32_t verdict = ld_rlx(&watch.verdict[k->key]);

	if (verdict == UNKNOWN) {
		verdict = code_is_programs((uintptr_t)k->where - 1) ? PROGRAMS : OTHERS;
		st_rlx(&watch.verdict[k->key], verdict);
	}
	return verdict == PROGRAMS;
}

static uint64_t *setter_of(const struct m *m, const struct gmp_check_key *k)
{
	return m->id < MS_MOST ? &watch.ms[m->id].setter[k->key] : NULL;
}

static void keywatch_note(struct g_record *g, const struct gmp_check_key *k)
{
	uint32_t i = 0;

	while (i < g->n && g->set[i].key.key != k->key)
		i++;
	if (i == KEYS_OF_G)
		return;
	g->set[i].key = *k;
	if (i == g->n)
		g->n++;
}

/* Move the keys that libgmprtcheck noted on this OS thread to the record of gp. */
static void take_noted_keys(const struct m *m, const struct g *gp, struct g_record *g)
{
	struct gmp_check_key taken[TAKEN_MOST];
	int n = watch.keys(taken, TAKEN_MOST);

	for (int i = 0; i < n; i++) {
		if (!is_programs(&taken[i]))
			continue;
		if (setter_of(m, &taken[i]))
			*setter_of(m, &taken[i]) = gp->id;
		keywatch_note(g, &taken[i]);
	}
}

static void keywatch_remove(struct g_record *g, uint32_t i)
{
	g->set[i] = g->set[--g->n];
}

bool keywatch_leave(const struct m *m, const struct g *gp)
{
	if (!watch.gs)
		return false;
	struct g_record *g = &watch.gs[g_index(gp)];

	take_noted_keys(m, gp, g);
	g->m = (uint32_t)m->id + 1;
	for (uint32_t i = g->n; i-- > 0;)
		if (!watch.value(&g->set[i].key, &g->set[i].value) || !g->set[i].value)
			keywatch_remove(g, i);
	return g->n;
}

void keywatch_exit(const struct m *m, const struct g *gp)
{
	if (!watch.gs)
		return;
	take_noted_keys(m, gp, &watch.gs[g_index(gp)]);
	watch.gs[g_index(gp)].n = 0;
}

static void keywatch_name_change(struct line *l, const struct gmp_check_key *k, uint64_t setter,
				 bool moved)
{
	line_add_sig(l, "%u in ", k->key);
	finding_place(l, (uintptr_t)k->where - 1);
	tlswatch_name_writer(l, "set", setter, moved);
}

bool keywatch_arrive(const struct m *m, const struct g *gp, struct line *l)
{
	if (!watch.gs)
		return false;
	struct g_record *g = &watch.gs[g_index(gp)];
	const void *now;

	for (uint32_t i = g->n; i-- > 0;) {
		struct gmp_check_key k = g->set[i].key;

		if (watch.value(&k, &now) && now == g->set[i].value)
			continue;
		bool deleted = !watch.value(&k, &now);

		keywatch_remove(g, i);
		if (!deleted && add_rlx(&watch.reports[k.key], 1) == 0) {
			const uint64_t *setter = setter_of(m, &k);

			keywatch_name_change(l, &k, setter ? *setter : 0,
					     g->m != (uint32_t)m->id + 1);
			return true;
		}
	}
	return false;
}

void keywatch_begin(void)
{
	struct gmp_check_key before[TAKEN_MOST];

	memset(&watch, 0, sizeof(watch));
	watch.keys = (keys_fn)dlsym(RTLD_DEFAULT, "gmp_check_keys");
	watch.value = (value_fn)dlsym(RTLD_DEFAULT, "gmp_check_key_value");
	if (!watch.keys || !watch.value)
		return;
	watch.keys(before, TAKEN_MOST); /* drop the keys that were set before the run */
	watch.ms_bytes = round_up(MS_MOST * sizeof(struct m_record), PAGE);
	watch.gs_bytes = round_up(sched.options.c.max_green * sizeof(struct g_record), PAGE);
	watch.ms = os_reserve(watch.ms_bytes);
	watch.gs = os_reserve(watch.gs_bytes);
	if (!watch.ms || !watch.gs)
		keywatch_end();
}

void keywatch_end(void)
{
	os_release(watch.gs, watch.gs_bytes);
	os_release(watch.ms, watch.ms_bytes);
	watch.gs = NULL;
	watch.ms = NULL;
}
