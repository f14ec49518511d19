/* SPDX-License-Identifier: MIT */
/*
 * Tests that the steps of a wait are in the order of src/park.h. The checks run in the commit step,
 * in which a waker can find the waiter for the first time.
 *
 * floors 0..6
 */
#define _GNU_SOURCE 1
#include "check.h"

#include "base/os.h"
#include "park.h"

#include <pthread.h>

#include "rt.h"
#include "waiter.h"

static void claim_and_wake(void *arg)
{
	struct waiter *w = arg;

	CHECK(waiter_claim(w, -EPIPE)); /* PARK-1 */
	ready(w);
}

static void wait_and_be_claimed(void *deadline)
{
	struct waiter *w = &getm()->curg->w;

	for (int i = 0; i < 3; i++)
		CHECK_EQ(wait_on(w, WAIT_SLEEP, NULL, claim_and_wake, w, *(int64_t *)deadline),
			 -EPIPE);
}

static int64_t deadlines[] = { NEVER, NEVER - 1 };

TEST(park_g_is_claimable_in_commit_step)
{
	for (int i = 0; i < 2; i++)
		run_procs(1, wait_and_be_claimed, &deadlines[i]);
}

static void *wait_as_external_thread(void *deadline)
{
	struct external f;
	struct sudog *sg = external_sudog(&f);

	CHECK_EQ(wait_on(sg->w, WAIT_SLEEP, NULL, claim_and_wake, sg->w, *(int64_t *)deadline),
		 -EPIPE);
	return NULL;
}

TEST(park_external_waiter_is_claimable_in_commit_step)
{
	pthread_t t;

	for (int i = 0; i < 2; i++) {
		CHECK_EQ(pthread_create(&t, NULL, wait_as_external_thread, &deadlines[i]), 0);
		CHECK_EQ(pthread_join(t, NULL), 0);
	}
}

static void check_claimed(void *arg)
{
	struct waiter *w = arg;

	CHECK(!waiter_claim(w, -EPIPE));
}

static void wait_cancelled(void *deadline)
{
	struct waiter *w = &getm()->curg->w;

	CHECK_EQ(gmp_cancel(gmp_self()), 0);
	CHECK_EQ(wait_on(w, WAIT_SLEEP, NULL, check_claimed, w, *(int64_t *)deadline), -ECANCELED);
	CHECK_EQ(wait_on(w, WAIT_SLEEP | UNCANCELLABLE, NULL, claim_and_wake, w,
			 *(int64_t *)deadline),
		 -EPIPE);
}

TEST(park_cancelled_g_is_claimed_before_commit_step)
{
	for (int i = 0; i < 2; i++)
		run_procs(1, wait_cancelled, &deadlines[i]);
}

/*
 * An inspector holds the waiter while it starts to sleep, and releases it later without a wakeup.
 * The waiter must therefore sleep with its deadline.
 */
static void *release_later(void *w)
{
	os_nap(20 * 1000 * 1000);
	waiter_release(w);
	return NULL;
}

static pthread_t inspector;

static void hold_waiter(void *w)
{
	CHECK_EQ(waiter_hold(w), WAITER_ARMED);
	CHECK_EQ(pthread_create(&inspector, NULL, release_later, w), 0);
}

TEST(park_external_waiter_held_at_start_still_times_out)
{
	struct external f;
	struct sudog *sg = external_sudog(&f);
	int64_t deadline = gmp_deadline(30 * 1000 * 1000);

	CHECK_EQ(wait_on(sg->w, WAIT_SLEEP, NULL, hold_waiter, sg->w, deadline), -ETIMEDOUT);
	CHECK(gmp_now() >= deadline);
	CHECK_EQ(pthread_join(inspector, NULL), 0);
}
