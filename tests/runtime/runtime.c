/* SPDX-License-Identifier: MIT */
/*
 * Tests the promises of gmp_run, gmp_start and gmp_stop: what they return, what they drop, what
 * they leave behind, and what a forked child finds.
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>

#include "util.h"

static atomic_int ran;

static void count_run(UNUSED void *arg)
{
	atomic_fetch_add(&ran, 1);
}

static void nothing(UNUSED void *arg)
{
}

TEST_PROCS(run_runs_the_entry_once_with_its_argument)
{
	run_procs(procs, count_run, NULL);
	CHECK_EQ(atomic_load(&ran), 1);
	run_procs(procs, count_run, NULL);
	CHECK_EQ(atomic_load(&ran), 2);
}

TEST(run_without_a_configuration_works)
{
	CHECK_EQ(gmp_run(count_run, NULL, NULL), 0);
	CHECK_EQ(atomic_load(&ran), 1);
}

static void exit_app(UNUSED void *arg)
{
	atomic_fetch_add(&ran, 1);
	gmp_exit();
}

TEST_PROCS(exit_in_the_entry_ends_the_run)
{
	run_procs(procs, exit_app, NULL);
	CHECK_EQ(atomic_load(&ran), 1);
}

static void see_procs(void *arg)
{
	*(int *)arg = gmp_procs();
}

TEST(procs_is_what_the_configuration_says_and_0_without_a_runtime)
{
	for (int n = 1; n <= 8; n++) {
		gmp_config c = GMP_CONFIG_INIT;
		int seen = -1;

		CHECK_EQ(gmp_procs(), 0);
		c.procs = n;
		CHECK_EQ(gmp_run(see_procs, &seen, &c), 0);
		CHECK_EQ(seen, n);
	}
	CHECK_EQ(gmp_procs(), 0);
}

TEST(procs_comes_from_the_environment)
{
	gmp_config c = GMP_CONFIG_INIT;
	int seen = -1;

	CHECK_EQ(setenv("GMP_PROCS", "3", 1), 0);
	CHECK_EQ(gmp_run(see_procs, &seen, NULL), 0);
	CHECK_EQ(seen, 3);
	CHECK_EQ(gmp_run(see_procs, &seen, &c), 0);
	CHECK_EQ(seen, 3);
}

TEST(the_configuration_beats_the_environment)
{
	gmp_config c = GMP_CONFIG_INIT;
	int seen = -1;

	CHECK_EQ(setenv("GMP_PROCS", "3", 1), 0);
	c.procs = 2;
	CHECK_EQ(gmp_run(see_procs, &seen, &c), 0);
	CHECK_EQ(seen, 2);
}

static void bad_env(const char *name, const char *value)
{
	CHECK_EQ(setenv(name, value, 1), 0);
	CHECK_EQ(gmp_run(count_run, NULL, NULL), -EINVAL);
	CHECK_EQ(gmp_start(NULL), -EINVAL);
	CHECK_EQ(unsetenv(name), 0);
	CHECK_EQ(atomic_load(&ran), 0);
}

TEST(a_bad_environment_is_einval)
{
	bad_env("GMP_PROCS", "-1");
	bad_env("GMP_PROCS", "many");
	bad_env("GMP_PROCS", "4x");
	bad_env("GMP_PROCS", "1025");
	bad_env("GMP_PROCS", "99999999999999999999");
	bad_env("GMP_STACK_SIZE", "-5");
	bad_env("GMP_STACK_SIZE", "big");
	bad_env("GMP_STACK_SIZE", "2147483648");
	bad_env("GMP_MAX_THREADS", "none");
	bad_env("GMP_SEED", "oats");
	CHECK_EQ(gmp_run(count_run, NULL, NULL), 0);
	CHECK_EQ(atomic_load(&ran), 1);
}

TEST(procs_is_1_where_affinity_leaves_one_cpu)
{
	cpu_set_t set, one;
	int seen = -1;

	unsetenv("GMP_PROCS");
	CHECK_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
	CPU_ZERO(&one);
	for (int i = 0; i < CPU_SETSIZE; i++) {
		if (CPU_ISSET(i, &set)) {
			CPU_SET(i, &one);
			break;
		}
	}
	CHECK_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
	CHECK_EQ(gmp_run(see_procs, &seen, NULL), 0);
	CHECK_EQ(seen, 1);
}

TEST(procs_is_never_more_than_affinity_leaves)
{
	cpu_set_t set;
	int seen = -1;

	unsetenv("GMP_PROCS");
	CHECK_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
	CHECK_EQ(gmp_run(see_procs, &seen, NULL), 0);
	CHECK(seen >= 1);
	CHECK(seen <= CPU_COUNT(&set));
}

static void both_refuse(const gmp_config *c)
{
	CHECK_EQ(gmp_run(count_run, NULL, c), -EINVAL);
	CHECK_EQ(gmp_start(c), -EINVAL);
	CHECK_EQ(gmp_procs(), 0);
	CHECK_EQ(atomic_load(&ran), 0);
}

TEST(a_bad_configuration_is_einval)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.size = 0;
	both_refuse(&c);
	c = (gmp_config)GMP_CONFIG_INIT;
	c.procs = -1;
	both_refuse(&c);
	c.procs = 1025;
	both_refuse(&c);
	c.procs = INT_MIN;
	both_refuse(&c);
	c.procs = INT_MAX;
	both_refuse(&c);
	c = (gmp_config)GMP_CONFIG_INIT;
	c.stack_size = ((size_t)1 << 30) + 1;
	both_refuse(&c);
	c.stack_size = SIZE_MAX;
	both_refuse(&c);
	c = (gmp_config)GMP_CONFIG_INIT;
	c.max_threads = -1;
	both_refuse(&c);
	c = (gmp_config)GMP_CONFIG_INIT;
	c.flags = 1u << 31;
	both_refuse(&c);
	c = (gmp_config)GMP_CONFIG_INIT;
	CHECK_EQ(gmp_run(NULL, NULL, &c), -EINVAL);
	CHECK_EQ(gmp_run(count_run, NULL, &c), 0);
	CHECK_EQ(atomic_load(&ran), 1);
}

TEST(a_thousand_ps_work)
{
	gmp_config c = GMP_CONFIG_INIT;
	int seen = -1;

	c.procs = 1024;
	CHECK_EQ(gmp_run(see_procs, &seen, &c), 0);
	CHECK_EQ(seen, 1024);
}

static void start_again(UNUSED void *arg)
{
	CHECK_EQ(gmp_run(nothing, NULL, NULL), -EBUSY);
	CHECK_EQ(gmp_start(NULL), -EBUSY);
}

RT(a_runtime_inside_a_runtime_is_ebusy)
{
	struct foreign f;

	start_again(NULL);
	foreign_start(&f, start_again, NULL);
	foreign_join(&f);
	CHECK_EQ(gmp_procs(), procs);
}

/* ---- dropping */

