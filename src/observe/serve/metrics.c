/* SPDX-License-Identifier: MIT */
/*
 * GET /metrics: the statistics in Prometheus' text format 0.0.4.
 *
 * Times are in seconds, with nine decimals, printed as integers: no locale and no floating point.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "gmp.h"
#include "observe/latency.h"
#include "observe/serve/server.h"
#include "proc.h"
#include "runq.h"
#include "timer/timerheap.h"

enum kind { NONE, GAUGE, TOTAL, GAUGE_S, TOTAL_S };

struct metric {
	enum kind kind;
	size_t at; /* of the field in gmp_stats */
	const char *name, *help;
};

static const struct metric metrics[] = {
#define STAT(kind, field, name, help) { kind, offsetof(gmp_stats, field), name, help },
#include "observe/stat.def"
#undef STAT
};

_Static_assert(countof(metrics) * sizeof(uint64_t) + offsetof(gmp_stats, greens) ==
		       sizeof(gmp_stats) - sizeof(((gmp_stats *)NULL)->latency),
	       "stat.def has every integer field of gmp_stats");

static void put_head(struct debug_request *r, const char *name, const char *suffix,
		     const char *type, const char *help)
{
	debug_print(r, "# HELP %s%s %s\n# TYPE %s%s %s\n", name, suffix, help, name, suffix, type);
}

static void put_seconds(struct debug_request *r, uint64_t ns)
{
	debug_print(r, "%llu.%09llu\n", (unsigned long long)(ns / S), (unsigned long long)(ns % S));
}

static void put_metric(struct debug_request *r, const struct metric *m, const gmp_stats *s)
{
	uint64_t v = *(const uint64_t *)((const char *)s + m->at);
	bool total = m->kind == TOTAL || m->kind == TOTAL_S;
	const char *suffix = total ? "_total" : "";

	if (m->kind == NONE)
		return;
	put_head(r, m->name, suffix, total ? "counter" : "gauge", m->help);
	debug_print(r, "%s%s ", m->name, suffix);
	if (m->kind == GAUGE_S || m->kind == TOTAL_S)
		put_seconds(r, v);
	else
		debug_print(r, "%llu\n", (unsigned long long)v);
}

/* --- latency --- */

/* A line; cause: NULL is a metric of all causes. */
static void put_quantile(struct debug_request *r, const char *cause, const char *q, uint64_t ns)
{
	if (cause)
		debug_print(r, "gmp_latency_seconds{cause=\"%s\",quantile=\"%s\"} ", cause, q);
	else
		debug_print(r, "gmp_latency_all_seconds{quantile=\"%s\"} ", q);
	put_seconds(r, ns);
}

/* Without samples there are no quantiles. */
static void put_quantiles(struct debug_request *r, const char *cause, const gmp_latency *l)
{
	if (!l->samples)
		return;
	put_quantile(r, cause, "0.5", l->p50);
	put_quantile(r, cause, "0.9", l->p90);
	put_quantile(r, cause, "0.99", l->p99);
	put_quantile(r, cause, "1", l->max);
}

static void put_latency(struct debug_request *r, const gmp_stats *s)
{
	gmp_latency all = { .samples = s->latency_samples,
			    .p50 = s->latency_p50,
			    .p90 = s->latency_p90,
			    .p99 = s->latency_p99,
			    .max = s->latency_max };

	put_head(r, "gmp_latency_seconds", "", "summary",
		 "Time from runnable to running, by what made it runnable; count: measurements.");
	for (int c = 0; c < GMP_LATENCY_CAUSES; c++) {
		put_quantiles(r, latency_causes[c], &s->latency[c]);
		debug_print(r, "gmp_latency_seconds_count{cause=\"%s\"} %llu\n", latency_causes[c],
			    (unsigned long long)s->latency[c].samples);
	}
	put_head(r, "gmp_latency_all_seconds", "", "summary",
		 "Time from runnable to running; count: measurements.");
	put_quantiles(r, NULL, &all);
	debug_print(r, "gmp_latency_all_seconds_count %llu\n", (unsigned long long)all.samples);
}

/* --- Ps --- */

struct p_values {
	uint64_t running, runnext, ring, yielded, timers, switches;
};

static struct p_values p_read(struct p *pp)
{
	return (struct p_values){
		.running = (ld_rlx(&pp->status) & P_STATUS_MASK) == P_RUNNING,
		.runnext = ld_rlx(&pp->runnext) != NULL,
		.ring = runq_ready_len(pp),
		.yielded = ring_len(pp, LANE_YIELD),
		.timers = timers_count_unlocked(pp),
		.switches = ld_rlx(&pp->count.switches),
	};
}

static const struct p_metric {
	size_t at; /* in struct p_values */
	const char *name, *type, *help;
} p_metrics[] = {
#define AT(field) offsetof(struct p_values, field)
	{ AT(running), "gmp_p_running", "gauge", "Whether an OS thread runs the P." },
	{ AT(runnext), "gmp_p_runnext", "gauge", "Whether the P has a runnext." },
	{ AT(ring), "gmp_p_queue", "gauge", "Green threads in the ring of the P." },
	{ AT(yielded), "gmp_p_yielded", "gauge", "Green threads of the P that have yielded." },
	{ AT(timers), "gmp_p_timers", "gauge", "Armed timers of the P." },
	{ AT(switches), "gmp_p_switches_total", "counter", "Times that a green thread got the P." },
#undef AT
};

static void put_ps(struct debug_request *r)
{
	int n = ld_acq(&sched.nallp); /* ORD(allp) */

	for (size_t k = 0; k < countof(p_metrics); k++) {
		const struct p_metric *m = &p_metrics[k];

		put_head(r, m->name, "", m->type, m->help);
		for (int i = 0; i < n; i++) {
			struct p_values v = p_read(sched.allp[i]);

			debug_print(r, "%s{p=\"%d\"} %llu\n", m->name, i,
				    (unsigned long long)*(uint64_t *)((char *)&v + m->at));
		}
	}
}

/* --- the page --- */

static void put_info(struct debug_request *r)
{
	const char *program = program_invocation_short_name, *version = gmp_version_string();

	put_head(r, "gmp_info", "", "gauge", "The version of gmp, and the program; always 1.");
	debug_print(r, "gmp_info{version=\"");
	debug_text(r, version, strlen(version), DEBUG_LABEL);
	debug_print(r, "\",program=\"");
	debug_text(r, program, strlen(program), DEBUG_LABEL);
	debug_print(r, "\"} 1\n");
	put_head(r, "gmp_run", "", "gauge", "Number of the run in this process.");
	debug_print(r, "gmp_run %llu\n", (unsigned long long)gmp_run_id());
	put_head(r, "gmp_run_seconds", "", "gauge", "Time since the start of the run.");
	debug_print(r, "gmp_run_seconds ");
	put_seconds(r, (uint64_t)max_of(gmp_now() - sched.start_now, INT64_C(0)));
	put_head(r, "gmp_global_queue", "", "gauge", "Green threads in the global queue.");
	debug_print(r, "gmp_global_queue %u\n", ld_rlx(&sched.gqn));
}

int debug_page_metrics(struct debug_request *r)
{
	gmp_stats s = GMP_STATS_INIT;
	int err = gmp_stats_get(&s);

	if (err)
		return err;
	debug_begin(r, "text/plain; version=0.0.4; charset=utf-8");
	put_info(r);
	for (size_t i = 0; i < countof(metrics); i++)
		put_metric(r, &metrics[i], &s);
	put_latency(r, &s);
	put_ps(r);
	return r->err;
}
