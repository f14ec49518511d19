/* SPDX-License-Identifier: MIT */
/* Tests how gmp_pool ends: release, reboot, free, external threads, shutdown and fork. */
#include "pool_util.h"

/* --- release --- */

RT(pool_release_waits_for_running_tasks)
{
	gmp_pool *p = pool_new(5);

	for (int i = 0; i < 5; i++)
		submit(p, yield_task, (void *)1000);
	CHECK_EQ(gmp_pool_release(p, GMP_FOREVER), 0);
	CHECK_EQ(atomic_load(&ended), 5);
	CHECK_EQ(gmp_pool_running(p), 0);
	CHECK_EQ(gmp_pool_submit(p, count_task, NULL), -EPIPE);
	CHECK_EQ(gmp_pool_submit(p, NULL, NULL), -EPIPE);
	CHECK_EQ(gmp_pool_try_submit(p, count_task, NULL), -EPIPE);
	CHECK_EQ(gmp_pool_submit_at(p, 0, count_task, NULL), -EPIPE);
	CHECK_EQ(gmp_pool_release(p, GMP_FOREVER), -EPIPE);
	gmp_pool_free(p);
	WAIT_FOR(stats().greens == 1);
}

RT(pool_release_timeout_lets_tasks_continue)
{
	gmp_pool *p = pool_new(5);

	fill_up(p, 5);
	int64_t deadline = gmp_deadline(10 * MS);

	CHECK_EQ(gmp_pool_release(p, deadline), -ETIMEDOUT);
	CHECK(gmp_now() >= deadline);
	CHECK_EQ(gmp_pool_running(p), 5);
	CHECK_EQ(gmp_pool_release(p, 0), -EPIPE);
	CHECK_EQ(atomic_load(&ended), 0);
	let_through(5);
	gmp_pool_free(p); /* waits for them */
	CHECK_EQ(atomic_load(&ended), 5);
}

RT(pool_release_past_deadline_makes_one_attempt)
{
	gmp_pool *p = pool_new(5);

	CHECK_EQ(gmp_pool_release(p, 0), 0);
	CHECK_EQ(gmp_pool_reboot(p), 0);
	fill_up(p, 2);
	CHECK_EQ(gmp_pool_release(p, 0), -ETIMEDOUT);
	CHECK_EQ(gmp_pool_reboot(p), 0);
	let_through(2);
	WAIT_FOR(gmp_pool_running(p) == 0);
	CHECK_EQ(gmp_pool_idle(p), 2);
	CHECK_EQ(gmp_pool_release(p, 0), 0); /* idle workers are not waited for */
	CHECK_EQ(gmp_pool_idle(p), 0);
	gmp_pool_free(p);
}

RT(pool_release_returns_epipe_to_waiting_submitters)
{
	gmp_pool *p = pool_new(1);
	struct submitter s[5];

	fill_up(p, 1);
	submitters_start(s, 5, p, count_task);
	CHECK_EQ(gmp_pool_release(p, 0), -ETIMEDOUT);
	for (int i = 0; i < 5; i++) {
		join(s[i].g);
		CHECK_EQ(atomic_load(&s[i].result), -EPIPE);
	}
	let_through(1);
	gmp_pool_free(p);
	CHECK_EQ(atomic_load(&ended), 1);
}

RT(pool_release_runs_accepted_tasks)
{
	gmp_pool *p = pool_new(0);

	for (int i = 0; i < 200; i++)
		submit(p, yield_task, (void *)(intptr_t)(i % 3));
	CHECK_EQ(gmp_pool_release(p, GMP_FOREVER), 0);
	CHECK_EQ(atomic_load(&ended), 200);
	gmp_pool_free(p);
}

static gmp_pool *the_pool;
static atomic_int own_result = 1;

static void release_own(UNUSED void *arg)
{
	atomic_store(&own_result, gmp_pool_release(the_pool, gmp_deadline(PATIENCE)));
	atomic_fetch_add(&ended, 1);
}

RT(pool_release_by_own_task_waits_for_other_tasks)
{
	the_pool = pool_new(3);
	fill_up(the_pool, 2);
	submit(the_pool, release_own, NULL);
	WAIT_FOR(gmp_pool_try_submit(the_pool, count_task, NULL) == -EPIPE);
	CHECK_EQ(atomic_load(&own_result), 1);
	let_through(2);
	WAIT_FOR(atomic_load(&ended) == 3);
	CHECK_EQ(atomic_load(&own_result), 0);
	gmp_pool_free(the_pool);
}