static atomic_long steps;
static gmp_mutex held, kept;
static gmp_rwmutex rw_held, rw_read;
static gmp_wg never;

static void step_for_ever(UNUSED void *arg)
{
	for (;;) {
		atomic_fetch_add(&steps, 1);
		gmp_yield();
	}
}

static void step_and_check(UNUSED void *arg)
{
	for (;;) {
		atomic_fetch_add(&steps, 1);
		gmp_checkpoint();
	}
}

static void step_after_sleep(UNUSED void *arg)
{
	gmp_sleep(MS);
	for (;;) {
		atomic_fetch_add(&steps, 1);
		gmp_sleep(10 * US);
	}
}

static void nobody_steps_any_more(void)
{
	long seen = atomic_load(&steps);

	CHECK_EQ(gmp_sleep(30 * MS), 0);
	CHECK_EQ(atomic_load(&steps), seen);
}

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

static void wait_never(UNUSED void *arg)
{
	gmp_wg_wait(&never);
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

static struct foreign locker;

static void leave_woken(UNUSED void *arg)
{
	CHECK_EQ(gmp_mutex_lock(&kept), 0);
	CHECK_EQ(gmp_go(lock_kept, NULL), 0);
	gmp_yield();
	foreign_start(&locker, lock_foreign, NULL);
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
		/* If it had waited for long the lock was handed over: held by the dropped one. */
		(void)!gmp_mutex_lock_until(&kept, gmp_deadline(SEC));
		CHECK_EQ(gmp_mutex_unlock(&kept), 0);
		foreign_join(&locker);
	}
}

