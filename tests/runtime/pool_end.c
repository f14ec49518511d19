/* SPDX-License-Identifier: MIT */
/* Tests how pools end: release, reboot, free, foreign threads, and the end of the run. */
#include "pool_util.h"

/* --- release --- */

RT(release_waits_for_what_runs)
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

RT(release_gives_up_at_its_deadline_and_tasks_go_on)
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

RT(release_with_a_deadline_in_the_past_is_a_try)
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
	CHECK_EQ(gmp_pool_release(p, 0), 0); /* idle workers are nothing to wait for */
	CHECK_EQ(gmp_pool_idle(p), 0);
	gmp_pool_free(p);
}

RT(release_refuses_submitters_that_wait)
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

RT(what_was_accepted_before_a_release_runs)
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

RT(a_task_that_releases_its_own_pool_waits_for_the_others)
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

RT(a_task_frees_its_own_pool)
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

RT(a_task_frees_its_own_pool_and_exits)
{
	the_pool = pool_new(1);
	submit(the_pool, free_then_exit, NULL);
	WAIT_FOR(stats().greens == 1);
	CHECK_EQ(atomic_load(&ended), 1);
}

RT(free_releases_and_waits)
{
	gmp_pool *p = pool_new(4);

	for (int i = 0; i < 4; i++)
		submit(p, yield_task, (void *)100);
	gmp_pool_free(p);
	CHECK_EQ(atomic_load(&ended), 4);
	WAIT_FOR(stats().greens == 1);
}

/* The task is done before its submitter's call has returned, and the pool goes. */
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

RT(a_pool_may_be_freed_once_its_tasks_are_done)
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

RT(a_released_pool_is_used_again_after_a_reboot)
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

/* One function for all tasks, and the memory taken first; idle workers come and go between. */
RT(a_preallocated_pool_of_one_function_computes_the_same_after_each_reboot)
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
		WAIT_FOR(gmp_pool_idle(p) == 0); /* these expire, too */
		CHECK_EQ(gmp_pool_invoke(p, (void *)500), 0);
		CHECK_EQ(gmp_pool_release(p, gmp_deadline(PATIENCE)), 0);
		CHECK_EQ(atomic_load(&sum), 500000);
		CHECK_EQ(gmp_pool_invoke(p, (void *)1), -EPIPE);
		CHECK_EQ(gmp_pool_reboot(p), 0);
	}
	release_and_free(p);
}

RT(tasks_that_outlive_a_release_count_after_the_reboot)
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

static void release_it(void *p)
{
	atomic_store(&released, gmp_pool_release(p, GMP_FOREVER) + 1);
}

RT(a_release_that_waits_ends_though_the_pool_is_opened_again)
{
	for (int now = 0; now < 2; now++) {
		gmp_pool *p = pool_new(3);
		gmp_g *g;

		atomic_store(&released, 0);
		fill_up(p, 2);
		g = spawn(release_it, p);
		WAIT_FOR(gmp_pool_try_submit(p, count_task, NULL) == -EPIPE);
		if (now) /* they may end before the pool is opened again, or after it */
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

/* --- foreign threads --- */

static void release_without_a_green_thread(void *p)
{
	int64_t deadline = gmp_deadline(20 * MS);

	CHECK_EQ(gmp_pool_release(p, deadline), -ETIMEDOUT);
	CHECK(gmp_now() >= deadline);
}

static void fill_the_run(UNUSED void *arg)
{
	gmp_pool *p = pool_new(9);
	struct ext_thread f;

	fill_up(p, 9); /* the caller is the tenth */
	ext_thread_start(&f, release_without_a_green_thread, p);
	ext_thread_join(&f);
	let_through(9);
	gmp_pool_free(p);
	CHECK_EQ(atomic_load(&ended), 9);
}

TEST_PROCS(a_foreign_thread_that_nobody_can_wait_for_releases_until_its_deadline)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = procs;
	c.max_green = 10;
	CHECK_EQ(gmp_run(fill_the_run, NULL, &c), 0);
}

static void foreign_submit(void *arg)
{
	for (int i = 0, n = (int)check_scaled(500); i < n; i++)
		CHECK_EQ(gmp_pool_submit(arg, i % 2 ? count_task : yield_task, (void *)1), 0);
}

RT(foreign_threads_submit_and_wait_for_places)
{
	gmp_pool *p = pool_new(2);
	struct ext_thread f[3];
	int n = (int)check_scaled(500) * 3;

	for (int i = 0; i < 3; i++)
		ext_thread_start(&f[i], foreign_submit, p);
	for (int i = 0; i < 3; i++)
		ext_thread_join(&f[i]);
	WAIT_FOR(atomic_load(&ended) == n);
	CHECK(atomic_load(&most_inside) <= 2);
	release_and_free(p);
}

static void foreign_ends_it(void *arg)
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

RT(a_foreign_thread_releases_and_frees_a_pool)
{
	gmp_pool *p = pool_new(2);
	struct ext_thread f;

	fill_up(p, 2);
	ext_thread_start(&f, foreign_ends_it, p);
	ext_thread_join(&f);
}

TEST(under_gmp_start_a_pool_serves_a_foreign_main)
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

static void in_a_blocking_section(UNUSED void *arg)
{
	gmp_pool *p = pool_new(1);

	gmp_block_enter();
	submit(p, yield_task, (void *)10);
	submit(p, yield_task, (void *)10); /* waits in the kernel */
	gmp_block_leave();
	release_and_free(p);
	CHECK_EQ(atomic_load(&ended), 2);
}

RT(blocking_code_may_submit)
{
	join(spawn(in_a_blocking_section, NULL));
}

/* --- the end of the run --- */

static gmp_pool *kept;
static struct submitter waiting[3];
static struct ext_thread waiter;

static void foreign_waits(void *arg)
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
	ext_thread_start(&waiter, foreign_waits, kept);
	WAIT_FOR(gmp_pool_waiting(kept) == 3);
}

static void use_dead(gmp_pool *p)
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
	use_dead(kept);
	gmp_pool_free(kept);
}

TEST_PROCS(a_pool_in_use_ends_with_its_run)
{
	for (int i = 0; i < 20; i++) {
		atomic_store(&begun, 0);
		run_procs(procs, end_in_use, NULL);
		CHECK_EQ(pthread_join(waiter.thread, NULL), 0);
		CHECK_EQ(atomic_load(&waiting[2].result), -ESRCH);
		use_dead(kept);
		if (i % 2)
			run_procs(procs, next_run, NULL);
		else
			gmp_pool_free(kept);
	}
}

static atomic_int enough;

static void submit_for_ever(void *arg)
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
		ext_thread_start(&f[i], submit_for_ever, kept);
	for (int i = 0; i < 3; i++)
		gmp_go(submit_for_ever, kept);
	WAIT_FOR(atomic_load(&ended) > 100);
}

TEST_PROCS(a_run_ends_while_everybody_submits)
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
		use_dead(the_pool);
		gmp_pool_free(the_pool);
		_exit(0);
	}
	int status;

	CHECK_EQ(gmp_waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	atomic_fetch_add(&ended, 1);
}

RT(the_child_of_a_fork_has_no_use_of_a_pool)
{
	the_pool = pool_new(1);
	submit(the_pool, fork_in_task, NULL);
	WAIT_FOR(atomic_load(&ended) == 1);
	release_and_free(the_pool);
}
