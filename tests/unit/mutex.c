/* SPDX-License-Identifier: MIT */
/*
 * Does the mutex go to the parking table only when it has to?  Calls of sema_lock are counted.  And is one
 * that sleeps there woken when it has to be?
 *
 * floors 0..6, wrap: sema_lock
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <pthread.h>

#include "base/atomic.h"
#include "base/os.h"
#include "rt.h"
#include "sema.h"
#include "timer.h"

struct bucket *__real_sema_lock(const void *key);
struct bucket *__wrap_sema_lock(const void *key);

static gmp_mutex m;
static int locked; /* (a) how often the bucket of m has been */
static int late;   /* (a) what the waiter's lock returned */

struct bucket *__wrap_sema_lock(const void *key)
{
	if (key == &m)
		add_seq(&locked, 1);
	return __real_sema_lock(key);
}

static void lock_and_unlock(void *arg)
{
	(void)arg;
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
}

static void hand_over(void *arg)
{
	gmp_g *g;

	(void)arg;
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	CHECK_EQ(gmp_spawn(&g, lock_and_unlock, NULL, NULL), 0);
	while (ld_seq(&locked) == 0)
		gmp_yield();
	os_nap(5000000); /* longer than it takes to starve */
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	CHECK_EQ(gmp_join(g), 0);
	CHECK_EQ(ld_seq(&locked), 2); /* to queue up, to hand it over */
}

TEST(who_is_handed_the_lock_asks_the_table_no_more)
{
	run_procs(1, hand_over, NULL);
}

enum { DEADLINE = 1000000000 };

static void lock_late(void *arg)
{
	(void)arg;
	st_seq(&late, gmp_mutex_lock_until(&m, gmp_now() + DEADLINE));
}

/* The unlocker meets one that the time, which is told to have come, has claimed already: at one P it cannot
 * run before. */
static void time_out_before_unlock(void *arg)
{
	gmp_g *g;

	(void)arg;
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	CHECK_EQ(gmp_spawn(&g, lock_late, NULL, NULL), 0);
	while (ld_seq(&locked) == 0)
		gmp_yield();
	os_nap(5000000); /* longer than it takes to starve */
	struct glist out = { 0 };

	CHECK_EQ(timers_run(getp(), gmp_now() + DEADLINE, &out), 1);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	ready_list(&out);
	CHECK_EQ(gmp_join(g), 0);
	CHECK_EQ(ld_seq(&late), -ETIMEDOUT);
	CHECK_EQ(ld_seq(&locked), 2); /* to queue up, and the unlocker, who took it out */
}

TEST(who_timed_out_and_was_taken_out_asks_the_table_no_more)
{
	run_procs(1, time_out_before_unlock, NULL);
}

enum { WOKEN = 4, PARKED = 2 }; /* sync/mutex.c */

static void *lock_outside(void *arg)
{
	lock_and_unlock(arg);
	return NULL;
}

/* The run ends when one green thread has been woken to compete, and one outside sleeps behind it: the unlocker
 * has left it to the former to see to the latter. */
static void leave_one_woken(void *thread)
{
	do {
		CHECK_EQ(gmp_mutex_lock(&m), 0);
		CHECK_EQ(gmp_go(lock_and_unlock, NULL), 0);
		while (!(ld_seq(&m.state) & PARKED))
			gmp_yield();
		CHECK_EQ(gmp_mutex_unlock(&m), 0);
		if (!(ld_seq(&m.state) & WOKEN)) /* a slow machine: it has been handed over */
			gmp_yield();
	} while (!(ld_seq(&m.state) & WOKEN));
	CHECK_EQ(gmp_mutex_try_lock(&m), 0);
	CHECK_EQ(pthread_create(thread, NULL, lock_outside, NULL), 0);
	while (!(ld_seq(&m.state) & PARKED))
		os_nap(100000);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	CHECK_EQ(ld_seq(&m.state), WOKEN | PARKED);
}

TEST(one_that_was_woken_and_is_dropped_gives_its_turn_to_the_next)
{
	pthread_t thread;

	run_procs(1, leave_one_woken, &thread);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(ld_seq(&m.state), 0);
}
