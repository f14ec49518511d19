/* SPDX-License-Identifier: MIT */
/* Tests gmp_pool: FIFO order of submitters, workers, capacity, options, and the counters. */
#include "pool_util.h"

RT(pool_every_task_runs_once)
{
	gmp_pool *p = pool_new(10);
	int n = (int)check_scaled(20000);

	for (int i = 0; i < n; i++)
		submit(p, i % 3 ? count_task : yield_task, (void *)(intptr_t)(i % 4));
	WAIT_FOR(atomic_load(&ended) == n);
	release_and_free(p);
	CHECK_EQ(atomic_load(&ended), n);
	CHECK(atomic_load(&most_inside) <= 10);
}

RT(pool_invoke_runs_function_of_pool)
{
	gmp_pool_opts o = GMP_POOL_OPTS_INIT;

	o.fn = yield_task;
	gmp_pool *p = gmp_pool_new(7, &o);

	CHECK(p != NULL);
	for (int i = 0; i < 1000; i++)
		CHECK_EQ(gmp_pool_invoke(p, (void *)(intptr_t)(i % 5)), 0);
	submit(p, count_task, NULL);
	WAIT_FOR(atomic_load(&ended) == 1001);
	CHECK(atomic_load(&most_inside) <= 7);
	release_and_free(p);
}

RT(pool_unbounded_never_makes_submitter_wait)
{
	static const int bounds[] = { 0, -1, INT32_MIN };

	for (int i = 0; i < 3; i++) {
		gmp_pool *p = pool_new(bounds[i]);

		CHECK_EQ(gmp_pool_capacity(p), -1);
		fill_up(p, 500);
		CHECK_EQ(gmp_pool_running(p), 500);
		CHECK_EQ(gmp_pool_waiting(p), 0);
		let_through(500);
		release_and_free(p);
	}
}

RT(pool_running_counts_task_from_submission)
{
	gmp_pool *p = pool_new(10);

	CHECK_EQ(gmp_pool_running(p), 0);
	CHECK_EQ(gmp_pool_idle(p), 0);
	CHECK_EQ(gmp_pool_capacity(p), 10);
	for (int i = 1; i <= 10; i++) {
		submit(p, gate_task, NULL);
		CHECK_EQ(gmp_pool_running(p), i);
		CHECK_EQ(gmp_pool_idle(p), 0);
	}
	WAIT_FOR(atomic_load(&inside) == 10);
	for (int i = 1; i <= 10; i++) {
		let_through(1);
		WAIT_FOR(gmp_pool_running(p) == 10 - i);
		CHECK_EQ(gmp_pool_idle(p), i);
	}
	for (int i = 1; i <= 10; i++) {
		submit(p, gate_task, NULL);
		CHECK_EQ(gmp_pool_running(p), i);
		CHECK_EQ(gmp_pool_idle(p), 10 - i);
	}
	let_through(10);
	release_and_free(p);
}

/* The places of ended tasks stay idle, whether or not the tasks had to wait. */
RT(pool_idle_counts_places_of_tasks_on_shared_worker)
{
	gmp_pool *p = pool_new(10);

	for (int i = 0; i < 4; i++)
		submit(p, gate_task, NULL);
	let_through(4);
	WAIT_FOR(gmp_pool_running(p) == 0);
	CHECK(gmp_pool_idle(p) >= 1 && gmp_pool_idle(p) <= 4);
	if (procs == 1)
		CHECK_EQ(gmp_pool_idle(p), 4);
	release_and_free(p);
}

RT(pool_full_serves_submitters_in_fifo_order)
{
	enum { N = 8 };
	gmp_pool *p = pool_new(2);
	struct submitter s[N];

	fill_up(p, 2);
	submitters_start(s, N, p, gate_task);
	for (int i = 0; i < N; i++) {
		CHECK_EQ(atomic_load(&s[i].result), 1);
		CHECK_EQ(gmp_pool_running(p), 2);
		let_through(1);
		WAIT_FOR(atomic_load(&s[i].result) != 1);
		CHECK_EQ(atomic_load(&s[i].result), 0);
		CHECK_EQ(gmp_pool_waiting(p), N - i - 1);
		join(s[i].g);
	}
	let_through(2);
	release_and_free(p);
	CHECK_EQ(atomic_load(&most_inside), 2);
	CHECK_EQ(atomic_load(&ended), N + 2);
}