static void free_own(UNUSED void *arg)
{
	gmp_pool_free(the_pool);
	gmp_yield();
	atomic_fetch_add(&ended, 1);
}

RT(pool_free_by_own_task_works)
{
	the_pool = pool_new(3);
	fill_up(the_pool, 2);
	submit(the_pool, free_own, NULL);
	WAIT_FOR(atomic_load(&ended) == 1);
	let_through(2);
	WAIT_FOR(stats().greens == 1);
	CHECK_EQ(atomic_load(&ended), 3);
}

static void free_then_exit(UNUSED void *arg)
{
	gmp_pool_free(the_pool);
	atomic_fetch_add(&ended, 1);
	gmp_exit();
}

RT(pool_free_by_own_task_before_gmp_exit_works)
{
	the_pool = pool_new(1);
	submit(the_pool, free_then_exit, NULL);
	WAIT_FOR(stats().greens == 1);
	CHECK_EQ(atomic_load(&ended), 1);
}

RT(pool_free_waits_for_running_tasks)
{
	gmp_pool *p = pool_new(4);

	for (int i = 0; i < 4; i++)
		submit(p, yield_task, (void *)100);
	gmp_pool_free(p);
	CHECK_EQ(atomic_load(&ended), 4);
	WAIT_FOR(stats().greens == 1);
}

/* The pool is freed when its tasks have ended, perhaps before submit has returned. */
struct brief {
	gmp_pool *p;
	gmp_wg wg;
};

static void brief_done(void *arg)
{
	gmp_wg_done(arg);
}

static void brief_submit(void *arg)
{
	struct brief *b = arg;

	gmp_pool_submit(b->p, brief_done, &b->wg);
}

RT(pool_free_racing_return_of_submit_works)
{
	for (int i = 0, n = (int)check_scaled(2000); i < n; i++) {
		struct brief b = { pool_new(1), GMP_WG_INIT };
		gmp_g *g[3];

		gmp_wg_add(&b.wg, 3);
		for (int k = 0; k < 3; k++)
			g[k] = spawn(brief_submit, &b);
		gmp_wg_wait(&b.wg);
		gmp_pool_free(b.p);
		for (int k = 0; k < 3; k++)
			join(g[k]);
	}
}

/* --- reboot --- */

RT(pool_reboot_after_release_works)
{
	gmp_pool *p = pool_new(3);

	CHECK_EQ(gmp_pool_reboot(p), 0); /* nothing to do */
	for (int i = 0; i < 20; i++) {
		fill_up(p, 3);
		let_through(3);
		CHECK_EQ(gmp_pool_release(p, gmp_deadline(PATIENCE)), 0);
		CHECK_EQ(gmp_pool_submit(p, count_task, NULL), -EPIPE);
		CHECK_EQ(gmp_pool_reboot(p), 0);
		CHECK_EQ(gmp_pool_capacity(p), 3);
	}
	CHECK_EQ(atomic_load(&ended), 60);
	release_and_free(p);
}

static atomic_long sum;

static void add_to_sum(void *arg)
{
	atomic_fetch_add(&sum, (intptr_t)arg);
}

/* A pool with one function and preallocated memory; its idle workers end in between. */
RT(pool_prealloc_invoke_works_after_each_reboot)
{
	gmp_pool_opts o = GMP_POOL_OPTS_INIT;

	o.fn = add_to_sum;
	o.prealloc = 1;
	o.idle_ns = MS;
	gmp_pool *p = gmp_pool_new(10, &o);

	CHECK(p != NULL);
	for (int round = 0; round < 3; round++) {
		atomic_store(&sum, 0);
		for (intptr_t i = 0; i < 1000; i++)
			CHECK_EQ(gmp_pool_invoke(p, (void *)i), 0);
		WAIT_FOR(gmp_pool_running(p) == 0);
		CHECK_EQ(atomic_load(&sum), 499500);
		WAIT_FOR(gmp_pool_idle(p) == 0); /* preallocated workers expire, too */
		CHECK_EQ(gmp_pool_invoke(p, (void *)500), 0);
		CHECK_EQ(gmp_pool_release(p, gmp_deadline(PATIENCE)), 0);
		CHECK_EQ(atomic_load(&sum), 500000);
		CHECK_EQ(gmp_pool_invoke(p, (void *)1), -EPIPE);
		CHECK_EQ(gmp_pool_reboot(p), 0);
	}
	release_and_free(p);
}

