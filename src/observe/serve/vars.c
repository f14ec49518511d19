/* SPDX-License-Identifier: MIT */
/*
 * GET /debug/vars: the state of the runtime as one JSON object, for gmp-top and scripts.
 *
 * All numbers are integers, times in ns. The fields: docs/api/debug-server.md.
 *
 * Green threads are listed in two steps. An unlocked walk over the g structs picks the candidates
 * that have waited longest, or have used most CPU time; then each of these is held and read
 * (observe/dump/snapshot.h). A candidate that has been woken or has ended between the steps is left
 * out.
 */
#include <string.h>
#include <unistd.h>

#include "base/os.h"
#include "g.h"
#include "gmp.h"
#include "observe/dump/snapshot.h"
#include "observe/latency.h"
#include "observe/serve/server.h"
#include "observe/trace/tracing.h"
#include "observe/tracing.h"
#include "proc.h"
#include "runq.h"
#include "timer/timerheap.h"

enum { LISTED_MOST = 20 };

typedef unsigned long long ull;

static void put_string(struct debug_request *r, const char *text)
{
	debug_print(r, "\"");
	debug_text(r, text, strlen(text), DEBUG_JSON);
	debug_print(r, "\"");
}

/* --- the run and its statistics --- */

static void put_run(struct debug_request *r)
{
	debug_print(r, "{\n\"version\":");
	put_string(r, gmp_version_string());
	debug_print(r, ",\"pid\":%d,\"run\":%llu,\"time_ns\":%lld,\"start_ns\":%lld,\n", getpid(),
		    (ull)gmp_run_id(), (long long)gmp_now(), (long long)sched.start_now);
	bool cputime = (r->head.cputime && cputime_lease(r->head.cputime * GMP_S)) ||
		       recording() & RECORD_CPU;

	debug_print(r, "\"procs\":%d,\"cputime\":%s,\n", gmp_procs(), cputime ? "true" : "false");
}

static void put_stats(struct debug_request *r, const gmp_stats *s)
{
	debug_print(r, "\"stats\":{");
#define STAT(kind, field, name, help) debug_print(r, "\"" #field "\":%llu,\n", (ull)s->field);
#include "observe/stat.def"
#undef STAT
	debug_print(r, "\"latency\":{");
	for (int c = 0; c < GMP_LATENCY_CAUSES; c++) {
		const gmp_latency *l = &s->latency[c];

		debug_print(r,
			    "%s\"%s\":{\"samples\":%llu,\"p50\":%llu,\"p90\":%llu,\"p99\":%llu,"
			    "\"max\":%llu}",
			    c ? ",\n" : "", latency_causes[c], (ull)l->samples, (ull)l->p50,
			    (ull)l->p90, (ull)l->p99, (ull)l->max);
	}
	debug_print(r, "}},\n");
}

/* --- Ps --- */

static void put_p(struct debug_request *r, struct p *pp)
{
	const struct counters *c = &pp->count;

	debug_print(r,
		    "{\"id\":%d,\"status\":\"%s\",\"thread\":%d,\"runnext\":%d,\"ring\":%u,"
		    "\"yielded\":%u,\"timers\":%u,",
		    pp->id, snapshot_p_states[ld_rlx(&pp->status) & P_STATUS_MASK],
		    ld_rlx(&pp->tid), ld_rlx(&pp->runnext) != NULL, runq_ready_len(pp),
		    ring_len(pp, LANE_YIELD), timers_count_unlocked(pp));
	debug_print(r,
		    "\"switches\":%llu,\"spawns\":%llu,\"exits\":%llu,\"steals\":%llu,"
		    "\"stolen\":%llu,\"overflows\":%llu}",
		    (ull)ld_rlx(&c->switches), (ull)ld_rlx(&c->spawns), (ull)ld_rlx(&c->exits),
		    (ull)ld_rlx(&c->steals), (ull)ld_rlx(&c->stolen), (ull)ld_rlx(&c->overflows));
}

static void put_ps(struct debug_request *r)
{
	int n = ld_acq(&sched.nallp); /* ORD(allp) */

	debug_print(r, "\"ps\":[");
	for (int i = 0; i < n; i++) {
		debug_print(r, i ? ",\n" : "");
		put_p(r, sched.allp[i]);
	}
	debug_print(r, "],\n\"global_queue\":{\"events\":%u,\"yielded\":%u},\n", gq_ready_len(),
		    gq_len(LANE_YIELD));
}