RT(pool_nonblocking_full_returns_eagain)
{
	gmp_pool_opts o = GMP_POOL_OPTS_INIT;

	o.nonblocking = 1;
	o.fn = gate_task;
	gmp_pool *p = gmp_pool_new(10, &o);

	fill_up(p, 10);
	CHECK_EQ(gmp_pool_submit(p, count_task, NULL), -EAGAIN);
	CHECK_EQ(gmp_pool_invoke(p, NULL), -EAGAIN);
	CHECK_EQ(gmp_pool_submit_until(p, count_task, NULL, GMP_FOREVER), -EAGAIN);
	CHECK_EQ(gmp_pool_waiting(p), 0);
	let_through(1);
	WAIT_FOR(gmp_pool_running(p) == 9);
	CHECK_EQ(gmp_pool_submit(p, count_task, NULL), 0);
	let_through(9);
	release_and_free(p);
	CHECK_EQ(atomic_load(&ended), 11);
}

RT(pool_max_waiting_bounds_waiting_submitters)
{
	gmp_pool_opts o = GMP_POOL_OPTS_INIT;
	struct submitter s[3];

	o.max_waiting = 3;
	gmp_pool *p = gmp_pool_new(4, &o);

	fill_up(p, 4);
	submitters_start(s, 3, p, gate_task);
	CHECK_EQ(gmp_pool_submit(p, count_task, NULL), -EAGAIN);
	CHECK_EQ(gmp_pool_waiting(p), 3);
	let_through(1);
	WAIT_FOR(gmp_pool_waiting(p) == 2);
	let_through(6);
	WAIT_FOR(atomic_load(&ended) == 7);
	for (int i = 0; i < 3; i++) {
		join(s[i].g);
		CHECK_EQ(atomic_load(&s[i].result), 0);
	}
	CHECK_EQ(gmp_pool_submit(p, count_task, NULL), 0);
	release_and_free(p);
}

RT(pool_full_try_submit_and_submit_until_fail)
{
	gmp_pool *p = pool_new(1);

	CHECK_EQ(gmp_pool_try_submit(p, gate_task, NULL), 0);
	CHECK_EQ(gmp_pool_try_submit(p, count_task, NULL), -EAGAIN);
	CHECK_EQ(gmp_pool_submit_until(p, count_task, NULL, 0), -ETIMEDOUT);
	CHECK_EQ(gmp_pool_submit_until(p, count_task, NULL, INT64_MIN), -ETIMEDOUT);
	int64_t deadline = gmp_deadline(10 * MS);

	CHECK_EQ(gmp_pool_submit_until(p, count_task, NULL, deadline), -ETIMEDOUT);
	CHECK(gmp_now() >= deadline);
	CHECK_EQ(gmp_pool_waiting(p), 0);
	let_through(1);
	CHECK_EQ(gmp_pool_submit_until(p, gate_task, NULL, gmp_deadline(PATIENCE)), 0);
	let_through(1);
	release_and_free(p);
	CHECK_EQ(atomic_load(&ended), 2);
}

RT(pool_cancelled_submitter_is_dequeued)
{
	gmp_pool *p = pool_new(1);
	struct submitter s[3];

	fill_up(p, 1);
	submitters_start(s, 3, p, count_task);
	CHECK_EQ(gmp_cancel(s[1].g), 0);
	join(s[1].g);
	CHECK_EQ(atomic_load(&s[1].result), -ECANCELED);
	CHECK_EQ(gmp_pool_waiting(p), 2);
	let_through(1);
	join(s[0].g);
	join(s[2].g);
	CHECK_EQ(atomic_load(&s[0].result), 0);
	CHECK_EQ(atomic_load(&s[2].result), 0);
	release_and_free(p);
	CHECK_EQ(atomic_load(&ended), 3);
}

