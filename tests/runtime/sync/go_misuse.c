/* SPDX-License-Identifier: MIT */
/*
 * Tests that misuse of locks and wait groups aborts the process, with a program of the same intent
 * as Go's TestMutexMisuse, TestWaitGroupMisuse and TestWaitGroupMisuse3 in
 * src/sync/{mutex,rwmutex,waitgroup}_test.go.
 */
#include <fcntl.h>
#include <signal.h>

#include "go_util.h"

static gmp_mutex m;
static gmp_rwmutex rw;
static gmp_wg wg;

static void misuse_unlock(void)
{
	gmp_mutex_unlock(&m);
}

static void misuse_unlock_twice(void)
{
	gmp_mutex_lock(&m);
	gmp_mutex_unlock(&m);
	gmp_mutex_unlock(&m);
}

static void misuse_rw_unlock(void)
{
	gmp_rwmutex_unlock(&rw);
}

static void misuse_rw_unlock_of_a_reader(void)
{
	gmp_rwmutex_rlock(&rw);
	gmp_rwmutex_unlock(&rw);
}

static void misuse_rw_unlock_twice(void)
{
	gmp_rwmutex_lock(&rw);
	gmp_rwmutex_unlock(&rw);
	gmp_rwmutex_unlock(&rw);
}

static void misuse_runlock(void)
{
	gmp_rwmutex_runlock(&rw);
}

static void misuse_runlock_of_a_writer(void)
{
	gmp_rwmutex_lock(&rw);
	gmp_rwmutex_runlock(&rw);
}

static void misuse_runlock_twice(void)
{
	gmp_rwmutex_rlock(&rw);
	gmp_rwmutex_runlock(&rw);
	gmp_rwmutex_runlock(&rw);
}

static void misuse_done(void)
{
	gmp_wg_add(&wg, 1);
	gmp_wg_done(&wg);
	gmp_wg_done(&wg);
}

static void misuse_add(void)
{
	gmp_wg_add(&wg, -1);
}

static void (*const misuses[])(void) = {
	misuse_unlock,
	misuse_unlock_twice,
	misuse_rw_unlock,
	misuse_rw_unlock_of_a_reader,
	misuse_rw_unlock_twice,
	misuse_runlock,
	misuse_runlock_of_a_writer,
	misuse_runlock_twice,
	misuse_done,
	misuse_add,
};

static int which, run_with_procs;

static void misuse(UNUSED void *arg)
{
	misuses[which]();
}

static void misuse_without_stderr(void)
{
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (null < 0 || dup2(null, 2) < 0)
		return;
	if (run_with_procs)
		run_procs(run_with_procs, misuse, NULL);
	else
		misuse(NULL);
}

TEST(misuse_of_lock_or_wait_group_aborts_process)
{
	for (run_with_procs = 0; run_with_procs <= 2; run_with_procs += 2) {
		for (which = 0; which < (int)(sizeof(misuses) / sizeof(misuses[0])); which++) {
			int status = in_child(misuse_without_stderr);

			CHECK(WIFSIGNALED(status));
			CHECK_EQ(WTERMSIG(status), SIGABRT);
		}
	}
}
