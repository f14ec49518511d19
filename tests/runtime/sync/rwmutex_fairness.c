/* SPDX-License-Identifier: MIT */
/*
 * Tests the fairness of gmp_rwmutex in virtual time, where each bound is exact: how long a writer
 * and a reader wait for others, when a waiting writer holds off readers, and few switches under
 * contention.
 */
#include "fairness_util.h"

static gmp_rwmutex rw = GMP_RWMUTEX_INIT;
static int64_t counter;
static gmp_wg ended;

static void write_once(UNUSED void *arg)
{
	CHECK_EQ(gmp_rwmutex_lock(&rw), 0);
	CHECK_EQ(gmp_rwmutex_unlock(&rw), 0);
}

static void read_once(UNUSED void *arg)
{
	CHECK_EQ(gmp_rwmutex_rlock(&rw), 0);
	CHECK_EQ(gmp_rwmutex_runlock(&rw), 0);
}

static void check_free(void)
{
	CHECK_EQ(gmp_rwmutex_try_lock(&rw), 0);
	CHECK_EQ(gmp_rwmutex_unlock(&rw), 0);
}

/* --- when a waiting writer holds off readers --- */

static void wake_writer(UNUSED void *arg)
{
	gmp_g *w;

	CHECK_EQ(gmp_rwmutex_lock(&rw), 0);
	w = spawn(write_once, NULL);
	CHECK_EQ(gmp_sleep(1), 0);
	CHECK_EQ(gmp_rwmutex_unlock(&rw), 0);
	CHECK_EQ(gmp_rwmutex_try_rlock(&rw), 0); /* the writer has not run yet */
	CHECK_EQ(gmp_sleep(1), 0);
	CHECK_EQ(gmp_rwmutex_try_rlock(&rw), -EAGAIN); /* the writer waits for this reader */
	CHECK_EQ(gmp_rwmutex_runlock(&rw), 0);
	join(w);
	check_free();
}

TEST(rwmutex_woken_writer_holds_off_readers_once_it_runs)
{
	run_virtual(1, wake_writer, NULL);
}

static void hand_over(UNUSED void *arg)
{
	gmp_g *w, *r;

	CHECK_EQ(gmp_rwmutex_lock(&rw), 0);
	w = spawn(write_once, NULL);
	r = spawn(read_once, NULL);
	CHECK_EQ(gmp_sleep(2 * STARVING), 0);
	CHECK_EQ(gmp_rwmutex_unlock(&rw), 0);
	CHECK_EQ(gmp_rwmutex_try_rlock(&rw), -EAGAIN);
	CHECK_EQ(gmp_rwmutex_try_lock(&rw), -EAGAIN);
	join(r);
	join(w);
	check_free();
}

TEST(rwmutex_handed_over_to_writer_holds_off_readers_at_once)
{
	run_virtual(1, hand_over, NULL);
}

static void write_until(UNUSED void *arg)
{
	CHECK_EQ(gmp_rwmutex_lock_until(&rw, gmp_deadline(STARVING)), -ETIMEDOUT);
}

static void time_out_first_writer(void *arg)
{
	gmp_g *first, *second, *r;

	CHECK_EQ(gmp_rwmutex_rlock(&rw), 0);
	first = spawn(write_until, NULL);
	CHECK_EQ(gmp_sleep(1), 0);
	second = spawn(write_once, NULL);
	r = spawn(read_once, NULL);
	CHECK_EQ(gmp_sleep(STARVING / 2), 0);
	CHECK_EQ(gmp_rwmutex_try_rlock(&rw), -EAGAIN);
	if (*(int *)arg) {
		CHECK_EQ(gmp_cancel(second), 0); /* gmp_rwmutex_lock is not cancelled */
		CHECK_EQ(gmp_sleep(1), 0);
	}
	join(first);
	join(r); /* admitted while the caller holds a read lock */
	CHECK_EQ(gmp_sleep(1), 0);
	CHECK_EQ(gmp_rwmutex_try_rlock(&rw), -EAGAIN); /* the second writer waits now */
	CHECK_EQ(gmp_rwmutex_runlock(&rw), 0);
	join(second);
	check_free();
}

TEST(rwmutex_writer_timeout_admits_readers_and_wakes_next_writer)
{
	int cancelled = 0;

	run_virtual(1, time_out_first_writer, &cancelled);
	cancelled = 1;
	run_virtual(1, time_out_first_writer, &cancelled);
}

/* --- the bounds --- */

enum { CROWD = 100, READERS = 10 };
static int64_t waited[CROWD], hold, read_for;
static int queued, served;

/* The owner locks again at once, ahead of the woken waiter, until the lock is handed over. */
static void hold_until_handed_over(void)
{
	do {
		CHECK_EQ(gmp_sleep(hold), 0);
		CHECK_EQ(gmp_rwmutex_unlock(&rw), 0);
	} while (served < CROWD && gmp_rwmutex_try_lock(&rw) == 0);
}