static void submit_cancelled(void *arg)
{
	gmp_pool *p = arg;

	gmp_cancel(gmp_self());
	submit(p, gate_task, NULL); /* there is a place */
	CHECK_EQ(gmp_pool_submit(p, count_task, NULL), -ECANCELED);
	CHECK_EQ(gmp_pool_submit_until(p, count_task, NULL, 0), -ECANCELED);
	CHECK_EQ(gmp_pool_try_submit(p, count_task, NULL), -EAGAIN);
	gmp_cancel_mask(1);
	CHECK_EQ(gmp_pool_submit_until(p, count_task, NULL, gmp_deadline(MS)), -ETIMEDOUT);
	gmp_cancel_mask(0);
	let_through(1);
	CHECK_EQ(gmp_pool_release(p, gmp_deadline(PATIENCE)), 0); /* release is not cancelled */
}

RT(pool_submit_by_cancelled_g_works_if_place_is_free)
{
	gmp_pool *p = pool_new(1);

	join(spawn(submit_cancelled, p));
	CHECK_EQ(atomic_load(&ended), 1);
	gmp_pool_free(p);
}

/* --- workers --- */

static _Atomic uint64_t last_worker;

static void note_worker(UNUSED void *arg)
{
	atomic_store(&last_worker, gmp_id(gmp_self()));
	gmp_sem_acquire(&gate);
	come_in();
	go_out();
}

RT(pool_reuses_workers_in_lifo_order)
{
	gmp_pool *p = pool_new(4);
	uint64_t ids[4];

	for (int i = 0; i < 4; i++) {
		atomic_store(&last_worker, 0);
		submit(p, note_worker, NULL);
		WAIT_FOR(atomic_load(&last_worker));
		ids[i] = atomic_load(&last_worker);
		for (int k = 0; k < i; k++)
			CHECK(ids[k] != ids[i]);
		wait_parked(i + 1); /* at the gate, before the next worker */
	}
	/* Permits are granted in FIFO order: 0, 1, 2, 3. */
	for (int i = 0; i < 4; i++) {
		let_through(1);
		WAIT_FOR(gmp_pool_idle(p) == i + 1);
		wait_parked(4); /* at the gate, or for a task */
	}
	for (int i = 3; i >= 0; i--) {
		atomic_store(&last_worker, 0);
		submit(p, note_worker, NULL);
		WAIT_FOR(atomic_load(&last_worker));
		CHECK_EQ(atomic_load(&last_worker), ids[i]);
	}
	let_through(4);
	release_and_free(p);
}

RT(pool_tasks_without_wait_share_worker)
{
	gmp_pool *p = pool_new(0);
	uint64_t spawns = stats().spawns;

	for (int i = 0; i < 1000; i++)
		submit(p, count_task, NULL);
	WAIT_FOR(atomic_load(&ended) == 1000);
	if (procs == 1)
		CHECK(stats().spawns - spawns <= 3);
	release_and_free(p);
}

static gmp_sem second;

static void first_of_two(UNUSED void *arg)
{
	gmp_sem_acquire(&second);
	come_in();
	go_out();
}

static void second_of_two(UNUSED void *arg)
{
	gmp_sem_release(&second, 1);
}

/* A task that waits does not keep the next one from starting. */
RT(pool_waiting_tasks_do_not_delay_others)
{
	gmp_pool *p = pool_new(100);

	for (int i = 0; i < 50; i++)
		submit(p, first_of_two, NULL);
	for (int i = 0; i < 50; i++)
		submit(p, second_of_two, NULL);
	WAIT_FOR(atomic_load(&ended) == 50);
	release_and_free(p);
}

static void spin_until_begun(UNUSED void *arg)
{
	atomic_fetch_add(&begun, 1);
	while (atomic_load(&begun) < 2)
		gmp_yield();
	atomic_fetch_add(&ended, 1);
}

