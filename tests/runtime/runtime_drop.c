/* SPDX-License-Identifier: MIT */
/* Tests what becomes of those who live when a run ends: green threads are dropped, and what they waited
 * for stays usable; foreign threads hear of it. */
#include "runtime_util.h"

static gmp_mutex held, kept;
static gmp_rwmutex rw_held, rw_read;

static void leave_yielders(UNUSED void *arg)
{
	for (int i = 0; i < 50; i++)
		CHECK_EQ(gmp_go(step_for_ever, NULL), 0);
	WAIT_FOR(atomic_load(&steps) >= 500);
}

TEST_PROCS(ready_green_threads_are_dropped_when_the_entry_returns)
{
	run_procs(procs, leave_yielders, NULL);
	nobody_steps_any_more();
}

static void leave_sleepers(UNUSED void *arg)
{
	for (int i = 0; i < 50; i++)
		CHECK_EQ(gmp_go(step_after_sleep, NULL), 0);
	WAIT_FOR(atomic_load(&steps) >= 50);
}

TEST_PROCS(sleeping_green_threads_are_dropped_when_the_entry_returns)
{
	run_procs(procs, leave_sleepers, NULL);
	nobody_steps_any_more();
}

static void leave_unstarted(UNUSED void *arg)
{
	for (int i = 0; i < 1000; i++)
		CHECK_EQ(gmp_go(step_for_ever, NULL), 0);
}

TEST_PROCS(green_threads_that_never_ran_are_dropped)
{
	run_procs(procs, leave_unstarted, NULL);
	nobody_steps_any_more();
}

static void leave_runners(UNUSED void *arg)
{
	CHECK_EQ(gmp_go(step_and_check, NULL), 0);
	WAIT_FOR(atomic_load(&steps) > 0);
}

TEST_PROCS(running_green_threads_are_dropped_at_their_next_checkpoint)
{
	run_procs(procs, leave_runners, NULL);
	nobody_steps_any_more();
}

static atomic_int run_started, run_done;

static void run_20_ms(UNUSED void *arg)
{
	int64_t until = gmp_now() + 20 * MS;

	atomic_store(&run_started, 1);
	while (gmp_now() < until)
		;
	atomic_store(&run_done, 1);
}

static void leave_running(UNUSED void *arg)
{
	CHECK_EQ(gmp_go(run_20_ms, NULL), 0);
	WAIT_FOR(atomic_load(&run_started));
}

TEST_PROCS(run_waits_for_what_runs_on_other_threads)
{
	run_procs(procs, leave_running, NULL);
	CHECK_EQ(atomic_load(&run_done), 1);
}

static void lock_held(UNUSED void *arg)
{
	gmp_mutex_lock(&held);
	CHECK(!"a dropped green thread went on");
}

static void rlock_held(UNUSED void *arg)
{
	gmp_rwmutex_rlock(&rw_held);
	CHECK(!"a dropped green thread went on");
}

static void wlock_held(UNUSED void *arg)
{
	gmp_rwmutex_lock(&rw_held);
	CHECK(!"a dropped green thread went on");
}

static void wlock_read(UNUSED void *arg)
{
	gmp_rwmutex_lock(&rw_read);
	CHECK(!"a dropped green thread went on");
}

static void rlock_read(UNUSED void *arg)
{
	gmp_rwmutex_rlock(&rw_read);
	CHECK(!"a dropped green thread went on");
}

static void keep_lock(UNUSED void *arg)
{
	gmp_mutex_lock(&kept);
	wait_never(NULL);
}