static void write_in_crowd(UNUSED void *arg)
{
	int ahead = queued++;
	int64_t began = gmp_now();

	CHECK_EQ(gmp_rwmutex_lock(&rw), 0);
	waited[ahead] = gmp_now() - began;
	served++;
	hold_until_handed_over();
}

/* Readers hold the lock nearly always. */
static void read_in_crowd(UNUSED void *arg)
{
	while (served < CROWD) {
		int64_t began = gmp_now();

		CHECK_EQ(gmp_rwmutex_rlock(&rw), 0);
		CHECK(gmp_now() - began <= read_for + hold);
		CHECK_EQ(gmp_sleep(read_for), 0);
		CHECK_EQ(gmp_rwmutex_runlock(&rw), 0);
	}
}

static void crowd(void *arg)
{
	int readers = *(int *)arg;
	gmp_g *g[CROWD + READERS];

	CHECK_EQ(gmp_rwmutex_lock(&rw), 0);
	for (int i = 0; i < CROWD; i++)
		g[i] = spawn(write_in_crowd, NULL);
	for (int i = 0; i < readers; i++)
		g[CROWD + i] = spawn(read_in_crowd, NULL);
	hold_until_handed_over();
	for (int i = 0; i < CROWD + readers; i++)
		join(g[i]);
	for (int i = 0; i < CROWD; i++) {
		CHECK(waited[i] <= STARVING + i * PACE + (i + 1) * (hold + read_for) + read_for);
		CHECK(readers || waited[i] > STARVING);
	}
	check_free();
}

static void run_crowd_of(int readers, int64_t write_ns, int64_t read_ns)
{
	hold = write_ns;
	read_for = readers ? read_ns : 0;
	run_virtual(1, crowd, &readers);
}

TEST(rwmutex_writer_behind_k_others_gets_short_held_lock_within_bound)
{
	run_crowd_of(0, 5 * US, 0);
}

TEST(rwmutex_writer_behind_k_others_gets_long_held_lock_within_bound)
{
	run_crowd_of(0, 50 * US, 0);
}

TEST(rwmutex_readers_and_writers_get_short_held_lock_within_bounds)
{
	run_crowd_of(READERS, 5 * US, 3 * US);
}

TEST(rwmutex_readers_and_writers_get_long_held_lock_within_bounds)
{
	run_crowd_of(READERS, 50 * US, 30 * US);
}

/* --- no convoy --- */

static int write_one_in;

static void lock_often(UNUSED void *arg)
{
	for (int i = 0; i < EACH; i++) {
		if (i % write_one_in == 0) {
			CHECK_EQ(gmp_rwmutex_lock(&rw), 0);
			counter++;
			CHECK_EQ(gmp_rwmutex_unlock(&rw), 0);
		} else {
			read_once(NULL);
		}
	}
	gmp_wg_done(&ended);
}

static void starve_many(void *arg)
{
	int procs = *(int *)arg;
	uint64_t before;

	counter = 0;
	CHECK_EQ(gmp_wg_add(&ended, MANY), 0);
	CHECK_EQ(gmp_rwmutex_lock(&rw), 0);
	for (int i = 0; i < MANY; i++)
		CHECK_EQ(gmp_go(lock_often, NULL), 0);
	CHECK_EQ(gmp_sleep(3 * STARVING), 0); /* by then all others are parked */
	before = switches();
	CHECK_EQ(gmp_rwmutex_unlock(&rw), 0);
	CHECK_EQ(gmp_wg_wait(&ended), 0);
	CHECK_EQ(counter, MANY * EACH / write_one_in);
	check_no_convoy(before, procs);
	check_free();
}

TEST_PROCS(rwmutex_with_2000_starved_writers_forms_no_convoy)
{
	write_one_in = 1;
	run_virtual(procs, starve_many, &procs);
}

TEST_PROCS(rwmutex_with_2000_starved_waiters_forms_no_convoy)
{
	write_one_in = 10;
	run_virtual(procs, starve_many, &procs);
}

/* --- lifetime --- */

struct object {
	gmp_rwmutex rw;
	char pad[48];
};

static void read_and_free(void *arg)
{
	struct object *o = arg;

	CHECK_EQ(gmp_rwmutex_rlock(&o->rw), 0);
	CHECK_EQ(gmp_rwmutex_runlock(&o->rw), 0);
	memset((void *)o, 0xff, sizeof(*o));
	free(o);
}

/* The reader is queued, or arrives at the unlock. */
RT(rwmutex_may_be_freed_by_reader_after_write_unlock)
{
	int n = SLOW ? 300 : 3000;

	for (int i = 0; i < n; i++) {
		struct object *o = calloc(1, sizeof(*o));
		gmp_g *g;

		CHECK(o != NULL);
		CHECK_EQ(gmp_rwmutex_lock(&o->rw), 0);
		g = spawn(read_and_free, o);
		if (i % 2)
			gmp_yield();
		CHECK_EQ(gmp_rwmutex_unlock(&o->rw), 0);
		join(g);
	}
}