RT(pool_tasks_yielding_to_each_other_progress)
{
	gmp_pool *p = pool_new(2);

	submit(p, spin_until_begun, NULL);
	submit(p, spin_until_begun, NULL);
	WAIT_FOR(atomic_load(&ended) == 2);
	release_and_free(p);
}

RT(pool_idle_workers_end_after_idle_ns)
{
	gmp_pool_opts o = GMP_POOL_OPTS_INIT;

	o.idle_ns = 40 * MS;
	gmp_pool *p = gmp_pool_new(20, &o);

	fill_up(p, 20);
	uint64_t greens = stats().greens;
	int64_t since = gmp_now();

	let_through(20);
	WAIT_FOR(gmp_pool_running(p) == 0);
	WAIT_FOR(gmp_pool_idle(p) == 0);
	CHECK(gmp_now() - since >= 40 * MS);
	WAIT_FOR(stats().greens <= greens - 20);
	WAIT_FOR(stats().timers == 0); /* no idle timer is left */
	fill_up(p, 20);
	let_through(20);
	release_and_free(p);
	CHECK_EQ(atomic_load(&ended), 40);
}

RT(pool_used_workers_do_not_end)
{
	gmp_pool_opts o = GMP_POOL_OPTS_INIT;

	o.idle_ns = 20 * MS;
	gmp_pool *p = gmp_pool_new(8, &o);

	fill_up(p, 8);
	let_through(8);
	WAIT_FOR(gmp_pool_running(p) == 0);
	/* Two tasks at a time need two workers. */
	for (int64_t end = gmp_deadline(PATIENCE); gmp_pool_idle(p) > 2;) {
		CHECK(gmp_now() < end);
		fill_up(p, 2);
		CHECK_EQ(gmp_pool_running(p), 2);
		int64_t used = gmp_now();

		let_through(2);
		WAIT_FOR(gmp_pool_running(p) == 0);
		/* otherwise the machine delayed this loop for a large part of idle_ns */
		CHECK(gmp_pool_idle(p) >= 2 || gmp_now() - used >= o.idle_ns / 2);
		gmp_sleep(MS);
	}
	release_and_free(p);
}

RT(pool_idle_ns_1_ends_idle_workers)
{
	gmp_pool_opts o = GMP_POOL_OPTS_INIT;

	o.idle_ns = 1;
	gmp_pool *p = gmp_pool_new(8, &o);

	fill_up(p, 8);
	let_through(8);
	WAIT_FOR(gmp_pool_running(p) == 0);
	WAIT_FOR(gmp_pool_idle(p) == 0);
	WAIT_FOR(stats().timers == 0);
	release_and_free(p);
	CHECK_EQ(atomic_load(&ended), 8);
}

/* The pool frees the blocks of 100,000 tasks between the rounds, and every task still runs. */
RT(pool_100000_tasks_twice_all_run)
{
	gmp_pool_opts o = GMP_POOL_OPTS_INIT;

	o.idle_ns = 1;
	gmp_pool *p = gmp_pool_new(0, &o);
	int n = (int)check_scaled(100000);

	for (int round = 1; round <= 2; round++) {
		for (int i = 0; i < n; i++)
			submit(p, count_task, NULL);
		WAIT_FOR(atomic_load(&ended) == round * n);
		WAIT_FOR(gmp_pool_idle(p) == 0);
		WAIT_FOR(stats().timers == 0);
	}
	release_and_free(p);
}

RT(pool_idle_ns_forever_keeps_workers)
{
	gmp_pool_opts o = GMP_POOL_OPTS_INIT;

	o.idle_ns = GMP_FOREVER;
	gmp_pool *p = gmp_pool_new(3, &o);

	fill_up(p, 3);
	let_through(3);
	WAIT_FOR(gmp_pool_idle(p) == 3);
	CHECK_EQ(stats().timers, 0);
	release_and_free(p);
}

static void exit_task(UNUSED void *arg)
{
	gmp_yield();
	atomic_fetch_add(&ended, 1);
	gmp_exit();
}

