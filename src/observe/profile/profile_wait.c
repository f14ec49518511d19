/* SPDX-License-Identifier: MIT */
/*
 * Profiles of waits, of locks, and of the green threads alive: moments at which every G is viewed.
 *
 * A moment views each G by snapshot_parked (SNAPSHOT-1), one after the other, while the program
 * runs. A G that is parked at a moment has waited since the last moment: its stack gets the time
 * between the two. So the sum of a stack estimates the time that Gs have waited there without bias.
 * The next moment is after MOMENT_NS, and not before the moments have taken one DUTY-th of the
 * time.
 *
 * A wait that the last moment has seen too is recognized (struct snapshot_wait), is not unwound
 * again, and is not counted again.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "g.h"
#include "observe/dump/snapshot.h"
#include "observe/profile/profile.h"

enum { MOMENT_NS = 10 * MS, DUTY = 10 };

/* The reasons that are waits for a lock, as bits (snapshot_parked). */
static const uint32_t locks = 0
#define WAITREASON(name, text, key, end, handler)                                                  \
	| (uint32_t)(WAITKEY_##key == WAITKEY_LOCK) << name
#include "waitreason.def"
#undef WAITREASON
	;

/* What the last moment has seen of a G. */
struct wait_memo {
	struct wait_id id;
	struct trace_count *entry; /* NULL: it did not wait */
};

struct wait_collector {
	struct profile_job *job;
	uint32_t reasons;
	bool by_holder;
	struct wait_memo *memo; /* by the index of the G */
	size_t memos;
	struct snapshot_wait view;
};

static const struct pprof_kind wait_kind = {
	.value = { { "waits", "count" }, { "delay", "nanoseconds" } },
	.label = { "reason" },
};

static const struct pprof_kind mutex_kind = {
	.value = { { "waits", "count" }, { "delay", "nanoseconds" } },
	.label = { "reason", "holder" },
};

/* --- waits --- */

/* Make room for the memos of n Gs. */
static bool memos_grow(struct wait_collector *c, size_t n)
{
	size_t cap = c->memos;
	struct wait_memo *memo = array_grow(c->memo, &cap, n, sizeof(*memo));

	if (!memo)
		return false;
	memset(memo + c->memos, 0, (cap - c->memos) * sizeof(*memo));
	c->memo = memo;
	c->memos = cap;
	return true;
}

static struct trace_count *trace_counts_wait(struct wait_collector *c,
					     const struct snapshot_wait *v)
{
	struct trace_count key = { .fn = v->fn, .n = v->trace.n, .pc = v->trace.pc };

	trace_counts_green(key.green, v->id.g, v->name);
	snprintf(key.label[0], sizeof(key.label[0]), "%s", wait_kinds[v->id.reason].text);
	if (c->by_holder && v->holder)
		trace_counts_green(key.label[1], v->holder, v->holder_name);
	else if (c->by_holder)
		snprintf(key.label[1], sizeof(key.label[1]), "not known");
	return trace_counts_find(&c->job->p.counts, &key);
}

/* View gp, whose last wait is *memo.  span: time since the last moment; 0: since it parked. */
static int wait_view(struct wait_collector *c, struct g *gp, struct wait_memo *memo, int64_t span)
{
	struct snapshot_wait *v = &c->view;
	bool traced = false;
	struct trace_count *e = memo->entry;

	v->id = memo->id;
	if (!memo->entry || c->by_holder)
		v->id.sp = NULL; /* no wait is the same: another G may hold the lock now */
	if (!snapshot_parked(v, gp, c->reasons, &traced)) {
		memo->entry = NULL;
		return 0;
	}
	bool same = memo->entry && wait_is_same(&memo->id, &v->id);

	if (!traced)
		e = trace_counts_wait(c, v);
	if (!e)
		return -ENOMEM;
	e->value[0] += !same;
	e->value[1] += span ? span : max_of(os_now() - v->id.since, (int64_t)0);
	*memo = (struct wait_memo){ v->id, e };
	return 0;
}

static int wait_moment(struct wait_collector *c, int64_t span)
{
	uint32_t made = g_made();
	int err = 0;

	if (made > c->memos && !memos_grow(c, made))
		return -ENOMEM;
	for (uint32_t i = 0; i < made && !err; i++)
		err = wait_view(c, g_at(i), &c->memo[i], span);
	return err;
}

static int wait_moments(struct wait_collector *c)
{
	int64_t last = os_now(), end = last + c->job->ns, rest = MOMENT_NS;
	int err = 0;

	if (c->job->ns == 0)
		return wait_moment(c, 0);
	while (!err && last < end) {
		err = profile_nap(c->job, min_of(last + rest, end));
		if (err)
			return err;
		int64_t now = os_now();

		err = wait_moment(c, now - last);
		rest = max_of((int64_t)MOMENT_NS, DUTY * (os_now() - now));
		last = now;
	}
	return err;
}

static int collect_waits(struct profile_job *job, uint32_t reasons, bool by_holder)
{
	struct wait_collector c = { .job = job, .reasons = reasons, .by_holder = by_holder };
	int err = wait_moments(&c);

	free(c.memo);
	return err;
}

int profile_collect_wait(struct profile_job *job)
{
	job->p.kind = &wait_kind;
	return collect_waits(job, UINT32_MAX, false);
}

int profile_collect_mutex(struct profile_job *job)
{
	job->p.kind = &mutex_kind;
	return collect_waits(job, locks, true);
}

/* --- green threads --- */

static const struct pprof_kind green_kind = {
	.value = { { "green_threads", "count" } },
	.label = { "state" },
};

/* The stack is the entry function, called by the place that made the G. */
static int trace_counts_brief(struct profile_job *job, const struct snapshot *v)
{
	uintptr_t pc[] = { (uintptr_t)v->fn, v->made_at - 1 };
	struct trace_count key = { .fn = v->fn, .n = v->made_at ? 2 : 1, .pc = pc }, *e;

	if (v->state)
		snprintf(key.label[0], sizeof(key.label[0]), "%s", v->state);
	else
		snprintf(key.label[0], sizeof(key.label[0]), "waiting: %s",
			 wait_kinds[v->reason].text);
	e = trace_counts_find(&job->p.counts, &key);
	if (!e)
		return -ENOMEM;
	e->value[0]++;
	return 0;
}

int profile_collect_green(struct profile_job *job)
{
	uint32_t made = g_made(), unlisted = unstarted_count();
	struct snapshot v;
	int err = 0;

	job->p.kind = &green_kind;
	for (uint32_t i = 0; i < made && !err; i++)
		if (snapshot_brief(&v, g_at(i)))
			err = trace_counts_brief(job, &v);
	if (unlisted)
		snprintf(job->comment, sizeof(job->comment),
			 "about %u more, not begun, are not listed", (unsigned)unlisted);
	return err;
}
