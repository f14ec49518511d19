/* SPDX-License-Identifier: MIT */
/* Tests gmp_once: fn runs once; nesting, gmp_exit, cancellation, shutdown and lifetime. */
#include "util.h"

enum { N = 16 };

static gmp_once o;
static int value; /* not atomic: published by the once */
static atomic_int runs, seen;
static gmp_wg gate;

static void reset_once(void)
{
	o = (gmp_once)GMP_ONCE_INIT;
	value = 0;
	atomic_store(&runs, 0);
	atomic_store(&seen, 0);
}

static void set(UNUSED void *arg)
{
	atomic_fetch_add(&runs, 1);
	gmp_yield();
	gmp_cancel_mask(1);
	CHECK_EQ(gmp_wg_wait(&gate), 0);
	gmp_cancel_mask(0);
	value = 42;
}

static void do_once_and_check(UNUSED void *arg)
{
	CHECK_EQ(gmp_once_do(&o, set, NULL), 0);
	CHECK_EQ(value, 42);
	atomic_fetch_add(&seen, 1);
}

RT(once_runs_fn_once_and_other_callers_wait)
{
	gmp_g *g[N];
	struct ext_thread f;

	reset_once();
	gmp_wg_add(&gate, 1);
	for (int i = 0; i < N; i++)
		g[i] = spawn(do_once_and_check, NULL);
	wait_parked(N);
	ext_thread_start(&f, do_once_and_check, NULL);
	for (int i = 0; i < N; i++)
		CHECK_EQ(gmp_cancel(g[i]), 0); /* the wait is not cancelled */
	for (int i = 0; i < 10; i++)
		gmp_yield();
	CHECK_EQ(atomic_load(&seen), 0);
	gmp_wg_done(&gate);
	for (int i = 0; i < N; i++)
		join(g[i]);
	ext_thread_join(&f);
	do_once_and_check(NULL);
	CHECK_EQ(atomic_load(&runs), 1);
	CHECK_EQ(atomic_load(&seen), N + 2);
}

static void count_run(UNUSED void *arg)
{
	atomic_fetch_add(&runs, 1);
}

/* A direct call checks the state inline; by a pointer, the library's function checks it. */
RT(once_called_by_function_pointer_works)
{
	int (*volatile by_address)(gmp_once *, gmp_fn, void *) = gmp_once_do;

	for (int first = 0; first < 2; first++) {
		gmp_once once = GMP_ONCE_INIT;

		atomic_store(&runs, 0);
		for (int i = 0; i < 4; i++) {
			CHECK_EQ((i + first) % 2 ? by_address(&once, count_run, NULL)
						 : gmp_once_do(&once, count_run, NULL),
				 0);
			CHECK_EQ(atomic_load(&runs), 1);
			CHECK_EQ(once.state, GMP_ONCE_DONE_);
		}
	}
}

static void set_and_exit(UNUSED void *arg)
{
	atomic_fetch_add(&runs, 1);
	gmp_yield();
	gmp_exit();
}

static void do_and_exit(UNUSED void *arg)
{
	gmp_once_do(&o, set_and_exit, NULL);
	atomic_fetch_add(&seen, 1);
}

RT(once_gmp_exit_in_fn_counts_as_done)
{
	gmp_g *g[N];

	o = (gmp_once)GMP_ONCE_INIT;
	atomic_store(&runs, 0);
	atomic_store(&seen, 0);
	for (int i = 0; i < N; i++)
		g[i] = spawn(do_and_exit, NULL);
	for (int i = 0; i < N; i++)
		join(g[i]);
	CHECK_EQ(atomic_load(&runs), 1);
	CHECK_EQ(atomic_load(&seen), N - 1);
}

static gmp_once inner;

static void count_inner(UNUSED void *arg)
{
	atomic_fetch_add(&runs, 1);
}

static void nest(UNUSED void *arg)
{
	CHECK_EQ(gmp_once_do(&inner, count_inner, NULL), 0);
	atomic_fetch_add(&runs, 1);
}

RT(once_nested_in_other_once_works)
{
	o = inner = (gmp_once)GMP_ONCE_INIT;
	atomic_store(&runs, 0);
	CHECK_EQ(gmp_once_do(&o, nest, NULL), 0);
	CHECK_EQ(gmp_once_do(&o, nest, NULL), 0);
	CHECK_EQ(atomic_load(&runs), 2);
}

static void do_other(UNUSED void *arg)
{
	do_once_and_check(NULL);
	atomic_fetch_add(&seen, 1);
}

static void wait_in_own_once(void *other)
{
	CHECK_EQ(gmp_once_do(other, do_other, NULL), 0);
}

RT(once_in_fn_may_wait_for_once_of_other_g)
{
	gmp_once other = GMP_ONCE_INIT;
	gmp_g *g[2];

	reset_once();
	gmp_wg_add(&gate, 1);
	g[0] = spawn(do_once_and_check, NULL);
	WAIT_FOR(atomic_load(&runs) == 1);
	g[1] = spawn(wait_in_own_once, &other);
	wait_parked(2);
	gmp_wg_done(&gate);
	join(g[0]);
	join(g[1]);
	CHECK_EQ(atomic_load(&runs), 1);
	CHECK_EQ(atomic_load(&seen), 3);
}

/* --- cancellation, gmp_exit and shutdown --- */

static void wait_cancelled_in_fn(UNUSED void *arg)
{
	atomic_fetch_add(&runs, 1);
	CHECK_EQ(gmp_wg_wait(&gate), -ECANCELED);
	value = 42;
}

static void do_once_cancelled(UNUSED void *arg)
{
	CHECK_EQ(gmp_once_do(&o, wait_cancelled_in_fn, NULL), 0);
	CHECK_EQ(value, 42);
	atomic_fetch_add(&seen, 1);
}

