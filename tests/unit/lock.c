/* SPDX-License-Identifier: MIT */
/* Tests that a lock is mutually exclusive, and that debug builds detect a wrong lock order. */
#define _GNU_SOURCE 1
#include "check.h"

#include "base/lock.h"

#include <pthread.h>

#include "base/os.h"
#include "child.h"

enum { THREADS = 4 };

static struct lock shared_lock;
static enum lockrank rank; /* the rank decides how a waiter waits */
static const enum lockrank ranks[] = { LR_SCHED, LR_CHAN };
static long inside;  /* under shared_lock */
static long counter; /* under shared_lock */

static void *hammer(void *arg)
{
	long rounds = *(long *)arg;

	for (long i = 0; i < rounds; i++) {
		if (i % 3 != 0)
			lock(&shared_lock, rank);
		else if (!try_lock(&shared_lock, rank))
			continue;
		CHECK_EQ(inside++, 0);
		counter++;
		if (i % 1024 == 0)
			os_yield(); /* the others find a holder that is off its CPU */
		CHECK_EQ(--inside, 0);
		unlock(&shared_lock, rank);
	}
	return NULL;
}

static void run_hammers(long rounds)
{
	pthread_t t[THREADS];

	counter = 0;
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&t[i], NULL, hammer, &rounds), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(t[i], NULL), 0);
	CHECK(counter <= rounds * THREADS);
	CHECK(counter >= rounds * THREADS * 2 / 3 - THREADS);
	CHECK_EQ(shared_lock.word, 0);
}

TEST(lock_contended_is_mutually_exclusive)
{
	for (int i = 0; i < 2; i++) {
		rank = ranks[i];
		run_hammers(check_scaled(100000));
	}
}

static bool taken, about_to_drop; /* (a) */

static void *hold_for_20_ms(void *arg)
{
	(void)arg;
	lock(&shared_lock, LR_CHAN);
	st_rel(&taken, true);
	os_nap(20000000);
	st_rel(&about_to_drop, true);
	unlock(&shared_lock, LR_CHAN);
	return NULL;
}

