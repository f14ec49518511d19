/* SPDX-License-Identifier: MIT */
/*
 * Tests a pool without memory: it retries a delayed task or a release once memory is available, or
 * returns at the deadline. The wrapped malloc fails.
 *
 * floors 0..6, wrap: malloc
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <errno.h>
#include <limits.h>

#include "base/atomic.h"
#include "rt.h"

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);

static int failures;            /* (a) number of calls that will fail */
static int begun, delayed_runs; /* (a) */
static gmp_sem gate;

void *__wrap_malloc(size_t n)
{
	int left = ld_seq(&failures);

	while (left > 0)
		if (cas_seq(&failures, &left, left - 1))
			return NULL;
	return __real_malloc(n);
}

static void wait_at_gate(void *arg)
{
	(void)arg;
	add_seq(&begun, 1);
	CHECK_EQ(gmp_sem_acquire(&gate), 0);
}

static void count_delayed(void *arg)
{
	(void)arg;
	add_seq(&delayed_runs, 1);
}

/*
 * Submit as many tasks as the pool has memory for; returns their number. One by one: if tasks begin
 * meanwhile, the pool accepts more tasks than it can have workers, and these would wait for memory.
 */
static int fill(gmp_pool *p)
{
	int n = 0;

	st_seq(&failures, INT_MAX);
	while (gmp_pool_try_submit(p, wait_at_gate, NULL) == 0) {
		CHECK(++n < 1000);
		while (ld_seq(&begun) < n)
			gmp_yield();
	}
	return n;
}

static void delay(void *arg)
{
	gmp_pool *p = gmp_pool_new(0, NULL);

	(void)arg;
	CHECK(p != NULL);
	CHECK_EQ(gmp_pool_submit_at(p, gmp_deadline(20 * MS), count_delayed, NULL), 0);
	int n = fill(p);

	CHECK_EQ(gmp_sleep(50 * MS), 0);
	st_seq(&failures, 0);
	while (ld_seq(&delayed_runs) == 0)
		gmp_sleep(MS);
	CHECK_EQ(gmp_sem_release(&gate, n), 0);
	CHECK_EQ(gmp_pool_release(p, GMP_FOREVER), 0);
	gmp_pool_free(p);
}

TEST_PROCS(pool_delayed_task_without_memory_is_run_later)
{
	run_procs(procs, delay, NULL);
}

/*
 * Wait until all failures have occurred: a release that starts to wait after the tasks have ended
 * needs no memory.
 */
static void open_gate_after_failures(void *n)
{
	while (ld_seq(&failures) > 0)
		CHECK_EQ(gmp_sleep(MS), 0);
	CHECK_EQ(gmp_sleep(20 * MS), 0);
	CHECK_EQ(gmp_sem_release(&gate, *(int *)n), 0);
}

static void release(void *arg)
{
	gmp_pool *p = gmp_pool_new(0, NULL);

	(void)arg;
	CHECK(p != NULL);
	int n = fill(p);

	CHECK_EQ(gmp_go(open_gate_after_failures, &n), 0);
	st_seq(&failures, 3);
	CHECK_EQ(gmp_pool_release(p, GMP_FOREVER), 0);
	CHECK_EQ(ld_seq(&failures), 0);
	CHECK_EQ(gmp_pool_running(p), 0);
	gmp_pool_free(p);
}

TEST_PROCS(pool_release_without_memory_waits_for_tasks)
{
	run_procs(procs, release, NULL);
}

static void release_until_deadline(void *arg)
{
	gmp_pool *p = gmp_pool_new(0, NULL);

	(void)arg;
	CHECK(p != NULL);
	int n = fill(p);
	int64_t deadline = gmp_deadline(20 * MS);

	CHECK_EQ(gmp_pool_release(p, deadline), -ETIMEDOUT);
	CHECK(gmp_now() >= deadline);
	CHECK_EQ(gmp_pool_running(p), n);
	st_seq(&failures, 0);
	CHECK_EQ(gmp_sem_release(&gate, n), 0);
	gmp_pool_free(p);
}

TEST_PROCS(pool_release_without_memory_returns_etimedout)
{
	run_procs(procs, release_until_deadline, NULL);
}

TEST_PROCS(pool_release_by_external_thread_without_memory_waits)
{
	gmp_config cfg = GMP_CONFIG_INIT;
	int one = 1;

	cfg.procs = procs;
	CHECK_EQ(gmp_start(&cfg), 0);
	gmp_pool *p = gmp_pool_new(0, NULL);

	CHECK(p != NULL);
	CHECK_EQ(gmp_pool_submit(p, wait_at_gate, NULL), 0);
	st_seq(&failures, 3);
	CHECK_EQ(gmp_go(open_gate_after_failures, &one), 0);
	CHECK_EQ(gmp_pool_release(p, GMP_FOREVER), 0);
	CHECK_EQ(ld_seq(&failures), 0);
	CHECK_EQ(gmp_pool_running(p), 0);
	gmp_pool_free(p);
	CHECK_EQ(gmp_stop(), 0);
}