static void leave_waiters(UNUSED void *arg)
{
	gmp_mutex_lock(&held);
	gmp_rwmutex_lock(&rw_held);
	gmp_rwmutex_rlock(&rw_read);
	gmp_wg_add(&never, 1);
	CHECK_EQ(gmp_go(keep_lock, NULL), 0);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(gmp_go(lock_held, NULL), 0);
		CHECK_EQ(gmp_go(rlock_held, NULL), 0);
		CHECK_EQ(gmp_go(wlock_held, NULL), 0);
		CHECK_EQ(gmp_go(wlock_read, NULL), 0);
		CHECK_EQ(gmp_go(wait_never, NULL), 0);
	}
	wait_parked(16);
	/* held off by those who want to write */
	for (int i = 0; i < 3; i++)
		CHECK_EQ(gmp_go(rlock_read, NULL), 0);
	wait_parked(19);
}

static void use_objects(UNUSED void *arg)
{
	for (int i = 0; i < 10; i++) {
		CHECK_EQ(gmp_mutex_lock(&held), 0);
		CHECK_EQ(gmp_mutex_unlock(&held), 0);
		CHECK_EQ(gmp_rwmutex_rlock(&rw_held), 0);
		CHECK_EQ(gmp_rwmutex_try_rlock(&rw_held), 0);
		CHECK_EQ(gmp_rwmutex_try_lock(&rw_held), -EAGAIN);
		CHECK_EQ(gmp_rwmutex_runlock(&rw_held), 0);
		CHECK_EQ(gmp_rwmutex_runlock(&rw_held), 0);
		CHECK_EQ(gmp_rwmutex_lock(&rw_held), 0);
		CHECK_EQ(gmp_rwmutex_try_rlock(&rw_held), -EAGAIN);
		CHECK_EQ(gmp_rwmutex_unlock(&rw_held), 0);
		CHECK_EQ(gmp_rwmutex_lock(&rw_read), 0);
		CHECK_EQ(gmp_rwmutex_unlock(&rw_read), 0);
		CHECK_EQ(gmp_wg_wait(&never), 0);
		CHECK_EQ(gmp_wg_add(&never, 1), 0);
		CHECK_EQ(gmp_wg_wait_until(&never, gmp_deadline(MS)), -ETIMEDOUT);
		CHECK_EQ(gmp_wg_done(&never), 0);
	}
}

TEST_PROCS(objects_that_dropped_green_threads_waited_on_stay_usable)
{
	for (int i = 0; i < 3; i++) {
		run_procs(procs, leave_waiters, NULL);
		/* What was held stays held. */
		CHECK_EQ(gmp_mutex_try_lock(&held), -EAGAIN);
		CHECK_EQ(gmp_mutex_try_lock(&kept), -EAGAIN);
		CHECK_EQ(gmp_rwmutex_try_rlock(&rw_held), -EAGAIN);
		CHECK_EQ(gmp_rwmutex_try_lock(&rw_read), -EAGAIN);
		CHECK_EQ(gmp_mutex_lock_until(&held, gmp_deadline(MS)), -ETIMEDOUT);
		CHECK_EQ(gmp_wg_wait_until(&never, gmp_deadline(MS)), -ETIMEDOUT);
		/* Nobody waits any more: readers may come in beside the one reader. */
		CHECK_EQ(gmp_rwmutex_try_rlock(&rw_read), 0);
		CHECK_EQ(gmp_rwmutex_runlock(&rw_read), 0);
		CHECK_EQ(gmp_mutex_unlock(&held), 0);
		CHECK_EQ(gmp_mutex_unlock(&kept), 0);
		CHECK_EQ(gmp_rwmutex_unlock(&rw_held), 0);
		CHECK_EQ(gmp_rwmutex_runlock(&rw_read), 0);
		CHECK_EQ(gmp_wg_done(&never), 0);
		use_objects(NULL);
		run_procs(procs, use_objects, NULL);
	}
}

static atomic_int locking, locked;

static void lock_foreign(UNUSED void *arg)
{
	atomic_store(&locking, 1);
	CHECK_EQ(gmp_mutex_lock(&kept), 0);
	atomic_store(&locked, 1);
	CHECK_EQ(gmp_mutex_unlock(&kept), 0);
}

