/* SPDX-License-Identifier: MIT */
/* Tests timers and waits for fds of Gs whose P was taken. */
#define _GNU_SOURCE 1
#include <unistd.h>

#include "preempt_util.h"

#include <fcntl.h>

/* --- a former P that is retired --- */

static atomic_int resized, slept, over;

static void sleep_after_resize(UNUSED void *arg)
{
	compute_until_taken();
	COMPUTE_UNTIL(atomic_load(&resized));
	CHECK_EQ(gmp_sleep(MS), 0);
	atomic_fetch_add(&slept, 1);
}

/* The one P that is left always has work, so it does not search other Ps for timers. */
static void keep_busy(UNUSED void *arg)
{
	while (!atomic_load(&over))
		gmp_yield();
}

RT(timer_of_g_without_p_fires_although_former_p_is_retired)
{
	gmp_g *g[PROCS_MOST], *busy;

	rivals_start(procs, procs);
	for (int i = 0; i < procs; i++)
		g[i] = spawn_large(sleep_after_resize, NULL);
	WAIT_FOR(atomic_load(&rivals.all_taken));
	CHECK_EQ(gmp_set_procs(1), procs);
	busy = spawn(keep_busy, NULL);
	for (int i = 0; i < 1000; i++)
		gmp_yield(); /* the other Ps retire */
	atomic_store(&resized, 1);
	WAIT_FOR(atomic_load(&slept) == procs);
	atomic_store(&over, 1);
	join(busy);
	for (int i = 0; i < procs; i++)
		join(g[i]);
	CHECK_EQ(gmp_set_procs(procs), 1);
	rivals_stop();
}

/* --- the end of a timer's G --- */

static gmp_timer *timer;
static atomic_int freed;

static void free_own_timer(UNUSED void *arg)
{
	gmp_timer_free(timer);
	compute_until_taken();
	atomic_store(&freed, 1);
}

static void end_run_before_timer_g(UNUSED void *arg)
{
	rivals_start(gmp_procs(), 1);
	CHECK((timer = gmp_timer_new(free_own_timer, NULL)) != NULL);
	gmp_timer_set(timer, gmp_deadline(MS), 0);
	WAIT_FOR(atomic_load(&freed));
	/* without a wait: the G of the timer has ended, and waits in the global queue for a P */
}

TEST_PROCS(timer_that_callback_without_p_frees_is_released_once)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = procs;
	for (int i = 0; i < 20; i++) {
		atomic_store(&freed, 0);
		CHECK_EQ(gmp_run(end_run_before_timer_g, NULL, &c), 0);
	}
}

/* --- a wait for an fd that a G without a P closes --- */

static int fds[2];
static gmp_g *reader;

static void wait_for_fd(UNUSED void *arg)
{
	CHECK_EQ(gmp_fd_wait(fds[0], GMP_READ, GMP_FOREVER), -ECANCELED);
}

static void close_after_sysmon_sleeps(UNUSED void *arg)
{
	compute_until_taken();
	compute_for(2500 * MS); /* all Ps are idle: sysmon sleeps after one second and a pass */
	/* as close, which ThreadSanitizer takes for a race with the epoll_ctl of sysmon */
	CHECK_EQ(syscall(SYS_close, fds[0]), 0);
	CHECK_EQ(gmp_join(reader), 0);
}

static void start_reader(UNUSED void *arg)
{
	gmp_g *g;
	int low[2];

	CHECK_EQ(pipe(low), 0);
	/* sysmon opens and closes files: ThreadSanitizer would take a reused number for the pipe */
	for (int i = 0; i < 2; i++) {
		CHECK((fds[i] = fcntl(low[i], F_DUPFD_CLOEXEC, 100)) >= 100);
		CHECK_EQ(close(low[i]), 0);
	}
	CHECK_EQ(gmp_fd_adopt(fds[0]), fds[0]);
	reader = spawn(wait_for_fd, NULL);
	rivals_start(gmp_procs(), 1);
	g = spawn_large(close_after_sysmon_sleeps, NULL);
	WAIT_FOR(atomic_load(&rivals.all_taken));
	atomic_store(&rivals.over, 1);
	for (int i = 0; i < rivals.n; i++)
		join(rivals.g[i]);
	join(g);
	CHECK_EQ(close(fds[1]), 0);
}

TEST_PROCS(close_by_g_without_p_ends_wait_for_fd)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = procs;
	CHECK_EQ(gmp_run(start_reader, NULL, &c), 0);
}
