/* SPDX-License-Identifier: MIT */
/*
 * Tests shutdown: remaining Gs are killed, the objects they waited on stay usable, and external
 * threads that wait for the runtime get -ESRCH.
 */
#include "runtime_util.h"

static gmp_mutex held, kept;
static gmp_rwmutex rw_held, rw_read;

static void leave_yielders(UNUSED void *arg)
{
	for (int i = 0; i < 50; i++)
		CHECK_EQ(gmp_go(step_and_yield, NULL), 0);
	WAIT_FOR(atomic_load(&steps) >= 500);
}

TEST_PROCS(shutdown_kills_runnable_green_threads)
{
	run_procs(procs, leave_yielders, NULL);
	check_no_steps();
}

static void leave_sleepers(UNUSED void *arg)
{
	for (int i = 0; i < 50; i++)
		CHECK_EQ(gmp_go(step_after_sleep, NULL), 0);
	WAIT_FOR(atomic_load(&steps) >= 50);
}

TEST_PROCS(shutdown_kills_sleeping_green_threads)
{
	run_procs(procs, leave_sleepers, NULL);
	check_no_steps();
}

static void leave_unstarted(UNUSED void *arg)
{
	for (int i = 0; i < 1000; i++)
		CHECK_EQ(gmp_go(step_and_yield, NULL), 0);
}

TEST_PROCS(shutdown_kills_green_threads_that_never_ran)
{
	run_procs(procs, leave_unstarted, NULL);
	check_no_steps();
}

static void leave_runners(UNUSED void *arg)
{
	CHECK_EQ(gmp_go(step_and_check, NULL), 0);
	WAIT_FOR(atomic_load(&steps) > 0);
}

