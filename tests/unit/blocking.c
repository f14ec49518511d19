/* SPDX-License-Identifier: MIT */
/*
 * Tests that a long section of blocking code leaves an M in charge of timers and events: BLOCK-7.
 * Without sysmon, which would take the P after 10 ms.
 *
 * floors 0..6, wrap: sysmon_start sysmon_stop
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include "monitor/sysmon.h"
#include "poller.h"
#include "rt.h"
#include "timer/timerheap.h"

enum { PATIENCE_MS = 40000 }; /* a bound on failure only */

int __wrap_sysmon_start(void);
void __wrap_sysmon_stop(void);

int __wrap_sysmon_start(void)
{
	return 0;
}

void __wrap_sysmon_stop(void)
{
}

static int answered;   /* (a) by the G of enter_with_timer */
static int answers[2]; /* pipe: what the caller of section waits for */

/* Makes all calls of gmp_block_enter known as long ones, in each P. */
static void learn_that_sections_are_long(void)
{
	for (int i = 0; i < sched.nallp; i++)
		for (int site = 0; site < SECTION_SITES; site++)
			sched.allp[i]->sections[site].ticks = UINT32_MAX;
}

/* A section that is long, and in which the caller sleeps in the kernel until another G writes.  An
 * M that sleeps in the poller is woken for nothing once. */
static noinline void section(int question)
{
	struct pollfd answer = { .fd = answers[0], .events = POLLIN };
	char c = 0;

	learn_that_sections_are_long();
	gmp_block_enter();
	gmp__poller.wake();
	if (question >= 0)
		CHECK_EQ(write(question, &c, 1), 1);
	CHECK_EQ(poll(&answer, 1, PATIENCE_MS), 1);
	CHECK_EQ(read(answers[0], &c, 1), 1);
	gmp_block_leave();
}

static void answer(void)
{
	CHECK_EQ(write(answers[1], "", 1), 1);
}

static void answer_after_sleep(void *arg)
{
	(void)arg;
	CHECK_EQ(gmp_sleep(2 * MS), 0);
	st_seq(&answered, 1);
	answer();
}

/* Enters blocking code until the M in the poller sleeps for the timer, which may fire before. */
static void section_until_poller_sleeps_for_timer(void)
{
	learn_that_sections_are_long();
	gmp_block_enter();
	while (ld_seq(&sched.poll_until) > os_now() + 10 * MS && !ld_seq(&answered))
		sched_yield();
	gmp_block_leave();
}

/* sleeps: the last section begins while the M in the poller already sleeps until the timer. */
static void enter_with_timer(void *sleeps)
{
	gmp_g *g;

	CHECK_EQ(pipe(answers), 0);
	for (int i = 0; i < 20; i++) {
		st_seq(&answered, 0);
		CHECK_EQ(gmp_spawn(&g, answer_after_sleep, NULL, NULL), 0);
		while (timers_earliest() == NEVER && !ld_seq(&answered))
			gmp_yield();
		if (sleeps)
			section_until_poller_sleeps_for_timer();
		section(-1);
		CHECK_EQ(gmp_join(g), 0);
	}
}

TEST_PROCS(blocking_long_section_timer_of_poller_fires)
{
	run_procs(procs, enter_with_timer, &answered);
}

TEST_PROCS(blocking_long_section_timer_of_other_g_fires)
{
	run_procs(procs, enter_with_timer, NULL);
}

static void answer_after_question(void *arg)
{
	struct pollfd question = { .fd = *(int *)arg, .events = POLLIN };
	char c;

	CHECK_EQ(gmp_poll(&question, 1, GMP_FOREVER), 1);
	CHECK_EQ(read(question.fd, &c, 1), 1);
	answer();
}

static void enter_with_event(void *arg)
{
	int questions[2];
	gmp_g *g;

	(void)arg;
	CHECK_EQ(pipe(answers), 0);
	CHECK_EQ(pipe(questions), 0);
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(gmp_spawn(&g, answer_after_question, questions, NULL), 0);
		while (!ld_rlx(&sched.npollwait))
			gmp_yield();
		section(questions[1]);
		CHECK_EQ(gmp_join(g), 0);
	}
}

TEST_PROCS(blocking_long_section_event_of_other_g_is_served)
{
	run_procs(procs, enter_with_event, NULL);
}

/* A program of short sections needs no second M for each of its Ps: BLOCK-7. */
static void enter_unknown(void *arg)
{
	struct p *pp = getm()->p;
	uint64_t before = ld_rlx(&sched.total.handoffs);
	gmp_g *g;

	(void)arg;
	CHECK_EQ(pipe(answers), 0);
	CHECK_EQ(gmp_spawn(&g, answer_after_sleep, NULL, NULL), 0);
	while (timers_earliest() == NEVER)
		gmp_yield();
	for (int site = 0; site < SECTION_SITES; site++)
		pp->sections[site].ticks = 0;
	gmp_block_enter();
	gmp_block_leave();
	CHECK_EQ(ld_rlx(&sched.total.handoffs), before);
	CHECK_EQ(gmp_join(g), 0);
}

TEST(blocking_first_section_hands_off_no_p)
{
	run_procs(1, enter_unknown, NULL);
}
