/* SPDX-License-Identifier: MIT */
/* Tests that a run does not start on a thread with a shadow stack. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>

#include "runtime_util.h"
#include "shadow.h"
#include "observe/stderr_util.h"

static void need_fake(void)
{
	if (!shadow_stack_fake())
		check_skip("no seccomp filters with a supervisor");
}

TEST(run_with_shadow_stack_returns_enotsup)
{
	need_fake();
	catch_stderr();
	CHECK_EQ(gmp_run(count_run, NULL, NULL), -ENOTSUP);
	CHECK_EQ(gmp_start(NULL), -ENOTSUP);
	restore_stderr();
	CHECK(strstr(caught(), "gmp: gmp_run: the calling thread has a shadow stack"));
	CHECK_EQ(atomic_load(&ran), 0);
	CHECK_EQ(gmp_stop(), -ESRCH);
}

static void *run_shadowed(UNUSED void *arg)
{
	need_fake();
	CHECK_EQ(gmp_run(count_run, NULL, NULL), -ENOTSUP);
	return NULL;
}

TEST(run_after_enotsup_starts_on_another_thread)
{
	pthread_t t;

	CHECK_EQ(pthread_create(&t, NULL, run_shadowed, NULL), 0);
	pthread_join(t, NULL);
	CHECK_EQ(gmp_run(count_run, NULL, NULL), 0);
	CHECK_EQ(atomic_load(&ran), 1);
}