static void cancelled_task(UNUSED void *arg)
{
	gmp_cancel(gmp_self());
	CHECK_EQ(gmp_sleep(SEC), -ECANCELED);
	atomic_fetch_add(&ended, 1);
}

static void uncancelled_task(UNUSED void *arg)
{
	CHECK_EQ(gmp_cancelled(), 0);
	CHECK_EQ(gmp_sleep(US), 0);
	atomic_fetch_add(&ended, 1);
}

RT(pool_gmp_exit_in_task_frees_place)
{
	gmp_pool *p = pool_new(3);
	int n = (int)check_scaled(3000);

	for (int i = 0; i < n; i++)
		submit(p, i % 2 ? exit_task : count_task, NULL);
	WAIT_FOR(atomic_load(&ended) == n);
	WAIT_FOR(gmp_pool_running(p) == 0);
	fill_up(p, 3);
	CHECK_EQ(gmp_pool_running(p), 3);
	let_through(3);
	release_and_free(p);
}

RT(pool_gmp_exit_in_task_admits_waiting_submitter)
{
	gmp_pool *p = pool_new(1);
	struct submitter s[20];

	for (int i = 0; i < 20; i++) {
		s[i] = (struct submitter){ .p = p, .fn = exit_task, .result = 1 };
		s[i].g = spawn(submitter_main, &s[i]);
	}
	for (int i = 0; i < 20; i++) {
		join(s[i].g);
		CHECK_EQ(atomic_load(&s[i].result), 0);
	}
	release_and_free(p);
	CHECK_EQ(atomic_load(&ended), 20);
}

RT(pool_cancelled_task_does_not_cancel_next_task)
{
	gmp_pool *p = pool_new(2);

	for (int i = 0; i < 200; i++)
		submit(p, i % 2 ? cancelled_task : uncancelled_task, NULL);
	WAIT_FOR(atomic_load(&ended) == 200);
	release_and_free(p);
}

static gmp_g *worker;

static void tell_worker(UNUSED void *arg)
{
	worker = gmp_self();
	atomic_fetch_add(&ended, 1);
}

RT(pool_idle_worker_cancelled_runs_next_task)
{
	gmp_pool *p = pool_new(1);

	submit(p, tell_worker, NULL);
	WAIT_FOR(atomic_load(&ended) == 1);
	WAIT_FOR(gmp_pool_idle(p) == 1);
	for (int i = 0; i < 3; i++) {
		gmp_sleep(MS); /* until it waits, mostly: it may be cancelled at any time */
		gmp_cancel(worker);
	}
	submit(p, uncancelled_task, NULL);
	WAIT_FOR(atomic_load(&ended) == 2);
	release_and_free(p);
}

static gmp_pool *nest_pool;

static void nest(void *arg)
{
	intptr_t depth = (intptr_t)arg;

	if (depth > 0) {
		submit(nest_pool, nest, (void *)(depth - 1));
		submit(nest_pool, nest, (void *)(depth - 1));
	}
	count_task(NULL);
}

RT(pool_task_may_submit_to_own_pool)
{
	nest_pool = pool_new(0);
	submit(nest_pool, nest, (void *)10);
	WAIT_FOR(atomic_load(&ended) == 2047);
	release_and_free(nest_pool);
}

/* --- resize --- */

RT(pool_resize_up_admits_waiting_submitters)
{
	gmp_pool *p = pool_new(2);
	struct submitter s[6];

	fill_up(p, 2);
	CHECK_EQ(gmp_pool_resize(p, 3), 0);
	CHECK_EQ(gmp_pool_capacity(p), 3);
	fill_up(p, 1);
	submitters_start(s, 6, p, gate_task);
	CHECK_EQ(gmp_pool_resize(p, 4), 0);
	CHECK_EQ(gmp_pool_running(p), 4);
	CHECK_EQ(gmp_pool_waiting(p), 5);
	join(s[0].g);
	CHECK_EQ(gmp_pool_resize(p, 8), 0);
	CHECK_EQ(gmp_pool_running(p), 8);
	CHECK_EQ(gmp_pool_waiting(p), 1);
	CHECK_EQ(gmp_pool_resize(p, 0), 0);
	CHECK_EQ(gmp_pool_capacity(p), -1);
	for (int i = 1; i < 6; i++)
		join(s[i].g);
	WAIT_FOR(atomic_load(&inside) == 9);
	let_through(9);
	release_and_free(p);
}

