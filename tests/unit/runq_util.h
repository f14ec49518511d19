/* SPDX-License-Identifier: MIT */
/* Four Ps and their Gs, for tests of src/runq.c. */
#ifndef TESTS_UNIT_RUNQ_UTIL_H
#define TESTS_UNIT_RUNQ_UTIL_H

#include "check.h"

#include "runq.h"

#include "waiter.h"

enum { GREENS = 4096 };

static struct g greens[GREENS];
static struct p ps[4];

__attribute__((unused)) static int index_of(struct g *gp)
{
	return gp ? (int)(gp - greens) : -1;
}

__attribute__((unused)) static void begin(int procs, bool shared)
{
	CHECK_EQ(gq_init(GREENS), 0);
	sched.procs = procs;
	for (int i = 0; i < 4; i++)
		ps[i].shared = ps[i].open = shared, ps[i].room = ps[i].yield_room = RUNQ_SIZE;
}

__attribute__((unused)) static void put_range(struct p *pp, int from, int to)
{
	for (int i = from; i < to; i++)
		runq_put(pp, &greens[i]);
}

__attribute__((unused)) static void expect_range(struct p *pp, int from, int to)
{
	for (int i = from; i < to; i++)
		CHECK_EQ(index_of(runq_get(pp)), i);
}

__attribute__((unused)) static void gq_put_range(int from, int to)
{
	lock(&sched.lock, LR_SCHED);
	for (int i = from; i < to; i++)
		gq_put(&greens[i]);
	unlock(&sched.lock, LR_SCHED);
}

__attribute__((unused)) static struct g *gq_get_locked(struct p *pp, unsigned most)
{
	lock(&sched.lock, LR_SCHED);
	struct g *gp = gq_get(pp, most);
	unlock(&sched.lock, LR_SCHED);
	return gp;
}

__attribute__((unused)) static void gq_expect_range(int from, int to)
{
	for (int i = from; i < to; i++)
		CHECK_EQ(index_of(gq_get_locked(&ps[0], 1)), i);
}

__attribute__((unused)) static void yield_range(struct p *pp, int from, int to)
{
	for (int i = from; i < to; i++)
		runq_yield(pp, &greens[i]);
}

__attribute__((unused)) static void expect_yielded(struct p *pp, int from, int to)
{
	for (int i = from; i < to; i++)
		CHECK_EQ(index_of(runq_get_yielded(pp)), i);
}

__attribute__((unused)) static void gq_yield_range(int from, int to)
{
	lock(&sched.lock, LR_SCHED);
	for (int i = from; i < to; i++)
		gq_put_yielded(&greens[i]);
	unlock(&sched.lock, LR_SCHED);
}

/* Take Gs of LANE_YIELD one at a time. */
__attribute__((unused)) static void gq_expect_yielded(int from, int to)
{
	for (int i = from; i < to; i++) {
		lock(&sched.lock, LR_SCHED);
		CHECK(gq_len(LANE_YIELD) > 0);
		CHECK_EQ(index_of(gq_get_from(&ps[0], LANE_YIELD)), i);
		unlock(&sched.lock, LR_SCHED);
	}
}

#endif