static gmp_g *parked_g;
static atomic_int join_result, joining;

static void join_parked(UNUSED void *arg)
{
	atomic_store(&joining, 1);
	atomic_store(&join_result, gmp_join(parked_g));
}

static struct foreign joiner;

static void leave_joiner(UNUSED void *arg)
{
	gmp_wg_add(&never, 1);
	parked_g = spawn(wait_never, NULL);
	foreign_start(&joiner, join_parked, NULL);
	WAIT_FOR(atomic_load(&joining));
	/* Whether it waits already cannot be seen from here; both orders must be right. */
	gmp_sleep(5 * MS);
}

TEST_PROCS(a_foreign_joiner_gets_esrch_when_the_run_ends)
{
	run_procs(procs, leave_joiner, NULL);
	foreign_join(&joiner);
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
	CHECK(gmp_adopt(pipe_fd[0]) >= 0);
	foreign_start(&joiner, read_pipe, NULL);
	WAIT_FOR(atomic_load(&joining));
	gmp_sleep(5 * MS);
}

TEST_PROCS(a_foreign_reader_gets_esrch_when_the_run_ends)
{
	run_procs(procs, leave_reader, NULL);
	foreign_join(&joiner);
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
	foreign_start(&joiner, wait_never_foreign, NULL);
	WAIT_FOR(atomic_load(&joining));
	gmp_sleep(5 * MS);
}

TEST_PROCS(a_foreign_waiter_that_another_thread_can_wake_outlives_the_run)
{
	run_procs(procs, leave_waiter, NULL);
	gmp_sleep(5 * MS);
	CHECK_EQ(atomic_load(&join_result), 0);
	gmp_wg_done(&never);
	foreign_join(&joiner);
	CHECK_EQ(atomic_load(&join_result), 100);
}

/* ---- what is left */

static atomic_int met;

static void meet(void *arg)
{
	int n = *(int *)arg;

	atomic_fetch_add(&met, 1);
	while (atomic_load(&met) < n)
		gmp_checkpoint();
}

static void busy_cycle(void *arg)
{
	int procs = *(int *)arg;
	int fds[2];
	gmp_g *g[8];
	int l, c, s;
	char addr[64];

	/* All Ps and their threads at once. */
	atomic_store(&met, 0);
	for (int i = 0; i < procs; i++)
		g[i] = spawn(meet, arg);
	for (int i = 0; i < procs; i++)
		join(g[i]);
	for (int i = 0; i < 100; i++)
		CHECK_EQ(gmp_go(i % 2 ? step_for_ever : step_after_sleep, NULL), 0);
	gmp_wg_add(&never, 1);
	for (int i = 0; i < 100; i++)
		CHECK_EQ(gmp_go(wait_never, NULL), 0);
	l = gmp_listen("tcp", "127.0.0.1:0");
	CHECK(l >= 0);
	CHECK(gmp_local_addr(l, addr, sizeof(addr)) > 0);
	c = gmp_dial("tcp", addr);
	CHECK(c >= 0);
	s = gmp_accept(l);
	CHECK(s >= 0);
	CHECK_EQ(gmp_close(l), 0);
	CHECK_EQ(gmp_close(c), 0);
	CHECK_EQ(gmp_close(s), 0);
	CHECK_EQ(pipe(fds), 0);
	CHECK(gmp_adopt(fds[0]) >= 0);
	CHECK_EQ(gmp_close(fds[0]), 0);
	CHECK_EQ(close(fds[1]), 0);
	gmp_sleep(100 * US);
}

