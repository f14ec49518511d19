/* SPDX-License-Identifier: MIT */
/* What gmp_once promises. */
#include "util.h"

enum { N = 16 };

static gmp_once o;
static int value; /* plain: published by the once */
static atomic_int runs, seen;
static gmp_wg gate;

static void start_afresh(void)
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

static void do_it(UNUSED void *arg)
{
	CHECK_EQ(gmp_once_do(&o, set, NULL), 0);
	CHECK_EQ(value, 42);
	atomic_fetch_add(&seen, 1);
}

RT(it_runs_once_and_the_others_wait_for_its_end)
{
	gmp_g *g[N];
	struct ext_thread f;

	start_afresh();
	gmp_wg_add(&gate, 1);
	for (int i = 0; i < N; i++)
		g[i] = spawn(do_it, NULL);
	wait_parked(N);
	ext_thread_start(&f, do_it, NULL);
	for (int i = 0; i < N; i++)
		CHECK_EQ(gmp_cancel(g[i]), 0); /* it is not cut short */
	for (int i = 0; i < 10; i++)
		gmp_yield();
	CHECK_EQ(atomic_load(&seen), 0);
	gmp_wg_done(&gate);
	for (int i = 0; i < N; i++)
		join(g[i]);
	ext_thread_join(&f);
	do_it(NULL);
	CHECK_EQ(atomic_load(&runs), 1);
	CHECK_EQ(atomic_load(&seen), N + 2);
}

static void count_run(UNUSED void *arg)
{
	atomic_fetch_add(&runs, 1);
}

/* Callers look at the state themselves; called by its address it is the library's function that looks. */
RT(called_by_its_address_it_is_the_same)
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

RT(one_that_exits_in_it_has_done_it)
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

RT(one_may_run_in_another)
{
	o = inner = (gmp_once)GMP_ONCE_INIT;
	atomic_store(&runs, 0);
	CHECK_EQ(gmp_once_do(&o, nest, NULL), 0);
	CHECK_EQ(gmp_once_do(&o, nest, NULL), 0);
	CHECK_EQ(atomic_load(&runs), 2);
}

static void do_other(UNUSED void *arg)
{
	do_it(NULL);
	atomic_fetch_add(&seen, 1);
}

static void wait_in_ones_own(void *other)
{
	CHECK_EQ(gmp_once_do(other, do_other, NULL), 0);
}

RT(one_may_wait_for_anothers_in_ones_own)
{
	gmp_once other = GMP_ONCE_INIT;
	gmp_g *g[2];

	start_afresh();
	gmp_wg_add(&gate, 1);
	g[0] = spawn(do_it, NULL);
	WAIT_FOR(atomic_load(&runs) == 1);
	g[1] = spawn(wait_in_ones_own, &other);
	wait_parked(2);
	gmp_wg_done(&gate);
	join(g[0]);
	join(g[1]);
	CHECK_EQ(atomic_load(&runs), 1);
	CHECK_EQ(atomic_load(&seen), 3);
}

/* --- leaving it by other ways, and the end of the run --- */

static void wait_cancelled_in_it(UNUSED void *arg)
{
	atomic_fetch_add(&runs, 1);
	CHECK_EQ(gmp_wg_wait(&gate), -ECANCELED);
	value = 42;
}

static void run_it_cancelled(UNUSED void *arg)
{
	CHECK_EQ(gmp_once_do(&o, wait_cancelled_in_it, NULL), 0);
	CHECK_EQ(value, 42);
	atomic_fetch_add(&seen, 1);
}

RT(a_cancelled_green_thread_runs_it_to_its_end)
{
	gmp_g *g[N];
	struct ext_thread f;

	start_afresh();
	gmp_wg_add(&gate, 1);
	g[0] = spawn(run_it_cancelled, NULL);
	WAIT_FOR(atomic_load(&runs) == 1);
	for (int i = 1; i < N; i++)
		g[i] = spawn(run_it_cancelled, NULL);
	ext_thread_start(&f, run_it_cancelled, NULL);
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
	CHECK(!"it went on");
}

static void do_two_deep(UNUSED void *arg)
{
	gmp_once_do(&o, exit_two_deep, NULL);
	CHECK(!"it went on");
}

RT(one_that_exits_in_two_has_done_both)
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
	ext_thread_start(&f, do_it, NULL);
	ext_thread_join(&f);
	CHECK_EQ(atomic_load(&runs), 0);
	CHECK_EQ(atomic_load(&seen), 1);
}

/* Who waited frees it at once, while the one who did it may still be on its way out. */
static gmp_once *heap_once;

enum { WAITED = 2 }; /* of its word: somebody waits */

static void until_one_waits(UNUSED void *arg)
{
	WAIT_FOR(__atomic_load_n(&heap_once->state, __ATOMIC_RELAXED) == WAITED);
}

static void do_heap_once(UNUSED void *arg)
{
	CHECK_EQ(gmp_once_do(heap_once, until_one_waits, NULL), 0);
}

static void do_and_free(UNUSED void *arg)
{
	gmp_once *mine = heap_once;

	WAIT_FOR(__atomic_load_n(&mine->state, __ATOMIC_RELAXED) != 0);
	CHECK_EQ(gmp_once_do(mine, until_one_waits, NULL), 0);
	memset(mine, 0xee, sizeof(*mine));
	free(mine);
}

RT(who_waited_may_free_it)
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

static void never_ends(UNUSED void *arg)
{
	atomic_fetch_add(&runs, 1);
	gmp_sleep_until(GMP_FOREVER);
	CHECK(!"a dropped green thread went on");
}

static void do_kept(UNUSED void *arg)
{
	gmp_once_do(&kept, never_ends, NULL);
	CHECK(!"a dropped green thread went on");
}

static void leave_in_it(UNUSED void *arg)
{
	for (int i = 0; i < 4; i++)
		CHECK_EQ(gmp_go(do_kept, NULL), 0);
	wait_parked(4);
	CHECK_EQ(gmp_once_do(&outer_once, count_inner, NULL), 0);
}

/* What was under way stays so: nobody runs it a second time, and no green thread of a later run is
 * taken for the one that did. */
TEST_PROCS(a_run_that_ends_in_it_leaves_it_under_way)
{
	for (int i = 0; i < 3; i++) {
		kept = outer_once = (gmp_once)GMP_ONCE_INIT;
		atomic_store(&runs, 0);
		run_procs(procs, leave_in_it, NULL);
		CHECK_EQ(atomic_load(&runs), 2);
		run_procs(procs, leave_in_it, NULL);
		CHECK_EQ(atomic_load(&runs), 2);
	}
}

static void yield_in_it(UNUSED void *arg)
{
	gmp_yield();
}

static void do_plainly(UNUSED void *arg)
{
	CHECK_EQ(gmp_once_do(&o, yield_in_it, NULL), 0);
	atomic_fetch_add(&seen, 1);
}

TEST(it_works_between_plain_threads)
{
	for (int i = 0; i < 50; i++) {
		struct ext_thread f[4];

		o = (gmp_once)GMP_ONCE_INIT;
		atomic_store(&seen, 0);
		for (int k = 0; k < 4; k++)
			ext_thread_start(&f[k], do_plainly, NULL);
		for (int k = 0; k < 4; k++)
			CHECK_EQ(pthread_join(f[k].thread, NULL), 0);
		CHECK_EQ(atomic_load(&seen), 4);
	}
}