TEST(lock_end_waits_for_holder)
{
	pthread_t t;

	lock_end(&shared_lock, LR_CHAN);
	CHECK_EQ(pthread_create(&t, NULL, hold_for_20_ms, NULL), 0);
	while (!ld_acq(&taken))
		os_yield();
	lock_end(&shared_lock, LR_CHAN);
	CHECK(ld_acq(&about_to_drop));
	CHECK_EQ(shared_lock.word, 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
}

static void *take_and_drop(void *arg)
{
	lock(&shared_lock, rank);
	st_rlx((int *)arg, 1);
	unlock(&shared_lock, rank);
	return NULL;
}

TEST(lock_long_waiter_gets_lock_after_unlock)
{
	for (int i = 0; i < 2; i++) {
		pthread_t t;
		int got = 0;

		rank = ranks[i];
		lock(&shared_lock, rank);
		CHECK_EQ(pthread_create(&t, NULL, take_and_drop, &got), 0);
		os_nap(20 * 1000000);
		CHECK_EQ(ld_rlx(&got), 0);
		unlock(&shared_lock, rank);
		CHECK_EQ(pthread_join(t, NULL), 0);
		CHECK_EQ(got, 1);
	}
}

TEST(try_lock_held_returns_false)
{
	struct lock l = { 0 };

	CHECK(try_lock(&l, LR_SCHED));
	CHECK(!try_lock(&l, LR_SCHED));
	unlock(&l, LR_SCHED);
	CHECK(try_lock(&l, LR_SCHED));
	unlock(&l, LR_SCHED);
}

/* --- order --- */

static struct lock a, b, pair[2];

static void downwards(void)
{
	lock(&a, LR_START);
	lock(&b, LR_SCHED);
	unlock(&a, LR_START); /* unlocked in any order */
	lock(&a, LR_STACK);
	unlock(&b, LR_SCHED);
	unlock(&a, LR_STACK);
	lock(&a, LR_START);
	unlock(&a, LR_START);
}

static void two_channels(void)
{
	lock(&pair[0], LR_CHAN);
	lock(&pair[1], LR_CHAN);
	unlock(&pair[0], LR_CHAN);
	unlock(&pair[1], LR_CHAN);
}

static void two_channels_in_wrong_order(void)
{
	lock(&pair[1], LR_CHAN);
	lock(&pair[0], LR_CHAN);
}

static void same_channel_twice(void)
{
	lock(&a, LR_CHAN);
	lock(&a, LR_CHAN);
}

static void very_many_channels(void)
{
	struct lock l[100] = { { 0 } };

	for (int i = 0; i < 100; i++)
		lock(&l[i], LR_CHAN);
	for (int i = 0; i < 100; i++)
		unlock(&l[i], LR_CHAN);
	downwards();
}

static void upwards(void)
{
	lock(&a, LR_SCHED);
	lock(&b, LR_START);
}

static void same_rank_twice(void)
{
	lock(&a, LR_SCHED);
	lock(&b, LR_SCHED);
}

static void unlocked_without_being_held(void)
{
	lock(&a, LR_START);
	unlock(&b, LR_SCHED);
}

static void switch_while_held(void)
{
	lock(&a, LR_START);
	unlock(&a, LR_START);
	switch_check();
	lock(&a, LR_CHAN);
	lock(&b, LR_SCHED);
	unlock(&b, LR_SCHED);
	switch_check();
}

static bool dies(void (*fn)(void), char *text, size_t room)
{
	int status = child_says(fn, text, room);

	if (WIFEXITED(status))
		CHECK_EQ(WEXITSTATUS(status), 0);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void need_checks(void)
{
#ifndef GMP_DEBUG_CHECKS
	check_skip("debug builds only");
#endif
}

TEST(lock_in_rank_order_is_accepted)
{
	char text[4096];

	CHECK(!dies(downwards, text, sizeof(text)));
	CHECK(!dies(two_channels, text, sizeof(text)));
	CHECK(!dies(very_many_channels, text, sizeof(text)));
}

TEST(lock_out_of_rank_order_dies)
{
	char text[4096];

	need_checks();
	CHECK(dies(upwards, text, sizeof(text)));
	CHECK(strstr(text, "gmp: fatal: lock order: LR_START taken while LR_SCHED is held\n") ==
	      text);
	CHECK(strstr(text, "    #0 0x") != NULL);
}

TEST(lock_two_of_exclusive_rank_dies)
{
	char text[4096];

	need_checks();
	CHECK(dies(same_rank_twice, text, sizeof(text)));
	CHECK(strncmp(text, "gmp: fatal: lock order: LR_SCHED", 32) == 0);
}

TEST(lock_same_rank_out_of_address_order_dies)
{
	static const char *const says = "gmp: fatal: lock order: two of LR_CHAN, not in the order";
	char text[4096];

	need_checks();
	CHECK(dies(two_channels_in_wrong_order, text, sizeof(text)));
	CHECK(strncmp(text, says, strlen(says)) == 0);
	CHECK(dies(same_channel_twice, text, sizeof(text)));
	CHECK(strncmp(text, says, strlen(says)) == 0);
}

TEST(unlock_not_held_dies)
{
	char text[4096];

	need_checks();
	CHECK(dies(unlocked_without_being_held, text, sizeof(text)));
	CHECK(strncmp(text, "gmp: fatal: unlock of LR_SCHED", 30) == 0);
}

TEST(lock_held_across_switch_dies)
{
	char text[4096];

	need_checks();
	CHECK(dies(switch_while_held, text, sizeof(text)));
	CHECK(strncmp(text, "gmp: fatal: LR_CHAN is held across a switch", 43) == 0);
}