static void cycles(int procs, int n, int start)
{
	int threads = count_threads();
	int fds = 0, maps = 0, late = 0;

	mallopt(M_ARENA_MAX, 1);
	for (int i = 0; i < n; i++) {
		memset(&never, 0, sizeof(never));
		if (start) {
			gmp_config c = GMP_CONFIG_INIT;

			c.procs = procs;
			CHECK_EQ(gmp_start(&c), 0);
			CHECK_EQ(gmp_join(spawn(busy_cycle, &procs)), 0);
			CHECK_EQ(gmp_stop(), 0);
		} else {
			run_procs(procs, busy_cycle, &procs);
		}
		CHECK_EQ(gmp_procs(), 0);
		/* A thread that was joined may stay in /proc for a moment. */
		WAIT_FOR(count_threads() == threads);
		if (i == 1)
			fds = count_fds();
		if (i >= 1)
			CHECK_EQ(count_fds(), fds);
		if (i >= 1 && i < n / 4 && count_maps() > maps)
			maps = count_maps();
		if (i >= n - n / 4 && count_maps() > late)
			late = count_maps();
	}
	/* The C library keeps the stacks of ended threads, and how many varies a little. */
	if (!SANITIZED)
		CHECK(late <= maps + 4);
}

TEST_PROCS(a_hundred_runs_leave_no_thread_descriptor_or_mapping)
{
	cycles(procs, SANITIZED ? 20 : 100, 0);
}

TEST_PROCS(a_hundred_starts_and_stops_leave_no_thread_descriptor_or_mapping)
{
	cycles(procs, SANITIZED ? 20 : 100, 1);
}

static void own_handler(UNUSED int sig, UNUSED siginfo_t *si, UNUSED void *uc)
{
	_exit(77);
}

static int same_handlers(const struct sigaction *a, const struct sigaction *b)
{
	return a->sa_sigaction == b->sa_sigaction;
}

TEST(run_restores_signal_dispositions)
{
	struct sigaction before[65], after;

	for (int i = 1; i <= 64; i++)
		sigaction(i, NULL, &before[i]);
	CHECK_EQ(gmp_run(nothing, NULL, NULL), 0);
	for (int i = 1; i <= 64; i++) {
		if (sigaction(i, NULL, &after) == 0)
			CHECK(same_handlers(&before[i], &after));
	}
}

static void take_segv(UNUSED void *arg)
{
	struct sigaction sa = { .sa_sigaction = own_handler, .sa_flags = SA_SIGINFO };

	CHECK_EQ(sigaction(SIGSEGV, &sa, NULL), 0);
}

TEST(run_leaves_a_disposition_that_is_no_longer_its_own)
{
	struct sigaction after;

	CHECK_EQ(gmp_run(take_segv, NULL, NULL), 0);
	CHECK_EQ(sigaction(SIGSEGV, NULL, &after), 0);
	CHECK(after.sa_sigaction == own_handler);
}

static void check_sigpipe(UNUSED void *arg)
{
	struct sigaction sa;

	CHECK_EQ(sigaction(SIGPIPE, NULL, &sa), 0);
	CHECK(sa.sa_handler == SIG_DFL);
}

TEST(run_does_not_touch_sigpipe)
{
	struct sigaction sa = { .sa_handler = SIG_DFL };

	CHECK_EQ(sigaction(SIGPIPE, &sa, NULL), 0);
	CHECK_EQ(gmp_run(check_sigpipe, NULL, NULL), 0);
	check_sigpipe(NULL);
}

TEST_PROCS(run_restores_the_callers_signal_stack_and_mask)
{
	static char own[65536];
	stack_t ss = { .ss_sp = own, .ss_size = sizeof(own) }, before, after;
	sigset_t mask, mask_after;

	CHECK_EQ(sigaltstack(NULL, &before), 0);
	run_procs(procs, nothing, NULL);
	CHECK_EQ(sigaltstack(NULL, &after), 0);
	CHECK_EQ(before.ss_flags & SS_DISABLE, after.ss_flags & SS_DISABLE);
	CHECK_EQ(sigaltstack(&ss, NULL), 0);
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR2);
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, &mask, NULL), 0);
	run_procs(procs, nothing, NULL);
	CHECK_EQ(sigaltstack(NULL, &after), 0);
	CHECK(after.ss_sp == own);
	CHECK_EQ(after.ss_size, sizeof(own));
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, NULL, &mask_after), 0);
	CHECK_EQ(sigismember(&mask_after, SIGUSR2), 1);
	CHECK_EQ(sigismember(&mask_after, SIGUSR1), 0);
}