static void lock_kept(UNUSED void *arg)
{
	gmp_mutex_lock(&kept);
	CHECK(!"a dropped green thread went on");
}

static struct ext_thread locker;

static void leave_woken(UNUSED void *arg)
{
	CHECK_EQ(gmp_mutex_lock(&kept), 0);
	CHECK_EQ(gmp_go(lock_kept, NULL), 0);
	gmp_yield();
	ext_thread_start(&locker, lock_foreign, NULL);
	WAIT_FOR(atomic_load(&locking));
	gmp_sleep(100 * US);
	/* Wakes the green thread, which is first in the queue but never runs again. */
	CHECK_EQ(gmp_mutex_unlock(&kept), 0);
}

TEST(a_wake_up_given_to_a_dropped_green_thread_is_not_lost)
{
	for (int i = 0; i < 5; i++) {
		memset(&kept, 0, sizeof(kept));
		atomic_store(&locking, 0);
		atomic_store(&locked, 0);
		run_procs(1, leave_woken, NULL);
		CHECK_EQ(gmp_mutex_lock_until(&kept, gmp_deadline(PATIENCE)), 0);
		CHECK_EQ(gmp_mutex_unlock(&kept), 0);
		ext_thread_join(&locker);
	}
}

static void leave_owners(UNUSED void *arg)
{
	CHECK_EQ(gmp_mutex_lock(&kept), 0);
	CHECK_EQ(gmp_rwmutex_lock(&rw_held), 0);
	CHECK_EQ(gmp_rwmutex_rlock(&rw_read), 0);
	CHECK_EQ(gmp_go(lock_kept, NULL), 0);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(gmp_go(rlock_held, NULL), 0);
	CHECK_EQ(gmp_go(wlock_read, NULL), 0);
	wait_parked(5);
	ext_thread_start(&locker, lock_foreign, NULL);
	WAIT_FOR(atomic_load(&locking));
	gmp_sleep(5 * MS); /* so long that a mutex is handed over */
	/* they have the locks now, and do not run any more */
	CHECK_EQ(gmp_mutex_unlock(&kept), 0);
	CHECK_EQ(gmp_rwmutex_unlock(&rw_held), 0);
	CHECK_EQ(gmp_rwmutex_runlock(&rw_read), 0);
	CHECK_EQ(gmp_mutex_try_lock(&kept), -EAGAIN);
	CHECK_EQ(gmp_rwmutex_try_lock(&rw_held), -EAGAIN);
	CHECK_EQ(gmp_rwmutex_try_rlock(&rw_read), -EAGAIN);
}

TEST(a_lock_handed_over_to_a_dropped_green_thread_is_not_lost)
{
	for (int i = 0; i < 5; i++) {
		atomic_store(&locking, 0);
		atomic_store(&locked, 0);
		run_procs(1, leave_owners, NULL);
		ext_thread_join(&locker);
		CHECK_EQ(atomic_load(&locked), 1);
		CHECK_EQ(gmp_mutex_try_lock(&kept), 0);
		CHECK_EQ(gmp_mutex_unlock(&kept), 0);
		CHECK_EQ(gmp_rwmutex_try_lock(&rw_held), 0);
		CHECK_EQ(gmp_rwmutex_unlock(&rw_held), 0);
		CHECK_EQ(gmp_rwmutex_try_lock(&rw_read), 0);
		CHECK_EQ(gmp_rwmutex_unlock(&rw_read), 0);
	}
}

static void lock_it(void *m)
{
	gmp_mutex_lock(m);
	CHECK(!"a dropped green thread went on");
}

static void lock_it_for_writing(void *rw)
{
	gmp_rwmutex_lock(rw);
	CHECK(!"a dropped green thread went on");
}

static void lock_it_for_reading(void *rw)
{
	gmp_rwmutex_rlock(rw);
	CHECK(!"a dropped green thread went on");
}

