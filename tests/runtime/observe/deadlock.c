/* SPDX-License-Identifier: MIT */
/* Tests deadlock detection: no report while a timer, an fd or an OS thread can still end a wait. */
#include "util.h"

static gmp_wg wg;
static gmp_mutex mu;

static void done(UNUSED void *arg)
{
	CHECK_EQ(gmp_wg_done(&wg), 0);
}

RT(deadlock_is_not_reported_with_armed_timer)
{
	gmp_timer *t = gmp_timer_new(done, NULL);

	CHECK_EQ(gmp_wg_add(&wg, 1), 0);
	CHECK_EQ(gmp_timer_set(t, gmp_deadline(30 * MS), 0), 0);
	CHECK_EQ(gmp_wg_wait(&wg), 0);
	gmp_timer_free(t);
}

static void sleep_and_done(UNUSED void *arg)
{
	gmp_sleep(30 * MS);
	CHECK_EQ(gmp_wg_done(&wg), 0);
}

RT(deadlock_is_not_reported_with_sleeper)
{
	CHECK_EQ(gmp_wg_add(&wg, 1), 0);
	CHECK_EQ(gmp_go(sleep_and_done, NULL), 0);
	CHECK_EQ(gmp_wg_wait(&wg), 0);
}

RT(deadlock_is_not_reported_for_timed_wait)
{
	CHECK_EQ(gmp_wg_add(&wg, 1), 0);
	CHECK_EQ(gmp_wg_wait_until(&wg, gmp_deadline(30 * MS)), -ETIMEDOUT);
	CHECK_EQ(gmp_mutex_lock(&mu), 0);
	CHECK_EQ(gmp_mutex_lock_until(&mu, gmp_deadline(30 * MS)), -ETIMEDOUT);
}

RT(deadlock_is_not_reported_with_reader)
{
	int fd[2];
	pid_t pid;
	char c;

	CHECK_EQ(pipe(fd), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		usleep(50000);
		_exit(write(fd[1], "x", 1) != 1);
	}
	CHECK(gmp_fd_adopt(fd[0]) >= 0);
	CHECK_EQ(gmp_read(fd[0], &c, 1), 1);
	CHECK_EQ(c, 'x');
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

static void *late_done(UNUSED void *arg)
{
	usleep(50000);
	CHECK_EQ(gmp_wg_done(&wg), 0);
	return NULL;
}

RT(deadlock_is_not_reported_with_external_thread)
{
	pthread_t t;

	CHECK_EQ(gmp_wg_add(&wg, 1), 0);
	CHECK_EQ(pthread_create(&t, NULL, late_done, NULL), 0);
	CHECK_EQ(gmp_wg_wait(&wg), 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
}

static void unlock_later(UNUSED void *arg)
{
	usleep(50000); /* the G sleeps in the kernel and keeps its P */
	CHECK_EQ(gmp_mutex_unlock(&mu), 0);
}

RT(deadlock_is_not_reported_with_g_in_kernel_sleep)
{
	CHECK_EQ(gmp_mutex_lock(&mu), 0);
	CHECK_EQ(gmp_go(unlock_later, NULL), 0);
	CHECK_EQ(gmp_mutex_lock(&mu), 0);
}

RT(deadlock_check_unused_fd_deadline_hides_no_timer)
{
	char c;

	for (int i = 0; i < 8; i++) {
		int fd[2];

		CHECK_EQ(pipe(fd), 0);
		CHECK(gmp_fd_adopt(fd[0]) >= 0);
		CHECK(gmp_fd_adopt(fd[1]) >= 0);
		CHECK_EQ(gmp_fd_set_deadline(fd[i % 2], GMP_READ | GMP_WRITE,
					     gmp_deadline(i * 5 * MS)),
			 0);
		CHECK_EQ(gmp_sleep(6 * MS), 0);
		CHECK_EQ(gmp_wg_add(&wg, 1), 0);
		CHECK_EQ(gmp_go(sleep_and_done, NULL), 0);
		CHECK_EQ(gmp_wg_wait(&wg), 0);
		CHECK_EQ(gmp_fd_set_deadline(fd[0], GMP_READ, gmp_deadline(5 * MS)), 0);
		CHECK_EQ(gmp_read(fd[0], &c, 1), -ETIMEDOUT);
		if (i % 3) {
			CHECK_EQ(gmp_close(fd[0]), 0);
			CHECK_EQ(gmp_close(fd[1]), 0);
		}
	}
}
