/* SPDX-License-Identifier: MIT */
/*
 * A pool that has no memory for what it has to do now: does it do so when there is some, or give up at the
 * deadline?  That there is none is said here.
 *
 * floors 0..6, wrap: malloc
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <errno.h>
#include <limits.h>

#include "base/atomic.h"
#include "rt.h"

#define MS INT64_C(1000000)

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);

static int failures;    /* (a) so many calls will fail */
static int begun, late; /* (a) */
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

static void count_late(void *arg)
{
	(void)arg;
	add_seq(&late, 1);
}

/* As many as the pool has memory for already; how many that is.  One by one: it takes more tasks than it can
 * have workers, if some begin meanwhile, and these would wait for memory. */
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
	CHECK_EQ(gmp_pool_submit_at(p, gmp_deadline(20 * MS), count_late, NULL), 0);
	int n = fill(p);

	CHECK_EQ(gmp_sleep(50 * MS), 0);
	st_seq(&failures, 0);
	while (ld_seq(&late) == 0)
		gmp_sleep(MS);
	CHECK_EQ(gmp_sem_release(&gate, n), 0);
	CHECK_EQ(gmp_pool_release(p, GMP_FOREVER), 0);
	gmp_pool_free(p);
}

TEST_PROCS(pool_delayed_task_without_memory_is_run_later)
{
	run_procs(procs, delay, NULL);
}

/* Not before there has been no memory as often as there was to be none: who begins to wait when the tasks have
 * ended needs none. */
static void open_gate(void *n)
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

	CHECK_EQ(gmp_go(open_gate, &n), 0);
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

static void release_in_time(void *arg)
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
	run_procs(procs, release_in_time, NULL);
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
	CHECK_EQ(gmp_go(open_gate, &one), 0);
	CHECK_EQ(gmp_pool_release(p, GMP_FOREVER), 0);
	CHECK_EQ(ld_seq(&failures), 0);
	CHECK_EQ(gmp_pool_running(p), 0);
	gmp_pool_free(p);
	CHECK_EQ(gmp_stop(), 0);
}
