/* SPDX-License-Identifier: MIT */
/*
 * Tests which Ps preempt_poll and preempt_without_room take. sysmon does not run: an external
 * thread polls instead, at times that the test chooses.
 *
 * floors 0..6, wrap: sysmon_start sysmon_stop
 */
#define _GNU_SOURCE 1
#include "check.h"

#include "handoff.h"
#include "preempt.h"
#include "proc.h"

#include <pthread.h>

#include "base/os.h"
#include "enter.h"
#include "rt.h"
#include "runq.h"
#include "sysmon.h"
#include "timerheap.h"

int __wrap_sysmon_start(void);
void __wrap_sysmon_stop(void);

int __wrap_sysmon_start(void)
{
	preempt_begin();
	return 0;
}

void __wrap_sysmon_stop(void)
{
}

#define MS INT64_C(1000000)
#define SEC (1000 * MS)

enum { PS = 2, MOST = 3 * PS, GS = PS + MOST + 2 };

static gmp_wg ended = GMP_WG_INIT;
static gmp_timer *timers[PS];
static int begun;                /* (a) */
static int with_p;               /* (a) Gs that have a P when the bound is reached */
static int begun_at_expiry[PS];  /* (a) 0: the timer has not fired */
static uint32_t level, released; /* (a) level: the bound is reached, so that timers are set */

static void note_expiry(void *number)
{
	st_seq(&begun_at_expiry[(intptr_t)number], ld_seq(&begun));
}

/* When the bound is reached, a G with a P sets the timer of the next number on it. */
static void compute(void *arg)
{
	bool early = add_seq(&begun, 1) < PS + MOST;

	(void)arg;
	while (!ld_seq(&level) && !ld_seq(&released))
		cpu_relax();
	if (early && ld_seq(&level) && ld_seq(&getm()->taken) != P_TAKEN) {
		int number = add_seq(&with_p, 1);

		CHECK(number < PS);
		CHECK_EQ(gmp_timer_set(timers[number], gmp_deadline((number + 1) * MS), 0), 0);
	}
	while (!ld_seq(&released))
		cpu_relax();
	gmp_wg_done(&ended);
}

static void wait_until_begun(int n)
{
	while (ld_seq(&begun) != n)
		cpu_relax();
}

/* Runs n Gs that compute beside a monitor, which releases them. */
static void run_beside(void *(*monitor)(void *), int n)
{
	pthread_t thread;

	check_skip_on_valgrind("Valgrind runs one thread at a time");
	CHECK_EQ(gmp_wg_add(&ended, n), 0);
	for (intptr_t i = 0; i < PS; i++)
		CHECK((timers[i] = gmp_timer_new(note_expiry, (void *)i)) != NULL);
	for (int i = 0; i < n; i++)
		CHECK_EQ(gmp_go(compute, NULL), 0);
	CHECK_EQ(pthread_create(&thread, NULL, monitor, NULL), 0);
	CHECK_EQ(gmp_wg_wait(&ended), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	for (int i = 0; i < PS; i++)
		gmp_timer_free(timers[i]);
}

/* --- one P --- */

/* One poll of P 0. Returns true if the P was taken. */
static bool takes(int64_t ran, bool asked, bool urgent)
{
	int before = ld_seq(&sched.npreempted);

	bool taken = preempt_poll(0, ran, asked, urgent, os_now());

	CHECK_EQ(ld_seq(&sched.npreempted), before + taken);
	return taken;
}

static void *poll_one(void *arg)
{
	wait_until_begun(1);
	CHECK(!takes(sched.slice - 1, true, false));
	CHECK(!takes(sched.slice, false, true));
	CHECK(takes(sched.slice, true, false));
	wait_until_begun(2);
	CHECK(!takes(sched.slice / 5 - 1, true, true));
	CHECK(takes(sched.slice / 5, true, true));
	wait_until_begun(3);
	CHECK(!takes(SEC, true, true)); /* nothing waits for the P */
	st_seq(&released, 1);
	return arg;
}

static void one_p(void *arg)
{
	(void)arg;
	run_beside(poll_one, 3);
}

TEST(preempt_wanted_p_is_taken_after_slice_if_asked_before)
{
	run_procs(1, one_p, NULL);
}

/* --- a G that waits on another P --- */

static void *poll_beside_queue(void *arg)
{
	int other = -1;

	wait_until_begun(PS);
	for (int i = 0; i < PS; i++)
		if (runq_len(sched.allp[i]) || ld_seq(&sched.allp[i]->runnext))
			other = PS - 1 - i;
	CHECK(other >= 0);
	preempt_poll(other, SEC, true, false, os_now());
	CHECK_EQ(ld_seq(&sched.npreempted), 1);
	wait_until_begun(PS + 1);
	st_seq(&released, 1);
	return arg;
}

static void beside_queue(void *arg)
{
	(void)arg;
	run_beside(poll_beside_queue, PS + 1);
}

TEST(preempt_p_is_wanted_by_g_in_queue_of_another_p)
{
	run_procs(PS, beside_queue, NULL);
}

/* --- beyond the bound --- */

/* Polls both Ps every 50 ms from now on, until one is taken. Returns when that was. */
static int64_t poll_until_taken(int64_t now)
{
	for (int before = ld_seq(&sched.npreempted); ld_seq(&sched.npreempted) == before;) {
		now += 50 * MS;
		for (int i = 0; i < PS; i++)
			preempt_poll(i, SEC, true, false, now);
		preempt_without_room(now);
	}
	return now;
}

static void *poll_beyond_bound(void *arg)
{
	int64_t start, first, second;

	for (int i = 0; i < MOST; i++) {
		wait_until_begun(PS + i);
		while (!sched_preempt(sched.allp[i % PS], p_steps(sched.allp[i % PS])))
			cpu_relax();
	}
	wait_until_begun(PS + MOST);
	st_seq(&level, 1);
	for (int i = 0; i < PS; i++)
		while (timers_next(sched.allp[i]) > gmp_now())
			cpu_relax();

	start = os_now();
	first = poll_until_taken(start);
	CHECK(first - start >= SEC && first - start < SEC + 200 * MS);
	wait_until_begun(PS + MOST + 1);
	CHECK_EQ(ld_seq(&begun_at_expiry[0]), PS + MOST);
	CHECK_EQ(ld_seq(&begun_at_expiry[1]), 0);

	second = poll_until_taken(first);
	CHECK(second - first >= 2 * SEC && second - first < 2 * SEC + 200 * MS);
	wait_until_begun(GS);
	CHECK_EQ(ld_seq(&begun_at_expiry[1]), PS + MOST + 1);
	st_seq(&released, 1);
	return arg;
}

static void beyond_bound(void *arg)
{
	(void)arg;
	run_beside(poll_beyond_bound, GS);
}

/* The P with the earliest timer is taken after 1 s, the other one 2 s later. */
TEST(preempt_beyond_bound_takes_p_with_earliest_timer)
{
	run_procs(PS, beyond_bound, NULL);
}
