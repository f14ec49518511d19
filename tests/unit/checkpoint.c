/* SPDX-License-Identifier: MIT */
/*
 * Tests which checkpoints yield: by the CPU time that the G has used (PREEMPT-6).
 *
 * floors 0..6, wrap: sysmon_start sysmon_stop
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <unistd.h>

#include "base/os.h"
#include "monitor/sysmon.h"
#include "rt.h"
#include "sched.h"

int __real_sysmon_start(void);
int __wrap_sysmon_start(void);
void __real_sysmon_stop(void);
void __wrap_sysmon_stop(void);

static bool with_sysmon; /* otherwise the test writes the sample */

int __wrap_sysmon_start(void)
{
	return with_sysmon ? __real_sysmon_start() : 0;
}

void __wrap_sysmon_stop(void)
{
	if (with_sysmon)
		__real_sysmon_stop();
}

static uint32_t stop; /* (a) */

/* The G on this M has run for `real`, has used `cpu`, and is asked to yield.  Returns whether it
 * yields at a checkpoint: then the P has switched. */
static bool yields(int tid, int64_t real, int64_t cpu)
{
	struct p *pp = getp();
	uint64_t before = pp->count.switches;

	pp->run_sample.since = os_now() - real;
	pp->run_sample.cpu = os_cpu_time() - cpu;
	pp->run_sample.tid = tid;
	sched_ask_yield(pp);
	gmp_checkpoint();
	CHECK(!(ld_rlx(&pp->attention) & ATTENTION_YIELD));
	uint64_t after = ld_rlx(&pp->count.switches);

	gmp_checkpoint(); /* not asked */
	CHECK_EQ(ld_rlx(&pp->count.switches), after);
	return after != before;
}

/* A G that yields may continue on another M. */
static int my_tid(void)
{
	return getm()->tid;
}

/* Most times are in the future: what passes until the checkpoint makes no difference. */
static void ask(void *arg)
{
	const int64_t little = -1000 * MS;

	(void)arg;
	sched.preempts = false;
	CHECK(yields(my_tid(), -400 * MS, little));
	sched.preempts = true;
	CHECK(!yields(my_tid(), -400 * MS, little));
	CHECK(yields(my_tid(), -1000 * MS, 0));   /* most of the time */
	CHECK(yields(my_tid(), 15 * MS, 2 * MS)); /* all of its slice */
	CHECK(yields(my_tid(), 20 * MS, little)); /* for too long */
	sched.slice = 100 * MS;
	CHECK(yields(my_tid(), 15 * MS, 2 * MS)); /* events may wait */
	CHECK(!yields(my_tid(), 150 * MS, little));
	sched.slice = 10 * MS;
	CHECK(yields(my_tid() + 1, -400 * MS, little)); /* the sample of another M */
	CHECK(yields(0, -400 * MS, little));            /* none is known */
}

TEST(checkpoint_yields_if_g_has_used_cpu_time)
{
	run_procs(1, ask, NULL);
}

/* No P has switched before the first poll. */
static void begin_monitor(void *arg)
{
	struct p *pp = getp();
	int64_t began = os_now();

	(void)arg;
	pp->count.switches = 0;
	CHECK_EQ(__real_sysmon_start(), 0);
	os_nap(MS);
	uint32_t attention = ld_rlx(&pp->attention);
	bool early = os_now() - began < sched.slice;

	__real_sysmon_stop();
	if (!early)
		check_skip("the G has run for a time slice");
	CHECK(!(attention & ATTENTION_YIELD));
}

TEST(checkpoint_is_not_asked_at_first_poll)
{
	run_procs(1, begin_monitor, NULL);
}

static void ask_for_more(void *arg)
{
	struct p *pp = getp();
	uint64_t before = pp->count.switches;

	(void)arg;
	pp->run_sample =
		(struct run_sample){ my_tid(), os_now() + 400 * MS, os_cpu_time() + 1000 * MS };
	or_rlx(&pp->attention, ATTENTION_YIELD | ATTENTION_SHARE);
	gmp_checkpoint();
	CHECK(ld_rlx(&pp->count.switches) != before);
}

TEST(checkpoint_yields_if_it_is_asked_for_more)
{
	run_procs(1, ask_for_more, NULL);
}

static void keep_p_wanted(void *arg)
{
	(void)arg;
	while (!ld_rlx(&stop))
		gmp_yield();
}

/* sysmon takes the P of a thread that sleeps, whose G has used little CPU time. */
static void sleep_in_kernel(void *arg)
{
	(void)arg;
	CHECK_EQ(gmp_go(keep_p_wanted, NULL), 0);
	gmp_yield();
	while (ld_acq(&getm()->taken) != P_TAKEN)
		usleep(30000);
	CHECK_EQ(ld_rlx(&getm()->preempted.sample.tid), getm()->tid);
	st_rlx(&getm()->preempted.sample.since, os_now() + 400 * MS); /* not for too long */
	st_rlx(&getm()->preempted.sample.cpu, ld_rlx(&getm()->preempted.sample.cpu) + 1000 * MS);
	gmp_checkpoint();
	CHECK_EQ(ld_rlx(&getm()->taken), P_TAKEN);
	st_rlx(&getm()->preempted.sample.cpu, ld_rlx(&getm()->preempted.sample.cpu) - 1000 * MS);
	st_rlx(&getm()->preempted.sample.cpu, ld_rlx(&getm()->preempted.sample.cpu) - 2 * MS);
	gmp_checkpoint();
	CHECK_EQ(ld_rlx(&getm()->taken), P_KEPT);
	st_rlx(&stop, 1);
}

TEST(checkpoint_without_p_yields_if_g_has_used_cpu_time)
{
	with_sysmon = true;
	run_procs(1, sleep_in_kernel, NULL);
}

/* The checkpoints clear the bit of a G that sleeps between them.  sysmon must remember that it
 * has asked. */
static void sleep_between_checkpoints(void *arg)
{
	(void)arg;
	st_rlx(&stop, 0);
	CHECK_EQ(gmp_go(keep_p_wanted, NULL), 0);
	gmp_yield();
	uint64_t before = ld_rlx(&sched.total.preemptions);

	for (int i = 0; i < 2000 && ld_rlx(&sched.total.preemptions) == before; i++) {
		st_rlx(&getp()->run_sample.tid, getm()->tid);
		st_rlx(&getp()->run_sample.since, os_now() + 400 * MS);
		st_rlx(&getp()->run_sample.cpu, os_cpu_time() + 1000 * MS);
		gmp_checkpoint();
		usleep(300);
	}
	CHECK(ld_rlx(&sched.total.preemptions) != before);
	st_rlx(&stop, 1);
}

TEST(checkpoint_that_does_not_yield_leaves_p_to_be_taken)
{
	with_sysmon = true;
	run_procs(1, sleep_between_checkpoints, NULL);
}
