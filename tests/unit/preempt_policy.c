/* SPDX-License-Identifier: MIT */
/*
 * Tests which Ps preempt_poll takes. sysmon does not run: an external thread polls instead, at
 * times that the test chooses. Its cases compare times: each needs a CPU.
 *
 * floors 0..6, wrap: sysmon_start sysmon_stop
 */
#define _GNU_SOURCE 1
#include "check.h"

#include "handoff.h"
#include "monitor/preempt.h"
#include "proc.h"

#include <pthread.h>

#include "base/os.h"
#include "enter.h"
#include "monitor/sysmon.h"
#include "rt.h"
#include "runq.h"
#include "policy/spare.h"

int __wrap_sysmon_start(void);
void __wrap_sysmon_stop(void);

int __wrap_sysmon_start(void)
{
	spare_begin();
	return 0;
}

void __wrap_sysmon_stop(void)
{
	spare_end();
}

enum { PS = 2, GS = PS + 24 };

static gmp_wg ended = GMP_WG_INIT;
static int begun;         /* (a) */
static uint32_t released; /* (a) */

static void compute(void *arg)
{
	add_seq(&begun, 1);
	(void)arg;
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
	for (int i = 0; i < n; i++)
		CHECK_EQ(gmp_go(compute, NULL), 0);
	CHECK_EQ(pthread_create(&thread, NULL, monitor, NULL), 0);
	CHECK_EQ(gmp_wg_wait(&ended), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
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
	CHECK(!takes(S, true, true)); /* nothing waits for the P */
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
	preempt_poll(other, S, true, false, os_now());
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

/* --- any number of Gs that compute --- */

static void *poll_many(void *arg)
{
	int64_t end = os_now() + 10 * S;

	wait_until_begun(PS);
	for (int i = 0; ld_seq(&begun) < GS; i++) {
		CHECK(os_now() < end);
		preempt_poll(i % PS, S, true, false, os_now());
		os_nap(100000);
	}
	CHECK(ld_seq(&sched.npreempted) >= GS - PS); /* all, if SPARE-2 has applied */
	st_seq(&released, 1);
	return arg;
}

static void many_compute(void *arg)
{
	(void)arg;
	run_beside(poll_many, GS);
}

TEST(preempt_p_is_taken_beside_many_gs_that_compute)
{
	run_procs(PS, many_compute, NULL);
}

/* --- no OS thread --- */

enum { THREADS = 3 };

static void *poll_without_m(void *arg)
{
	wait_until_begun(1);
	while (ld_seq(&begun) < THREADS)
		preempt_poll(0, S, true, false, os_now());
	CHECK(!preempt_poll(0, S, true, false, os_now()));
	CHECK(ld_seq(&sched.total.refused) > 0);
	CHECK_EQ(ld_seq(&sched.npreempted), THREADS - 1);
	st_seq(&released, 1);
	return arg;
}

static void compute_with_few_threads(void *arg)
{
	(void)arg;
	run_beside(poll_without_m, THREADS + 1);
}

TEST(preempt_p_is_kept_without_os_thread)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = 1;
	c.max_threads = THREADS;
	CHECK_EQ(gmp_run(compute_with_few_threads, NULL, &c), 0);
}