/* --- green threads --- */

struct candidates {
	unsigned n;
	struct candidate {
		int64_t key;
		uint32_t at; /* index of the g struct */
	} of[LISTED_MOST];   /* the smallest key first */
};

static void candidate_add(struct candidates *c, int64_t key, uint32_t at)
{
	unsigned i = min_of(c->n, (unsigned)LISTED_MOST - 1);

	if (c->n == LISTED_MOST && key >= c->of[i].key)
		return;
	c->n = min_of(c->n + 1, (unsigned)LISTED_MOST);
	for (; i > 0 && c->of[i - 1].key > key; i--)
		c->of[i] = c->of[i - 1];
	c->of[i] = (struct candidate){ key, at };
}

/* The key of gp; false: gp is no candidate.  Unlocked: gp may be woken or end meanwhile, and then
 * the key is another one's. */
typedef bool (*key_fn)(const struct g *gp, int64_t *key);

static bool key_of_wait(const struct g *gp, int64_t *key)
{
	*key = ld_rlx(&gp->since);
	return ld_rlx(&gp->status) == G_WAITING;
}

static bool key_of_cpu(const struct g *gp, int64_t *key)
{
	uint8_t status = ld_rlx(&gp->status);
	uint64_t ns;
	bool known = cputime_of(gp, &ns);

	*key = -(int64_t)ns;
	return known && status != G_FREE && status != G_DEAD && (ns > 0 || status == G_RUNNING);
}

static void find_candidates(struct candidates *c, key_fn key_of)
{
	int64_t key;

	for (uint32_t i = 0, made = g_made(); i < made; i++) {
		if (key_of(g_at(i), &key))
			candidate_add(c, key, i);
		if (i % 4096 == 4095)
			gmp_checkpoint();
	}
}

/* The function at fn without an offset of 0. */
static void put_function(struct debug_request *r, uintptr_t fn)
{
	struct line l = { .n = 0, .names = r->names };

	line_sym_sig(&l, fn);
	debug_print(r, "\"");
	debug_text(r, l.text, l.n, DEBUG_JSON);
	debug_print(r, "\"");
}

static void put_green(struct debug_request *r, const struct snapshot *v, int64_t now)
{
	debug_print(r, "{\"id\":%llu,\"name\":", (ull)v->id);
	put_string(r, v->name);
	debug_print(r, ",\"entry\":");
	put_function(r, (uintptr_t)v->fn);
	debug_print(r, ",\"state\":");
	put_string(r, v->state ? v->state : "waiting");
	if (v->has_cpu)
		debug_print(r, ",\"cpu_ns\":%llu", (ull)max_of(v->cpu_ns, INT64_C(0)));
	else
		debug_print(r, ",\"cpu_ns\":null");
	debug_print(r, ",\"wait_ns\":%llu,\"wait\":",
		    v->state ? 0ULL : (ull)max_of(now - v->since, INT64_C(0)));
	put_string(r, v->state ? "" : wait_kinds[v->reason].text);
	debug_print(r, "}");
}

static void put_greens(struct debug_request *r, key_fn key_of)
{
	struct candidates c = { 0 };
	const char *before = "";

	find_candidates(&c, key_of);
	for (unsigned i = 0; i < c.n; i++) {
		struct snapshot v = { .what.names = r->names };

		if (!snapshot_green(&v, g_at(c.of[i].at), getm() ? getm()->curg : NULL, 0, NULL) ||
		    (v.state && key_of == key_of_wait))
			continue;
		debug_print(r, "%s", before);
		put_green(r, &v, os_now());
		before = ",\n";
	}
}

int debug_page_vars(struct debug_request *r)
{
	gmp_stats s = GMP_STATS_INIT;
	int err = gmp_stats_get(&s);

	if (err)
		return err;
	debug_begin(r, "application/json");
	put_run(r);
	put_stats(r, &s);
	put_ps(r);
	debug_print(r, "\"greens\":{\"alive\":%llu,\n\"by_cpu\":[", (ull)s.greens);
	put_greens(r, key_of_cpu);
	debug_print(r, "],\n\"by_wait\":[");
	put_greens(r, key_of_wait);
	debug_print(r, "]}\n}\n");
	return r->err;
}