RT(pool_reboot_counts_tasks_from_before_release)
{
	gmp_pool *p = pool_new(2);

	fill_up(p, 2);
	CHECK_EQ(gmp_pool_release(p, 0), -ETIMEDOUT);
	CHECK_EQ(gmp_pool_reboot(p), 0);
	CHECK_EQ(gmp_pool_running(p), 2);
	CHECK_EQ(gmp_pool_try_submit(p, count_task, NULL), -EAGAIN);
	let_through(1);
	WAIT_FOR(gmp_pool_running(p) == 1);
	CHECK_EQ(gmp_pool_try_submit(p, count_task, NULL), 0);
	let_through(1);
	release_and_free(p);
	CHECK_EQ(atomic_load(&ended), 3);
}

static atomic_int released;

static void release_pool(void *p)
{
	atomic_store(&released, gmp_pool_release(p, GMP_FOREVER) + 1);
}

RT(pool_release_waiting_during_reboot_returns)
{
	for (int now = 0; now < 2; now++) {
		gmp_pool *p = pool_new(3);
		gmp_g *g;

		atomic_store(&released, 0);
		fill_up(p, 2);
		g = spawn(release_pool, p);
		WAIT_FOR(gmp_pool_try_submit(p, count_task, NULL) == -EPIPE);
		if (now) /* the tasks end before the reboot, or after it */
			let_through(2);
		CHECK_EQ(gmp_pool_reboot(p), 0);
		if (!now) {
			gmp_sleep(MS);
			CHECK_EQ(atomic_load(&released), 0);
			let_through(2);
		}
		join(g);
		CHECK_EQ(atomic_load(&released), 1);
		CHECK_EQ(gmp_pool_running(p), 0);
		release_and_free(p);
	}
}

/* --- external threads --- */

static void release_at_max_green(void *p)
{
	int64_t deadline = gmp_deadline(20 * MS);

	CHECK_EQ(gmp_pool_release(p, deadline), -ETIMEDOUT);
	CHECK(gmp_now() >= deadline);
}

static void fill_the_run(UNUSED void *arg)
{
	gmp_pool *p = pool_new(9);
	struct ext_thread f;

	fill_up(p, 9); /* the caller is the tenth G */
	ext_thread_start(&f, release_at_max_green, p);
	ext_thread_join(&f);
	let_through(9);
	gmp_pool_free(p);
	CHECK_EQ(atomic_load(&ended), 9);
}

TEST_PROCS(pool_release_by_external_thread_at_max_green_times_out)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = procs;
	c.max_green = 10;
	CHECK_EQ(gmp_run(fill_the_run, NULL, &c), 0);
}

static void external_submit(void *arg)
{
	for (int i = 0, n = (int)check_scaled(500); i < n; i++)
		CHECK_EQ(gmp_pool_submit(arg, i % 2 ? count_task : yield_task, (void *)1), 0);
}

RT(pool_submit_by_external_threads_waits_for_place)
{
	gmp_pool *p = pool_new(2);
	struct ext_thread f[3];
	int n = (int)check_scaled(500) * 3;

	for (int i = 0; i < 3; i++)
		ext_thread_start(&f[i], external_submit, p);
	for (int i = 0; i < 3; i++)
		ext_thread_join(&f[i]);
	WAIT_FOR(atomic_load(&ended) == n);
	CHECK(atomic_load(&most_inside) <= 2);
	release_and_free(p);
}

static void external_release_and_free(void *arg)
{
	gmp_pool *p = arg;

	CHECK_EQ(gmp_pool_submit_until(p, count_task, NULL, gmp_deadline(MS)), -ETIMEDOUT);
	CHECK_EQ(gmp_pool_try_submit(p, count_task, NULL), -EAGAIN);
	CHECK_EQ(gmp_pool_release(p, gmp_deadline(MS)), -ETIMEDOUT);
	CHECK_EQ(gmp_pool_running(p), 2);
	let_through(2);
	gmp_pool_free(p);
	CHECK_EQ(atomic_load(&ended), 2);
}

RT(pool_release_and_free_by_external_thread_work)
{
	gmp_pool *p = pool_new(2);
	struct ext_thread f;

	fill_up(p, 2);
	ext_thread_start(&f, external_release_and_free, p);
	ext_thread_join(&f);
}

TEST(pool_in_started_runtime_serves_external_main_thread)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.procs = 2;
	CHECK_EQ(gmp_start(&cfg), 0);
	CHECK_EQ(gmp_run_id(), 1);
	gmp_pool *p = pool_new(3);

	for (int i = 0; i < 300; i++)
		submit(p, yield_task, (void *)2);
	CHECK_EQ(gmp_pool_release(p, GMP_FOREVER), 0);
	CHECK_EQ(atomic_load(&ended), 300);
	gmp_pool_free(p);
	CHECK_EQ(gmp_stop(), 0);
}