/* Locks that are gone with the stack they lay on. */
static void leave_owners_of_nothing(UNUSED void *arg)
{
	gmp_mutex m = GMP_MUTEX_INIT;
	gmp_rwmutex held_here = GMP_RWMUTEX_INIT, read_here = GMP_RWMUTEX_INIT;

	CHECK_EQ(gmp_mutex_lock(&m), 0);
	CHECK_EQ(gmp_rwmutex_lock(&held_here), 0);
	CHECK_EQ(gmp_rwmutex_rlock(&read_here), 0);
	CHECK_EQ(gmp_go(lock_it, &m), 0);
	CHECK_EQ(gmp_go(lock_it_for_reading, &held_here), 0);
	CHECK_EQ(gmp_go(lock_it_for_writing, &read_here), 0);
	wait_parked(3);
	gmp_sleep(5 * MS);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	CHECK_EQ(gmp_rwmutex_unlock(&held_here), 0);
	CHECK_EQ(gmp_rwmutex_runlock(&read_here), 0);
	memset(&m, 0, sizeof(m));
	memset(&held_here, 0, sizeof(held_here));
	memset(&read_here, 0, sizeof(read_here));
}

TEST(a_lock_that_is_gone_with_the_run_is_left_alone)
{
	run_procs(1, leave_owners_of_nothing, NULL);
}

static gmp_g *parked_g;
static atomic_int join_result, joining;

static void join_parked(UNUSED void *arg)
{
	atomic_store(&joining, 1);
	atomic_store(&join_result, gmp_join(parked_g));
}

static struct ext_thread joiner;

static void leave_joiner(UNUSED void *arg)
{
	gmp_wg_add(&never, 1);
	parked_g = spawn(wait_never, NULL);
	ext_thread_start(&joiner, join_parked, NULL);
	WAIT_FOR(atomic_load(&joining));
	/* Whether it waits already cannot be seen from here; both orders must be right. */
	gmp_sleep(5 * MS);
}

TEST_PROCS(a_foreign_joiner_gets_esrch_when_the_run_ends)
{
	run_procs(procs, leave_joiner, NULL);
	ext_thread_join(&joiner);
	CHECK_EQ(atomic_load(&join_result), -ESRCH);
}

static int pipe_fd[2];

static void read_pipe(UNUSED void *arg)
{
	char c;

	atomic_store(&joining, 1);
	atomic_store(&join_result, (int)gmp_read(pipe_fd[0], &c, 1));
}

static void leave_reader(UNUSED void *arg)
{
	CHECK_EQ(pipe(pipe_fd), 0);
	CHECK(gmp_fd_adopt(pipe_fd[0]) >= 0);
	ext_thread_start(&joiner, read_pipe, NULL);
	WAIT_FOR(atomic_load(&joining));
	gmp_sleep(5 * MS);
}

TEST_PROCS(a_foreign_reader_gets_esrch_when_the_run_ends)
{
	run_procs(procs, leave_reader, NULL);
	ext_thread_join(&joiner);
	CHECK_EQ(atomic_load(&join_result), -ESRCH);
}

static void wait_never_foreign(UNUSED void *arg)
{
	atomic_store(&joining, 1);
	atomic_store(&join_result, gmp_wg_wait(&never) + 100);
}

static void leave_waiter(UNUSED void *arg)
{
	gmp_wg_add(&never, 1);
	ext_thread_start(&joiner, wait_never_foreign, NULL);
	WAIT_FOR(atomic_load(&joining));
	gmp_sleep(5 * MS);
}

TEST_PROCS(a_foreign_waiter_that_another_thread_can_wake_outlives_the_run)
{
	run_procs(procs, leave_waiter, NULL);
	gmp_sleep(5 * MS);
	CHECK_EQ(atomic_load(&join_result), 0);
	gmp_wg_done(&never);
	ext_thread_join(&joiner);
	CHECK_EQ(atomic_load(&join_result), 100);
}
