/* SPDX-License-Identifier: MIT */
/*
 * Tests that an M counts towards max_threads from the decision to start it, so that two concurrent
 * decisions cannot both use the last place. The wrapped aligned_alloc checks the count when the
 * record of an M is allocated.
 *
 * floors 0..6, wrap: aligned_alloc
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <errno.h>
#include <time.h>

#include "base/atomic.h"
#include "rt.h"
#include "types.h"

void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

static int checks, uncounted; /* (a) */
static int no_memory;         /* (a) fail to allocate a record */

/* Other Ms may be started at the same time; they count, too. */
static void check_counted(void)
{
	int alive = 0;

	lock(&sched.lock, LR_SCHED);
	for (struct m *m = sched.allm; m; m = m->alllink)
		alive += !m->dead;
	add_seq(&uncounted, sched.nm <= alive);
	unlock(&sched.lock, LR_SCHED);
	add_seq(&checks, 1);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
	if (size == round_up(sizeof(struct m), CACHE_LINE)) {
		check_counted();
		if (ld_seq(&no_memory))
			return NULL;
	}
	return __real_aligned_alloc(alignment, size);
}

static void begin(gmp_sched how, int procs, gmp_fn fn)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.sched = how;
	cfg.procs = procs;
	CHECK_EQ(gmp_run(fn, NULL, &cfg), 0);
	CHECK_EQ(ld_seq(&uncounted), 0);
}

/* Wait until a second M has been started. */
static void wait_for_second_m(void)
{
	while (ld_seq(&checks) < 2)
		gmp_yield();
}

static void run_along(void *arg)
{
	(void)arg;
	wait_for_second_m();
}

static void spawn_some(void *arg)
{
	(void)arg;
	for (int i = 0; i < 10; i++)
		CHECK_EQ(gmp_go(run_along, NULL), 0);
	wait_for_second_m();
}

TEST(m_started_for_idle_p_is_counted_before_it_exists)
{
	begin(GMP_SCHED_RUNNEXT, 2, spawn_some);
}

static void lock_it(void *arg)
{
	(void)arg;
	CHECK_EQ(gmp_lock_thread(), 0);
	CHECK(ld_seq(&checks) >= 2);
	CHECK_EQ(gmp_unlock_thread(), 0);
}

TEST(m_started_by_lock_thread_is_counted_before_it_exists)
{
	begin(GMP_SCHED_RUNNEXT, 1, lock_it);
}

static void lock_without_memory(void *arg)
{
	(void)arg;
	st_seq(&no_memory, 1);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(gmp_lock_thread(), -EAGAIN);
	CHECK_EQ(sched.nm, 1);
	st_seq(&no_memory, 0);
	lock_it(NULL);
}

TEST(m_without_memory_is_uncounted_again)
{
	begin(GMP_SCHED_RUNNEXT, 1, lock_without_memory);
}

static int helped; /* (a) */

static void help(void *arg)
{
	(void)arg;
	st_seq(&helped, 1);
}

/* The other G runs only if the P has been handed off. */
static void block(void *arg)
{
	struct timespec t = { .tv_nsec = 1000000 };

	(void)arg;
	CHECK_EQ(gmp_go(help, NULL), 0);
	gmp_block_enter();
	while (!ld_seq(&helped))
		nanosleep(&t, NULL);
	gmp_block_leave();
	CHECK(ld_seq(&checks) >= 2);
}

TEST(m_started_for_handoff_is_counted_before_it_exists)
{
	begin(GMP_SCHED_RUNNEXT, 1, block);
}

static void join_helper(void *arg)
{
	gmp_g *g;

	(void)arg;
	CHECK_EQ(gmp_spawn(&g, help, NULL, NULL), 0);
	CHECK_EQ(gmp_join(g), 0);
	CHECK(ld_seq(&checks) >= 2);
}

TEST(m_of_thread_mode_g_is_counted_before_it_exists)
{
	begin(GMP_SCHED_THREAD, 1, join_helper);
}