RT(pool_resize_down_applies_as_tasks_end)
{
	gmp_pool *p = pool_new(8);
	struct submitter s[2];

	fill_up(p, 8);
	CHECK_EQ(gmp_pool_resize(p, 3), 0);
	CHECK_EQ(gmp_pool_capacity(p), 3);
	CHECK_EQ(gmp_pool_running(p), 8);
	submitters_start(s, 2, p, gate_task);
	for (int left = 7; left >= 3; left--) {
		let_through(1);
		WAIT_FOR(gmp_pool_running(p) == left);
		CHECK_EQ(gmp_pool_waiting(p), 2);
		CHECK_EQ(gmp_pool_idle(p), 0);
	}
	let_through(1);
	WAIT_FOR(gmp_pool_waiting(p) == 1 &&
		 gmp_pool_running(p) == 3); /* two words, not written together */
	let_through(4);
	WAIT_FOR(gmp_pool_running(p) == 0);
	CHECK(gmp_pool_idle(p) <= 3);
	join(s[0].g);
	join(s[1].g);
	release_and_free(p);
	CHECK_EQ(atomic_load(&ended), 10);
}

RT(pool_resize_down_ends_idle_workers)
{
	gmp_pool *p = pool_new(0);

	fill_up(p, 10);
	let_through(10);
	WAIT_FOR(gmp_pool_idle(p) == 10);
	CHECK_EQ(gmp_pool_resize(p, 4), 0);
	CHECK_EQ(gmp_pool_idle(p), 4);
	WAIT_FOR(stats().greens == 5);
	fill_up(p, 2);
	CHECK_EQ(gmp_pool_resize(p, 1), 0);
	CHECK_EQ(gmp_pool_idle(p), 0);
	CHECK_EQ(gmp_pool_running(p), 2);
	let_through(2);
	release_and_free(p);
}

/* --- options and errors --- */

RT(pool_prealloc_requires_capacity)
{
	gmp_pool_opts o = GMP_POOL_OPTS_INIT;

	o.prealloc = 1;
	o.idle_ns = GMP_FOREVER;
	CHECK(gmp_pool_new(0, &o) == NULL);
	CHECK(gmp_pool_new(-1, &o) == NULL);
	gmp_pool *p = gmp_pool_new(500, &o);

	CHECK(p != NULL);
	CHECK_EQ(gmp_pool_idle(p), 0);
	fill_up(p, 500);
	let_through(500);
	WAIT_FOR(gmp_pool_idle(p) == 500);
	CHECK_EQ(gmp_pool_resize(p, 1000), 0);
	fill_up(p, 1000);
	let_through(1000);
	release_and_free(p);
}

RT(pool_bad_options_and_arguments_are_rejected)
{
	gmp_pool_opts o = GMP_POOL_OPTS_INIT, none = { 0 };

	CHECK(gmp_pool_new(1, &none) == NULL);
	o.idle_ns = -1;
	CHECK(gmp_pool_new(1, &o) == NULL);
	o.idle_ns = 0;
	o.stack_size = (size_t)2 << 30;
	CHECK(gmp_pool_new(1, &o) == NULL);
	o.stack_size = 0;
	gmp_pool *p = gmp_pool_new(1, &o);

	CHECK_EQ(gmp_pool_submit(p, NULL, NULL), -EINVAL);
	CHECK_EQ(gmp_pool_invoke(p, NULL), -EINVAL);
	CHECK_EQ(gmp_pool_submit_at(p, 0, NULL, NULL), -EINVAL);
	gmp_pool_free(p);
	CHECK_EQ(gmp_pool_submit(NULL, count_task, NULL), -EINVAL);
	CHECK_EQ(gmp_pool_submit_at(NULL, 0, count_task, NULL), -EINVAL);
	CHECK_EQ(gmp_pool_invoke(NULL, NULL), -EINVAL);
	CHECK_EQ(gmp_pool_running(NULL), -EINVAL);
	CHECK_EQ(gmp_pool_idle(NULL), -EINVAL);
	CHECK_EQ(gmp_pool_waiting(NULL), -EINVAL);
	CHECK_EQ(gmp_pool_delayed(NULL), -EINVAL);
	CHECK_EQ(gmp_pool_capacity(NULL), -EINVAL);
	CHECK_EQ(gmp_pool_resize(NULL, 1), -EINVAL);
	CHECK_EQ(gmp_pool_release(NULL, 0), -EINVAL);
	CHECK_EQ(gmp_pool_reboot(NULL), -EINVAL);
	gmp_pool_free(NULL);
}