static void run_it(void *arg)
{
	run_procs(*(int *)arg, count_run, NULL);
}

TEST_PROCS(run_works_on_any_thread)
{
	for (int i = 0; i < 10; i++) {
		struct foreign f;

		foreign_start(&f, run_it, &procs);
		CHECK_EQ(pthread_join(f.thread, NULL), 0);
	}
	run_it(&procs);
	CHECK_EQ(atomic_load(&ran), 11);
}

/* ---- start and stop */

TEST_PROCS(start_runs_green_threads_beside_a_foreign_caller)
{
	gmp_config c = GMP_CONFIG_INIT;
	gmp_g *g[100];

	c.procs = procs;
	CHECK_EQ(gmp_start(&c), 0);
	CHECK(gmp_self() == NULL);
	CHECK_EQ(gmp_procs(), procs);
	CHECK_EQ(gmp_start(NULL), -EBUSY);
	CHECK_EQ(gmp_run(nothing, NULL, NULL), -EBUSY);
	for (int i = 0; i < 100; i++)
		g[i] = spawn(count_run, NULL);
	for (int i = 0; i < 100; i++)
		join(g[i]);
	CHECK_EQ(atomic_load(&ran), 100);
	CHECK_EQ(gmp_stop(), 0);
	CHECK_EQ(gmp_procs(), 0);
	CHECK_EQ(gmp_stop(), -ESRCH);
}

static void stop_eperm(UNUSED void *arg)
{
	CHECK_EQ(gmp_stop(), -EPERM);
}

TEST(stop_from_a_green_thread_is_eperm)
{
	CHECK_EQ(gmp_start(NULL), 0);
	join(spawn(stop_eperm, NULL));
	CHECK_EQ(gmp_stop(), 0);
}

static void stop_einval(UNUSED void *arg)
{
	CHECK_EQ(gmp_stop(), -EINVAL);
}

RT(stop_of_a_run_is_einval)
{
	struct foreign f;

	foreign_start(&f, stop_einval, NULL);
	foreign_join(&f);
}

TEST_PROCS(stop_drops_what_lives)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = procs;
	CHECK_EQ(gmp_start(&c), 0);
	gmp_wg_add(&never, 1);
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(gmp_go(step_for_ever, NULL), 0);
		CHECK_EQ(gmp_go(step_and_check, NULL), 0);
		CHECK_EQ(gmp_go(step_after_sleep, NULL), 0);
		CHECK_EQ(gmp_go(wait_never, NULL), 0);
	}
	WAIT_FOR(atomic_load(&steps) > 1000);
	CHECK_EQ(gmp_stop(), 0);
	nobody_steps_any_more();
}

static void stop_it(UNUSED void *arg)
{
	CHECK_EQ(gmp_stop(), 0);
}

TEST(stop_works_from_another_foreign_thread)
{
	struct foreign f;

	CHECK_EQ(gmp_start(NULL), 0);
	foreign_start(&f, stop_it, NULL);
	CHECK_EQ(pthread_join(f.thread, NULL), 0);
	CHECK_EQ(gmp_procs(), 0);
}

TEST_PROCS(a_started_runtime_that_sleeps_is_not_a_deadlock)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = procs;
	CHECK_EQ(gmp_start(&c), 0);
	gmp_wg_add(&never, 1);
	gmp_g *g = spawn(wait_never_foreign, NULL);
	wait_parked(1);
	CHECK_EQ(gmp_sleep(20 * MS), 0);
	gmp_wg_done(&never);
	join(g);
	CHECK_EQ(gmp_stop(), 0);
}

/* ---- limits */

static void fill_up(UNUSED void *arg)
{
	gmp_g *g[64];
	int n = 0, err = 0;

	gmp_wg_add(&never, 1);
	while (n < 64 && (err = gmp_spawn(&g[n], wait_never_foreign, NULL, NULL)) == 0)
		n++;
	CHECK_EQ(err, -EAGAIN);
	CHECK_EQ(n, 9); /* and the entry */
	CHECK_EQ(gmp_go(nothing, NULL), -EAGAIN);
	gmp_wg_done(&never);
	for (int i = 0; i < n; i++)
		join(g[i]);
	CHECK_EQ(gmp_spawn(&g[0], nothing, NULL, NULL), 0);
	join(g[0]);
}

