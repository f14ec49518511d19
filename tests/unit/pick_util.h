/* SPDX-License-Identifier: MIT */
/* A P in a replayed run, whose switches are its time, for tests of src/pick.c. */
#ifndef TESTS_UNIT_PICK_UTIL_H
#define TESTS_UNIT_PICK_UTIL_H

#include "check.h"

#include "pick.h"

#include "netpoll/netpoll.h"

/* As in src/pick.c. */
enum {
	SWITCH = TICKS_10US, /* in a replayed run */
	QUANTUM_CREDIT = CHECK_TICKS / 4,
	INTERVAL = GLOBAL_INTERVAL * SWITCH,
	SLOW = 5 * TICKS_10US,
};

int __wrap_netpoll_poll(int64_t ns, struct glist *out);

static int polls;

int __wrap_netpoll_poll(int64_t ns, struct glist *out)
{
	(void)out;
	CHECK_EQ(ns, 0);
	polls++;
	return 0;
}

enum { GREENS = 4096 };

static struct g greens[GREENS];
static struct p pp;

__attribute__((unused)) static int index_of(struct g *gp)
{
	return gp ? (int)(gp - greens) : -1;
}

__attribute__((unused)) static uint64_t ticks(void)
{
	return pp.count.switches * SWITCH;
}

__attribute__((unused)) static bool quantum_begun(void)
{
	return pp.attention & ATTENTION_YIELDED;
}

/* A P whose last check was at `switches`, and whose Gs run for 10 us each. */
__attribute__((unused)) static void begin_at(uint64_t switches)
{
	CHECK_EQ(gq_init(GREENS), 0);
	sched.procs = 1;
	sched.virtual_now = 1;
	pp.timers.next = NEVER;
	pp.room = pp.yield_room = RUNQ_SIZE;
	pp.count.switches = switches;
	pick_begin(&pp);
	CHECK(check_global(&pp) == NULL); /* the pace of a new P is not known before */
	CHECK_EQ(pp.drr.every, GLOBAL_INTERVAL);
	CHECK_EQ(pp.drr.credit, 0);
}

__attribute__((unused)) static void begin(void)
{
	begin_at(1000);
}

/* n Gs of an event run. */
__attribute__((unused)) static void run_first(unsigned n)
{
	pp.count.switches += n;
}

/* n Gs of the yield lane run and yield. */
__attribute__((unused)) static void run_yielded(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct g *gp = runq_get_yielded(&pp);

		CHECK(gp != NULL);
		pp.count.switches++;
		runq_yield(&pp, gp);
	}
}

__attribute__((unused)) static void yield_range(int from, int to)
{
	for (int i = from; i < to; i++)
		runq_yield(&pp, &greens[i]);
}

__attribute__((unused)) static void put_range(int from, int to)
{
	for (int i = from; i < to; i++)
		runq_put(&pp, &greens[i]);
}

__attribute__((unused)) static void gq_range(int from, int to, void (*put)(struct g *))
{
	lock(&sched.lock, LR_SCHED);
	for (int i = from; i < to; i++)
		put(&greens[i]);
	unlock(&sched.lock, LR_SCHED);
}

/* A check, before which `runs` switches took `used` in all. */
__attribute__((unused)) static void check_after(unsigned runs, int64_t used)
{
	pp.count.switches += runs;
	pp.drr.since = ticks() - (uint64_t)used;
	CHECK(check_global(&pp) == NULL);
}

__attribute__((unused)) static void expect_due_after(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		CHECK(!check_is_due(&pp));
		run_first(1);
	}
	CHECK(check_is_due(&pp));
}

#endif
