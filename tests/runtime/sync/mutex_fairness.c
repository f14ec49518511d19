/* SPDX-License-Identifier: MIT */
/*
 * Tests the fairness of gmp_mutex in virtual time, where each bound is exact: hand-over after 1 ms,
 * at most one hand-over in 20 us, and few switches under contention.
 */
#include "fairness_util.h"

enum { LOCKED = 1, PARKED = 2, WOKEN = 4, STUCK = 8 }; /* wait/mutex.c */

static gmp_mutex mu = GMP_MUTEX_INIT;
static int64_t counter;
static gmp_wg ended;

static uint32_t word(void)
{
	return __atomic_load_n(&mu.state, __ATOMIC_RELAXED);
}

static void lock_and_unlock(UNUSED void *arg)
{
	CHECK_EQ(gmp_mutex_lock(&mu), 0);
	CHECK_EQ(gmp_mutex_unlock(&mu), 0);
}

/* --- the pace --- */

static void be_handed_and_relock(UNUSED void *arg)
{
	CHECK_EQ(gmp_mutex_lock(&mu), 0);
	CHECK_EQ(gmp_mutex_unlock(&mu), 0);
	CHECK_EQ(gmp_mutex_try_lock(&mu), 0); /* the other waiter is only woken */
	CHECK_EQ(gmp_sleep(PACE), 0);
	CHECK_EQ(gmp_mutex_unlock(&mu), 0);
	CHECK_EQ(gmp_mutex_try_lock(&mu), 0); /* at most 20 us since the last hand-over */
	CHECK_EQ(gmp_sleep(1), 0);
	CHECK_EQ(gmp_mutex_unlock(&mu), 0);
	CHECK_EQ(gmp_mutex_try_lock(&mu), -EAGAIN); /* handed over */
}

static void hand_over_twice(UNUSED void *arg)
{
	gmp_g *first, *second;

	CHECK_EQ(gmp_mutex_lock(&mu), 0);
	first = spawn(be_handed_and_relock, NULL);
	CHECK_EQ(gmp_sleep(1), 0);
	second = spawn(lock_and_unlock, NULL);
	CHECK_EQ(gmp_sleep(2 * STARVING), 0);
	CHECK_EQ(gmp_mutex_unlock(&mu), 0);
	CHECK_EQ(gmp_mutex_try_lock(&mu), -EAGAIN);
	join(first);
	join(second);
	CHECK_EQ(word(), 0);
}

TEST(mutex_handovers_are_20us_apart)
{
	run_virtual(1, hand_over_twice, NULL);
}

static void lock_until(void *deadline)
{
	CHECK_EQ(gmp_mutex_lock_until(&mu, *(int64_t *)deadline), -ETIMEDOUT);
}

static void be_handed_and_relock_twice(UNUSED void *arg)
{
	CHECK_EQ(gmp_mutex_lock(&mu), 0);
	CHECK_EQ(gmp_sleep(PACE / 2), 0); /* the first waiter times out */
	CHECK_EQ(gmp_mutex_unlock(&mu), 0);
	CHECK_EQ(gmp_mutex_try_lock(&mu), 0); /* the next is only woken */
	CHECK_EQ(gmp_sleep(PACE / 2 + 1), 0);
	CHECK_EQ(gmp_mutex_unlock(&mu), 0);
	CHECK_EQ(gmp_mutex_try_lock(&mu), -EAGAIN); /* handed over */
}

static void time_out_as_first(UNUSED void *arg)
{
	int64_t deadline = gmp_now() + 2 * STARVING + PACE / 4;
	gmp_g *g[3];

	CHECK_EQ(gmp_mutex_lock(&mu), 0);
	g[0] = spawn(be_handed_and_relock_twice, NULL);
	CHECK_EQ(gmp_sleep(1), 0);
	g[1] = spawn(lock_until, &deadline);
	CHECK_EQ(gmp_sleep(1), 0);
	g[2] = spawn(lock_and_unlock, NULL);
	CHECK_EQ(gmp_sleep(2 * STARVING - 2), 0);
	CHECK_EQ(gmp_mutex_unlock(&mu), 0);
	for (int i = 0; i < 3; i++)
		join(g[i]);
	CHECK_EQ(word(), 0);
}

TEST(mutex_keeps_pace_when_first_waiter_times_out)
{
	run_virtual(1, time_out_as_first, NULL);
}

/* --- the bound --- */

enum { CROWD = 200 };
static int64_t waited[CROWD], hold, locks;
static int queued, served;

