/* SPDX-License-Identifier: MIT */
/*
 * Tests which checkpoints yield: by the CPU time that the G has used (PREEMPT-6).
 *
 * floors 0..6
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <unistd.h>

#include "base/os.h"
#include "rt.h"
#include "sched.h"

#define MS INT64_C(1000000)

static uint32_t others, stop; /* (a) */

static void count(void *arg)
{
	(void)arg;
	add_rlx(&others, 1);
}

/* The G on this M has run since `since` and used `cpu`, and is asked to yield.  Returns whether it
 * yields at a checkpoint. */
static bool yields(int tid, int64_t real, int64_t cpu)
{
	struct p *pp = getp();
	uint32_t before = ld_rlx(&others);

	CHECK_EQ(gmp_go(count, NULL), 0);
	pp->stay.since = os_now() - real;
	pp->stay.cpu = os_cpu_time() - cpu;
	pp->stay.tid = tid;
	sched_ask_yield(pp);
	gmp_checkpoint();
	CHECK(!(ld_rlx(&pp->attention) & ATTENTION_YIELD));
	bool result = ld_rlx(&others) != before;

	gmp_checkpoint(); /* not asked */
	CHECK_EQ(ld_rlx(&others) != before, result);
	while (ld_rlx(&others) == before)
		gmp_yield();
	return result;
}

/* Most times are in the future: what passes until the checkpoint makes no difference. */
static void ask(void *arg)
{
	const int64_t little = -1000 * MS;
	int tid = getm()->tid;

	(void)arg;
	CHECK(yields(tid, -400 * MS, little)); /* nothing is preempted */
	sched.slice = 10 * MS;
	CHECK(!yields(tid, -400 * MS, little));
	CHECK(yields(tid, -1000 * MS, 0));         /* most of the time */
	CHECK(yields(tid, 15 * MS, 2 * MS));       /* all of its slice */
	CHECK(yields(tid, 20 * MS, little));       /* for too long */
	CHECK(yields(tid + 1, -400 * MS, little)); /* the stay of another M */
	CHECK(yields(0, -400 * MS, little));       /* none is known */
	sched.slice = NEVER;
}

/* In virtual time sysmon writes no stay. */
TEST(checkpoint_yields_if_g_has_used_cpu_time)
{
	CHECK_EQ(run_configured(1, 0, GMP_VIRTUAL_TIME, ask, NULL), 0);
}

static void ask_for_more(void *arg)
{
	uint32_t before = ld_rlx(&others);

	(void)arg;
	CHECK_EQ(gmp_go(count, NULL), 0);
	sched.slice = 10 * MS;
	getp()->stay = (struct stay){ getm()->tid, os_now() + 400 * MS, os_cpu_time() + 1000 * MS };
	or_rlx(&getp()->attention, ATTENTION_YIELD | ATTENTION_SHARE);
	gmp_checkpoint();
	CHECK(ld_rlx(&others) != before);
	sched.slice = NEVER;
}

TEST(checkpoint_yields_if_it_is_asked_for_more)
{
	CHECK_EQ(run_configured(1, 0, GMP_VIRTUAL_TIME, ask_for_more, NULL), 0);
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
	CHECK_EQ(ld_rlx(&getm()->stay.tid), getm()->tid);
	st_rlx(&getm()->stay.since, os_now() + 400 * MS); /* not for too long */
	st_rlx(&getm()->stay.cpu, ld_rlx(&getm()->stay.cpu) + 1000 * MS);
	gmp_checkpoint();
	CHECK_EQ(ld_rlx(&getm()->taken), P_TAKEN);
	st_rlx(&getm()->stay.cpu, ld_rlx(&getm()->stay.cpu) - 1000 * MS);
	st_rlx(&getm()->stay.cpu, ld_rlx(&getm()->stay.cpu) - 2 * MS);
	gmp_checkpoint();
	CHECK_EQ(ld_rlx(&getm()->taken), P_KEPT);
	st_rlx(&stop, 1);
}

TEST(checkpoint_without_p_yields_if_g_has_used_cpu_time)
{
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
	uint64_t before = ld_rlx(&sched.preemptions);

	for (int i = 0; i < 2000 && ld_rlx(&sched.preemptions) == before; i++) {
		st_rlx(&getp()->stay.tid, getm()->tid);
		st_rlx(&getp()->stay.since, os_now() + 400 * MS);
		st_rlx(&getp()->stay.cpu, os_cpu_time() + 1000 * MS);
		gmp_checkpoint();
		usleep(300);
	}
	CHECK(ld_rlx(&sched.preemptions) != before);
	st_rlx(&stop, 1);
}

TEST(checkpoint_that_does_not_yield_leaves_p_to_be_taken)
{
	run_procs(1, sleep_between_checkpoints, NULL);
}