RT(pool_null_options_are_defaults)
{
	gmp_pool *p = gmp_pool_new(2, NULL);

	CHECK(p != NULL);
	submit(p, count_task, NULL);
	release_and_free(p);
	CHECK_EQ(atomic_load(&ended), 1);
}

static void check_name(UNUSED void *arg)
{
	CHECK_STR(gmp_name(gmp_self()), "digester");
	atomic_fetch_add(&ended, 1);
}

RT(pool_workers_have_name_and_stack_of_options)
{
	gmp_pool_opts o = GMP_POOL_OPTS_INIT;

	o.name = "digester";
	o.stack_size = 64 << 10;
	gmp_pool *p = gmp_pool_new(4, &o);

	for (int i = 0; i < 100; i++)
		submit(p, check_name, NULL);
	WAIT_FOR(atomic_load(&ended) == 100);
	release_and_free(p);
}

static pid_t parent;

static void fork_task(void *arg)
{
	int status = -1;

	WAIT_FOR(gmp_pool_waiting(arg) == 1); /* a task that the child would find */
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0)
		return;
	gmp_block_enter();
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	gmp_block_leave();
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 0);
	count_task(NULL);
}

static void parents_task(UNUSED void *arg)
{
	if (getpid() != parent)
		_exit(7);
	count_task(NULL);
}

static void fork_in_pool(UNUSED void *arg)
{
	gmp_pool *p = pool_new(1);

	parent = getpid();
	submit(p, fork_task, p);
	submit(p, parents_task, NULL);
	WAIT_FOR(atomic_load(&ended) == 2);
	release_and_free(p);
}

TEST_PROCS(pool_task_returning_in_fork_child_exits_0)
{
	run_procs(procs, fork_in_pool, NULL);
}

TEST_PROCS(pool_task_returning_in_fork_child_exits_0_threaded)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.procs = procs;
	cfg.sched = GMP_SCHED_THREAD;
	CHECK_EQ(gmp_run(fork_in_pool, NULL, &cfg), 0);
}

static void limited(UNUSED void *arg)
{
	gmp_pool *p = pool_new(0);
	int err = 0, n = 0;

	while (n < 100 && !(err = gmp_pool_submit(p, gate_task, NULL))) {
		n++;
		WAIT_FOR(atomic_load(&begun) == n);
	}
	CHECK_EQ(err, -EAGAIN);
	CHECK(n >= 1); /* other Ps reserve some green threads */
	CHECK_EQ(gmp_pool_running(p), n);
	/* Accepted tasks run once there is room. */
	let_through(n);
	WAIT_FOR(atomic_load(&ended) == n);
	WAIT_FOR(gmp_pool_running(p) == 0);
	submit(p, count_task, NULL);
	release_and_free(p);
	CHECK_EQ(atomic_load(&ended), n + 1);
}

TEST_PROCS(pool_worker_beyond_max_green_returns_eagain)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.procs = procs;
	cfg.max_green = 10;
	CHECK_EQ(gmp_run(limited, NULL, &cfg), 0);
}

TEST(pool_new_without_runtime_returns_null)
{
	CHECK(gmp_pool_new(1, NULL) == NULL);
	CHECK_EQ(gmp_run_id(), 0);
}