static void submit_in_blocking_code(UNUSED void *arg)
{
	gmp_pool *p = pool_new(1);

	gmp_block_enter();
	submit(p, yield_task, (void *)10);
	submit(p, yield_task, (void *)10); /* waits in the kernel */
	gmp_block_leave();
	release_and_free(p);
	CHECK_EQ(atomic_load(&ended), 2);
}

RT(pool_submit_in_blocking_code_works)
{
	join(spawn(submit_in_blocking_code, NULL));
}

/* --- shutdown and fork --- */

static gmp_pool *kept;
static struct submitter waiting[3];
static struct ext_thread waiter;

static void external_submit_waiting(void *arg)
{
	atomic_store(&waiting[2].result, gmp_pool_submit(arg, count_task, NULL));
}

static void end_in_use(UNUSED void *arg)
{
	kept = pool_new(2);
	fill_up(kept, 2);
	submitters_start(waiting, 2, kept, count_task);
	CHECK_EQ(gmp_pool_submit_at(kept, gmp_deadline(3600 * SEC), count_task, NULL), 0);
	atomic_store(&waiting[2].result, 1);
	ext_thread_start(&waiter, external_submit_waiting, kept);
	WAIT_FOR(gmp_pool_waiting(kept) == 3);
}

static void check_esrch(gmp_pool *p)
{
	CHECK_EQ(gmp_pool_submit(p, count_task, NULL), -ESRCH);
	CHECK_EQ(gmp_pool_submit_at(p, 0, count_task, NULL), -ESRCH);
	CHECK_EQ(gmp_pool_resize(p, 1), -ESRCH);
	CHECK_EQ(gmp_pool_release(p, GMP_FOREVER), -ESRCH);
	CHECK_EQ(gmp_pool_reboot(p), -ESRCH);
	CHECK_EQ(gmp_pool_running(p), -ESRCH);
	CHECK_EQ(gmp_pool_idle(p), -ESRCH);
	CHECK_EQ(gmp_pool_waiting(p), -ESRCH);
	CHECK_EQ(gmp_pool_delayed(p), -ESRCH);
	CHECK_EQ(gmp_pool_capacity(p), -ESRCH);
}

static void next_run(UNUSED void *arg)
{
	check_esrch(kept);
	gmp_pool_free(kept);
}

TEST_PROCS(pool_calls_after_run_ended_return_esrch)
{
	for (int i = 0; i < 20; i++) {
		atomic_store(&begun, 0);
		run_procs(procs, end_in_use, NULL);
		CHECK_EQ(pthread_join(waiter.thread, NULL), 0);
		CHECK_EQ(atomic_load(&waiting[2].result), -ESRCH);
		check_esrch(kept);
		if (i % 2)
			run_procs(procs, next_run, NULL);
		else
			gmp_pool_free(kept);
	}
}

static atomic_int enough;

static void submit_until_esrch(void *arg)
{
	int err;

	while ((err = gmp_pool_submit(arg, yield_task, (void *)1)) == 0)
		;
	CHECK(err == -ESRCH);
	atomic_fetch_add(&enough, 1);
}

static void end_under_load(void *arg)
{
	struct ext_thread *f = arg;

	kept = pool_new(5);
	for (int i = 0; i < 2; i++)
		ext_thread_start(&f[i], submit_until_esrch, kept);
	for (int i = 0; i < 3; i++)
		gmp_go(submit_until_esrch, kept);
	WAIT_FOR(atomic_load(&ended) > 100);
}

TEST_PROCS(pool_submit_racing_shutdown_returns_esrch)
{
	for (int i = 0, n = (int)check_scaled(30); i < n; i++) {
		struct ext_thread f[2];

		atomic_store(&ended, 0);
		run_procs(procs, end_under_load, f);
		CHECK_EQ(pthread_join(f[0].thread, NULL), 0);
		CHECK_EQ(pthread_join(f[1].thread, NULL), 0);
		gmp_pool_free(kept);
	}
}

static void fork_in_task(UNUSED void *arg)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		check_esrch(the_pool);
		gmp_pool_free(the_pool);
		_exit(0);
	}
	int status;

	CHECK_EQ(gmp_waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	atomic_fetch_add(&ended, 1);
}

RT(pool_calls_in_fork_child_return_esrch)
{
	the_pool = pool_new(1);
	submit(the_pool, fork_in_task, NULL);
	WAIT_FOR(atomic_load(&ended) == 1);
	release_and_free(the_pool);
}