TEST_PROCS(spawn_over_max_green_is_eagain)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = procs;
	c.max_green = 10;
	CHECK_EQ(gmp_run(fill_up, NULL, &c), 0);
}

TEST(run_without_descriptors_is_emfile_and_leaves_nothing)
{
	struct rlimit old, low;
	int fds = count_fds(), threads = count_threads();

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = old;
	low.rlim_cur = 0;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
	CHECK_EQ(gmp_run(count_run, NULL, NULL), -EMFILE);
	CHECK_EQ(gmp_start(NULL), -EMFILE);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
	CHECK_EQ(atomic_load(&ran), 0);
	CHECK_EQ(count_fds(), fds);
	WAIT_FOR(count_threads() == threads);
	CHECK_EQ(gmp_run(count_run, NULL, NULL), 0);
	CHECK_EQ(atomic_load(&ran), 1);
}

static void spawn_many(UNUSED void *arg)
{
	gmp_g *g[100];

	for (int i = 0; i < 100; i++)
		g[i] = spawn(count_run, NULL);
	for (int i = 0; i < 100; i++)
		join(g[i]);
}

static void run_without_threads(void)
{
	struct rlimit none = { 0, 0 };
	gmp_config c = GMP_CONFIG_INIT;
	int err;

	if (setresuid(65534, 65534, 65534) != 0 || setrlimit(RLIMIT_NPROC, &none) != 0)
		_exit(50);
	c.procs = 4;
	err = gmp_run(spawn_many, NULL, &c);
	if (err == 0)
		CHECK_EQ(atomic_load(&ran), 100);
	else
		CHECK_EQ(err, -EAGAIN);
	c.procs = 1;
	err = gmp_start(&c);
	if (err == 0)
		CHECK_EQ(gmp_stop(), 0);
	else
		CHECK_EQ(err, -EAGAIN);
	_exit(0);
}

TEST(thread_creation_refused_is_an_error_or_fewer_threads)
{
	if (SANITIZED || geteuid() != 0)
		check_skip("needs root, and no sanitizer's threads");
	CHECK_EQ(in_child(run_without_threads), 0);
}

static void spawn_without_memory(UNUSED void *arg)
{
	struct rlimit old, low;
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g = NULL;

	CHECK_EQ(getrlimit(RLIMIT_AS, &old), 0);
	low = old;
	low.rlim_cur = (rlim_t)proc_kb("/proc/self/status", "VmSize") * 1024 + (64 << 20);
	CHECK_EQ(setrlimit(RLIMIT_AS, &low), 0);
	a.stack_size = (size_t)1 << 30;
	CHECK_EQ(gmp_spawn(&g, nothing, NULL, &a), -ENOMEM);
	CHECK(g == NULL);
	CHECK_EQ(setrlimit(RLIMIT_AS, &old), 0);
	CHECK_EQ(gmp_spawn(&g, nothing, NULL, &a), 0);
	join(g);
}

TEST_PROCS(spawn_without_address_space_is_enomem)
{
	if (SANITIZED)
		check_skip("a sanitizer has its own memory");
	run_procs(procs, spawn_without_memory, NULL);
}

static void fill_memory(UNUSED void *arg)
{
	enum { MOST = 1 << 20 };
	gmp_g **g = calloc(MOST, sizeof(gmp_g *));
	struct rlimit old, low;
	int n = 0, err = 0;

	CHECK(g != NULL);
	CHECK_EQ(getrlimit(RLIMIT_AS, &old), 0);
	low = old;
	low.rlim_cur = (rlim_t)proc_kb("/proc/self/status", "VmSize") * 1024 + (96 << 20);
	CHECK_EQ(setrlimit(RLIMIT_AS, &low), 0);
	gmp_wg_add(&never, 1);
	while (n < MOST && (err = gmp_spawn(&g[n], wait_never_foreign, NULL, NULL)) == 0) {
		n++;
		if (n % 64 == 0)
			gmp_yield();
	}
	CHECK_EQ(err, -ENOMEM);
	CHECK(n > 10);
	gmp_wg_done(&never);
	for (int i = 0; i < n; i++)
		join(g[i]);
	CHECK_EQ(gmp_spawn(&g[0], nothing, NULL, NULL), 0);
	join(g[0]);
	CHECK_EQ(setrlimit(RLIMIT_AS, &old), 0);
	free(g);
}