RT(once_cancelled_in_fn_runs_fn_to_its_end)
{
	gmp_g *g[N];
	struct ext_thread f;

	reset_once();
	gmp_wg_add(&gate, 1);
	g[0] = spawn(do_once_cancelled, NULL);
	WAIT_FOR(atomic_load(&runs) == 1);
	for (int i = 1; i < N; i++)
		g[i] = spawn(do_once_cancelled, NULL);
	ext_thread_start(&f, do_once_cancelled, NULL);
	wait_parked(N);
	CHECK_EQ(atomic_load(&seen), 0);
	CHECK_EQ(gmp_cancel(g[0]), 0);
	for (int i = 0; i < N; i++)
		join(g[i]);
	ext_thread_join(&f);
	gmp_wg_done(&gate);
	CHECK_EQ(atomic_load(&runs), 1);
	CHECK_EQ(atomic_load(&seen), N + 1);
}

static void exit_inside(UNUSED void *arg)
{
	value = 42;
	gmp_exit();
}

static void exit_two_deep(UNUSED void *arg)
{
	gmp_once_do(&inner, exit_inside, NULL);
	CHECK(!"gmp_exit returned");
}

static void do_two_deep(UNUSED void *arg)
{
	gmp_once_do(&o, exit_two_deep, NULL);
	CHECK(!"gmp_exit returned");
}

RT(once_gmp_exit_in_nested_fn_completes_both)
{
	struct ext_thread f;

	o = inner = (gmp_once)GMP_ONCE_INIT;
	value = 0;
	atomic_store(&runs, 0);
	atomic_store(&seen, 0);
	gmp_g *g = spawn(do_two_deep, NULL);

	join(g);
	CHECK_EQ(gmp_once_do(&o, count_inner, NULL), 0);
	CHECK_EQ(gmp_once_do(&inner, count_inner, NULL), 0);
	ext_thread_start(&f, do_once_and_check, NULL);
	ext_thread_join(&f);
	CHECK_EQ(atomic_load(&runs), 0);
	CHECK_EQ(atomic_load(&seen), 1);
}

/* A waiter frees the once while the call that ran fn may not have returned yet. */
static gmp_once *heap_once;

enum { WAITED = 2 }; /* value of the state: a caller waits */

static void wait_for_waiter(UNUSED void *arg)
{
	WAIT_FOR(__atomic_load_n(&heap_once->state, __ATOMIC_RELAXED) == WAITED);
}

static void do_heap_once(UNUSED void *arg)
{
	CHECK_EQ(gmp_once_do(heap_once, wait_for_waiter, NULL), 0);
}

static void do_and_free(UNUSED void *arg)
{
	gmp_once *mine = heap_once;

	WAIT_FOR(__atomic_load_n(&mine->state, __ATOMIC_RELAXED) != 0);
	CHECK_EQ(gmp_once_do(mine, wait_for_waiter, NULL), 0);
	memset(mine, 0xee, sizeof(*mine));
	free(mine);
}

RT(once_freed_by_waiter_is_not_used_again)
{
	for (long i = 0, n = check_scaled(500); i < n; i++) {
		struct ext_thread f;

		heap_once = calloc(1, sizeof(*heap_once));
		CHECK(heap_once != NULL);
		gmp_g *g = spawn(do_heap_once, NULL);

		if (i % 10) {
			join(spawn(do_and_free, NULL));
		} else {
			ext_thread_start(&f, do_and_free, NULL);
			ext_thread_join(&f);
		}
		join(g);
	}
}

static gmp_once outer_once, kept;

static void sleep_forever(UNUSED void *arg)
{
	atomic_fetch_add(&runs, 1);
	gmp_sleep_until(GMP_FOREVER);
	CHECK(!"a green thread that was killed at shutdown ran on");
}

static void do_kept(UNUSED void *arg)
{
	gmp_once_do(&kept, sleep_forever, NULL);
	CHECK(!"a green thread that was killed at shutdown ran on");
}

static void leave_running_fn(UNUSED void *arg)
{
	for (int i = 0; i < 4; i++)
		CHECK_EQ(gmp_go(do_kept, NULL), 0);
	wait_parked(4);
	CHECK_EQ(gmp_once_do(&outer_once, count_inner, NULL), 0);
}

/* fn stays running: it does not run again, and no G of a later run is mistaken for its runner. */
TEST_PROCS(once_shutdown_in_fn_leaves_it_running)
{
	for (int i = 0; i < 3; i++) {
		kept = outer_once = (gmp_once)GMP_ONCE_INIT;
		atomic_store(&runs, 0);
		run_procs(procs, leave_running_fn, NULL);
		CHECK_EQ(atomic_load(&runs), 2);
		run_procs(procs, leave_running_fn, NULL);
		CHECK_EQ(atomic_load(&runs), 2);
	}
}

static void yield_in_fn(UNUSED void *arg)
{
	gmp_yield();
}

static void do_once(UNUSED void *arg)
{
	CHECK_EQ(gmp_once_do(&o, yield_in_fn, NULL), 0);
	atomic_fetch_add(&seen, 1);
}

TEST(once_without_runtime_works_for_external_threads)
{
	for (int i = 0; i < 50; i++) {
		struct ext_thread f[4];

		o = (gmp_once)GMP_ONCE_INIT;
		atomic_store(&seen, 0);
		for (int k = 0; k < 4; k++)
			ext_thread_start(&f[k], do_once, NULL);
		for (int k = 0; k < 4; k++)
			CHECK_EQ(pthread_join(f[k].thread, NULL), 0);
		CHECK_EQ(atomic_load(&seen), 4);
	}
}