TEST_PROCS(shutdown_kills_running_green_threads_at_checkpoint)
{
	run_procs(procs, leave_runners, NULL);
	check_no_steps();
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

TEST_PROCS(shutdown_waits_for_gs_running_on_other_threads)
{
	run_procs(procs, leave_running, NULL);
	CHECK_EQ(atomic_load(&run_done), 1);
}

static void lock_held(UNUSED void *arg)
{
	gmp_mutex_lock(&held);
	CHECK(!"a green thread that was killed at shutdown ran on");
}

static void rlock_held(UNUSED void *arg)
{
	gmp_rwmutex_rlock(&rw_held);
	CHECK(!"a green thread that was killed at shutdown ran on");
}

static void wlock_held(UNUSED void *arg)
{
	gmp_rwmutex_lock(&rw_held);
	CHECK(!"a green thread that was killed at shutdown ran on");
}

static void wlock_read(UNUSED void *arg)
{
	gmp_rwmutex_lock(&rw_read);
	CHECK(!"a green thread that was killed at shutdown ran on");
}

static void rlock_read(UNUSED void *arg)
{
	gmp_rwmutex_rlock(&rw_read);
	CHECK(!"a green thread that was killed at shutdown ran on");
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
	/* these readers wait behind the queued writers */
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

TEST_PROCS(shutdown_leaves_waited_on_objects_usable)
{
	for (int i = 0; i < 3; i++) {
		run_procs(procs, leave_waiters, NULL);
		/* Held locks stay held. */
		CHECK_EQ(gmp_mutex_try_lock(&held), -EAGAIN);
		CHECK_EQ(gmp_mutex_try_lock(&kept), -EAGAIN);
		CHECK_EQ(gmp_rwmutex_try_rlock(&rw_held), -EAGAIN);
		CHECK_EQ(gmp_rwmutex_try_lock(&rw_read), -EAGAIN);
		CHECK_EQ(gmp_mutex_lock_until(&held, gmp_deadline(MS)), -ETIMEDOUT);
		CHECK_EQ(gmp_wg_wait_until(&never, gmp_deadline(MS)), -ETIMEDOUT);
		/* No waiter is queued any more: a reader may join the one reader. */
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

static void lock_external(UNUSED void *arg)
{
	atomic_store(&locking, 1);
	CHECK_EQ(gmp_mutex_lock(&kept), 0);
	atomic_store(&locked, 1);
	CHECK_EQ(gmp_mutex_unlock(&kept), 0);
}

static void lock_kept(UNUSED void *arg)
{
	gmp_mutex_lock(&kept);
	CHECK(!"a green thread that was killed at shutdown ran on");
}

static struct ext_thread locker;

static void leave_woken(UNUSED void *arg)
{
	CHECK_EQ(gmp_mutex_lock(&kept), 0);
	CHECK_EQ(gmp_go(lock_kept, NULL), 0);
	gmp_yield();
	ext_thread_start(&locker, lock_external, NULL);
	WAIT_FOR(atomic_load(&locking));
	gmp_sleep(100 * US);
	/* Wakes the green thread, which is first in the queue but never runs again. */
	CHECK_EQ(gmp_mutex_unlock(&kept), 0);
}

TEST(shutdown_passes_on_wakeup_of_killed_waiter)
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
	ext_thread_start(&locker, lock_external, NULL);
	WAIT_FOR(atomic_load(&locking));
	gmp_sleep(5 * MS); /* long enough for a hand-over of the mutex */
	/* these hand the locks to Gs that never run again */
	CHECK_EQ(gmp_mutex_unlock(&kept), 0);
	CHECK_EQ(gmp_rwmutex_unlock(&rw_held), 0);
	CHECK_EQ(gmp_rwmutex_runlock(&rw_read), 0);
	CHECK_EQ(gmp_mutex_try_lock(&kept), -EAGAIN);
	CHECK_EQ(gmp_rwmutex_try_lock(&rw_held), -EAGAIN);
	CHECK_EQ(gmp_rwmutex_try_rlock(&rw_read), -EAGAIN);
}

TEST(shutdown_passes_on_lock_handed_to_killed_waiter)
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

static void lock_local(void *m)
{
	gmp_mutex_lock(m);
	CHECK(!"a green thread that was killed at shutdown ran on");
}

static void wlock_local(void *rw)
{
	gmp_rwmutex_lock(rw);
	CHECK(!"a green thread that was killed at shutdown ran on");
}

static void rlock_local(void *rw)
{
	gmp_rwmutex_rlock(rw);
	CHECK(!"a green thread that was killed at shutdown ran on");
}

/* Locks on a stack that is gone when the run ends. */
static void leave_owners_of_local_locks(UNUSED void *arg)
{
	gmp_mutex m = GMP_MUTEX_INIT;
	gmp_rwmutex held_here = GMP_RWMUTEX_INIT, read_here = GMP_RWMUTEX_INIT;

	CHECK_EQ(gmp_mutex_lock(&m), 0);
	CHECK_EQ(gmp_rwmutex_lock(&held_here), 0);
	CHECK_EQ(gmp_rwmutex_rlock(&read_here), 0);
	CHECK_EQ(gmp_go(lock_local, &m), 0);
	CHECK_EQ(gmp_go(rlock_local, &held_here), 0);
	CHECK_EQ(gmp_go(wlock_local, &read_here), 0);
	wait_parked(3);
	gmp_sleep(5 * MS);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	CHECK_EQ(gmp_rwmutex_unlock(&held_here), 0);
	CHECK_EQ(gmp_rwmutex_runlock(&read_here), 0);
	memset(&m, 0, sizeof(m));
	memset(&held_here, 0, sizeof(held_here));
	memset(&read_here, 0, sizeof(read_here));
}

TEST(shutdown_does_not_touch_locks_on_killed_stacks)
{
	run_procs(1, leave_owners_of_local_locks, NULL);
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
	/* The joiner may or may not wait already; both orders must work. */
	gmp_sleep(5 * MS);
}

TEST_PROCS(shutdown_returns_esrch_to_external_joiner)
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

TEST_PROCS(shutdown_returns_esrch_to_external_reader)
{
	run_procs(procs, leave_reader, NULL);
	ext_thread_join(&joiner);
	CHECK_EQ(atomic_load(&join_result), -ESRCH);
}

static void wait_never_external(UNUSED void *arg)
{
	atomic_store(&joining, 1);
	atomic_store(&join_result, gmp_wg_wait(&never) + 100);
}

static void leave_waiter(UNUSED void *arg)
{
	gmp_wg_add(&never, 1);
	ext_thread_start(&joiner, wait_never_external, NULL);
	WAIT_FOR(atomic_load(&joining));
	gmp_sleep(5 * MS);
}

TEST_PROCS(shutdown_leaves_external_wg_waiter_waiting)
{
	run_procs(procs, leave_waiter, NULL);
	gmp_sleep(5 * MS);
	CHECK_EQ(atomic_load(&join_result), 0);
	gmp_wg_done(&never);
	ext_thread_join(&joiner);
	CHECK_EQ(atomic_load(&join_result), 100);
}