TEST_PROCS(spawning_until_memory_runs_out_is_enomem_and_passes)
{
	if (SANITIZED)
		check_skip("a sanitizer has its own memory");
	run_procs(procs, fill_memory, NULL);
}

/* ---- fork */

static void check_plain(void)
{
	gmp_mutex m = GMP_MUTEX_INIT;
	gmp_g *g;

	CHECK(gmp_self() == NULL);
	CHECK_EQ(gmp_procs(), 0);
	CHECK_EQ(gmp_go(nothing, NULL), -ESRCH);
	CHECK_EQ(gmp_spawn(&g, nothing, NULL, NULL), -ESRCH);
	CHECK_EQ(gmp_set_procs(2), -ESRCH);
	CHECK_EQ(gmp_stop(), -ESRCH);
	gmp_yield();
	gmp_checkpoint();
	CHECK_EQ(gmp_sleep(MS), 0);
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	CHECK_EQ(gmp_mutex_lock_until(&m, gmp_deadline(MS)), -ETIMEDOUT);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
}

static void wait_status(pid_t pid, int code)
{
	int status = -1;

	CHECK(pid > 0);
	while (waitpid(pid, &status, 0) < 0)
		CHECK(errno == EINTR);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), code);
}

static int fork_procs;

static void fork_and_go_on(UNUSED void *arg)
{
	pid_t pid = fork();

	if (pid == 0) {
		check_plain();
		_exit(42);
	}
	wait_status(pid, 42);
}

RT(a_child_forked_from_a_green_thread_has_no_runtime)
{
	fork_and_go_on(NULL);
	join(spawn(fork_and_go_on, NULL));
	gmp_yield();
	CHECK_EQ(gmp_procs(), procs);
}

static void fork_and_run(UNUSED void *arg)
{
	pid_t pid = fork();

	if (pid == 0) {
		check_plain();
		for (int i = 0; i < 3; i++) {
			atomic_store(&ran, 0);
			run_procs(fork_procs, spawn_many, NULL);
			CHECK_EQ(atomic_load(&ran), 100);
		}
		_exit(43);
	}
	wait_status(pid, 43);
}

RT(a_child_forked_from_a_green_thread_may_start_a_runtime)
{
	struct foreign f;

	if (SANITIZED)
		check_skip("sanitizers refuse threads in a forked child");
	fork_procs = procs;
	fork_and_run(NULL);
	join(spawn(fork_and_run, NULL));
	foreign_start(&f, fork_and_run, NULL);
	foreign_join(&f);
	join(spawn(spawn_many, NULL));
}

static void fork_and_return(UNUSED void *arg)
{
	pid_t pid = fork();

	if (pid == 0) {
		atexit(abort);
		return;
	}
	wait_status(pid, 0);
}

RT(returning_from_the_entry_in_a_forked_child_is_exit_0)
{
	join(spawn(fork_and_return, NULL));
	fork_and_return(NULL);
}

static void fork_and_exit(UNUSED void *arg)
{
	pid_t pid = fork();

	if (pid == 0)
		fork_and_return(NULL);
	else
		wait_status(pid, 0);
}

RT(a_child_of_a_forked_child_is_plain_too)
{
	join(spawn(fork_and_exit, NULL));
}

TEST_PROCS(a_fork_while_everything_runs_leaves_the_parent_undisturbed)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = procs;
	CHECK_EQ(gmp_start(&c), 0);
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(gmp_go(step_for_ever, NULL), 0);
		CHECK_EQ(gmp_go(step_after_sleep, NULL), 0);
	}
	for (int i = 0; i < 10; i++) {
		long seen = atomic_load(&steps);
		pid_t pid = fork();

		if (pid == 0) {
			check_plain();
			_exit(44);
		}
		wait_status(pid, 44);
		WAIT_FOR(atomic_load(&steps) > seen + 100);
	}
	CHECK_EQ(gmp_stop(), 0);
}