/* The owner locks again at once, ahead of the woken waiter, until the mutex is handed over. */
static void hold_until_handed_over(void)
{
	do {
		CHECK_EQ(gmp_sleep(hold), 0);
		CHECK_EQ(gmp_mutex_unlock(&mu), 0);
		locks++;
	} while (served < CROWD && gmp_mutex_try_lock(&mu) == 0);
}

static void wait_in_crowd(UNUSED void *arg)
{
	int ahead = queued++;
	int64_t began = gmp_now();

	CHECK_EQ(gmp_mutex_lock(&mu), 0);
	waited[ahead] = gmp_now() - began;
	served++;
	hold_until_handed_over();
}

static void crowd(void *arg)
{
	gmp_g *g[CROWD];

	hold = *(int64_t *)arg;
	CHECK_EQ(gmp_mutex_lock(&mu), 0);
	for (int i = 0; i < CROWD; i++)
		g[i] = spawn(wait_in_crowd, NULL);
	hold_until_handed_over();
	for (int i = 0; i < CROWD; i++)
		join(g[i]);
	for (int i = 0; i < CROWD; i++) {
		CHECK(waited[i] > STARVING);
		CHECK(waited[i] <= STARVING + i * PACE + (i + 1) * hold);
	}
	/* short holds: the owner locks it again between two hand-overs */
	CHECK(locks >= STARVING / hold + (CROWD - 1) * (hold < PACE ? PACE / hold : 1));
}

TEST(mutex_waiter_behind_k_others_gets_short_held_lock_within_bound)
{
	int64_t ns = 5 * US;

	run_virtual(1, crowd, &ns);
}

TEST(mutex_waiter_behind_k_others_gets_long_held_lock_within_bound)
{
	int64_t ns = 50 * US;

	run_virtual(1, crowd, &ns);
}

/* --- no convoy --- */

static void lock_often(UNUSED void *arg)
{
	for (int i = 0; i < EACH; i++) {
		CHECK_EQ(gmp_mutex_lock(&mu), 0);
		counter++;
		CHECK_EQ(gmp_mutex_unlock(&mu), 0);
	}
	gmp_wg_done(&ended);
}

static void starve_many(void *arg)
{
	int procs = *(int *)arg;
	uint64_t before;

	CHECK_EQ(gmp_wg_add(&ended, MANY), 0);
	CHECK_EQ(gmp_mutex_lock(&mu), 0);
	for (int i = 0; i < MANY; i++)
		CHECK_EQ(gmp_go(lock_often, NULL), 0);
	CHECK_EQ(gmp_sleep(3 * STARVING), 0); /* by then all others are parked */
	before = switches();
	CHECK_EQ(gmp_mutex_unlock(&mu), 0);
	CHECK_EQ(gmp_wg_wait(&ended), 0);
	CHECK_EQ(counter, MANY * EACH);
	check_no_convoy(before, procs);
}

TEST_PROCS(mutex_with_2000_starved_waiters_forms_no_convoy)
{
	run_virtual(procs, starve_many, &procs);
}

/* --- the word --- */

static void watch_stuck(UNUSED void *arg)
{
	struct ext_thread f;
	gmp_g *g;

	CHECK_EQ(gmp_mutex_lock(&mu), 0);
	g = spawn(lock_and_unlock, NULL);
	CHECK_EQ(gmp_sleep(1), 0);
	CHECK_EQ(word(), LOCKED | PARKED | STUCK);
	CHECK_EQ(gmp_mutex_unlock(&mu), 0);
	CHECK_EQ(word(), WOKEN);
	CHECK_EQ(gmp_mutex_try_lock(&mu), 0); /* ahead of the woken waiter */
	ext_thread_start(&f, lock_and_unlock, NULL);
	while (!(word() & PARKED)) /* no switch here */
		;
	CHECK_EQ(word(), LOCKED | PARKED | WOKEN | STUCK);
	CHECK_EQ(gmp_mutex_unlock(&mu), 0);
	CHECK_EQ(word(), PARKED | WOKEN);
	join(g);
	ext_thread_join(&f);
	CHECK_EQ(word(), 0);
}

TEST(mutex_is_stuck_from_first_parked_waiter_to_end_of_hold)
{
	run_virtual(1, watch_stuck, NULL);
}

static void watch_handover(UNUSED void *arg)
{
	gmp_g *g;

	CHECK_EQ(gmp_mutex_lock(&mu), 0);
	g = spawn(lock_and_unlock, NULL);
	CHECK_EQ(gmp_sleep(2 * STARVING), 0);
	CHECK_EQ(gmp_mutex_unlock(&mu), 0);
	CHECK_EQ(word(), LOCKED | STUCK);
	join(g);
	CHECK_EQ(word(), 0);
}

TEST(mutex_handed_over_is_stuck_until_unlock)
{
	run_virtual(1, watch_handover, NULL);
}
