/* SPDX-License-Identifier: MIT */
/* Tests gmp_singleflight: of concurrent calls with one key one runs fn, and all get its result. */
#include "util.h"

static gmp_singleflight *table;
static atomic_int calls, computing, waiting, stop, got, values_freed;

static void make(size_t size)
{
	table = gmp_singleflight_new(size);
	CHECK(table != NULL);
}

static int answer(void *arg, void *value)
{
	CHECK_EQ(*(int *)value, 0);
	*(int *)value = *(int *)arg;
	atomic_fetch_add(&calls, 1);
	return 0;
}

static int fail(UNUSED void *arg, void *value)
{
	*(int *)value = 5;
	return -EIO;
}

static void check_basics(UNUSED void *arg)
{
	gmp_singleflight *t = gmp_singleflight_new(sizeof(int));
	int in = 42, out = 0, sharers = 0;

	CHECK(t != NULL);
	CHECK_EQ(gmp_singleflight_do(t, "key", 3, answer, &in, &out, &sharers), 0);
	CHECK_EQ(out, 42);
	CHECK_EQ(sharers, 1);
	in = 43;
	CHECK_EQ(gmp_singleflight_do(t, "key", 3, answer, &in, &out, NULL), 0);
	CHECK_EQ(out, 43); /* no result is cached */
	CHECK_EQ(gmp_singleflight_do(t, "key", 3, fail, NULL, &out, &sharers), -EIO);
	CHECK_EQ(out, 5);
	CHECK_EQ(gmp_singleflight_do(t, NULL, 0, answer, &in, NULL, NULL), 0);
	CHECK_EQ(gmp_singleflight_do_until(t, "key", 3, answer, &in, &out, NULL, 0), 0);
	CHECK_EQ(gmp_singleflight_do(NULL, "key", 3, answer, &in, &out, NULL), -EINVAL);
	CHECK_EQ(gmp_singleflight_do(t, NULL, 3, answer, &in, &out, NULL), -EINVAL);
	CHECK_EQ(gmp_singleflight_do(t, "key", 3, NULL, &in, &out, NULL), -EINVAL);
	CHECK_EQ(gmp_singleflight_forget(t, "key", 3), -ENOENT);
	CHECK_EQ(gmp_singleflight_forget(NULL, "key", 3), -EINVAL);
	gmp_singleflight_free(t);
	gmp_singleflight_free(NULL);
	CHECK(gmp_singleflight_new(SIZE_MAX) == NULL);
}

RT(singleflight_single_caller_computes)
{
	struct ext_thread f;

	check_basics(NULL);
	ext_thread_start(&f, check_basics, NULL);
	ext_thread_join(&f);
}

TEST(singleflight_single_caller_without_runtime_computes)
{
	check_basics(NULL);
}

struct shared {
	int n;
	atomic_int released;
};

static int compute_slowly(UNUSED void *arg, void *value)
{
	struct shared *s = calloc(1, sizeof(*s));

	CHECK(s != NULL);
	s->n = atomic_fetch_add(&calls, 1);
	while (!atomic_load(&stop))
		gmp_yield();
	*(struct shared **)value = s;
	return 7;
}

static int compute_alone(void *arg, void *value)
{
	CHECK_EQ(atomic_fetch_add(&computing, 1), 0);
	int result = compute_slowly(arg, value);

	atomic_fetch_sub(&computing, 1);
	return result;
}

static void ask_slow(UNUSED void *arg)
{
	struct shared *s = NULL;
	int sharers = 0;

	CHECK_EQ(gmp_singleflight_do(table, "slow", 4, compute_alone, NULL, &s, &sharers), 7);
	atomic_fetch_add(&got, 1);
	if (atomic_fetch_add(&s->released, 1) + 1 == sharers) {
		atomic_fetch_add(&values_freed, 1);
		free(s);
	}
}

static void ask_with_past_deadline(UNUSED void *arg)
{
	CHECK_EQ(gmp_singleflight_do_until(table, "slow", 4, compute_alone, NULL, NULL, NULL, 0),
		 -ETIMEDOUT);
}

/* A call that comes after fn has returned starts the next flight, so there may be more than one. */
RT(singleflight_concurrent_callers_share_value)
{
	gmp_g *g[100];
	struct ext_thread f[3];

	make(sizeof(struct shared *));
	for (int round = 0; round < 10; round++) {
		atomic_store(&calls, 0);
		atomic_store(&values_freed, 0);
		atomic_store(&stop, 0);
		for (int i = 0; i < 100; i++)
			g[i] = spawn(ask_slow, NULL);
		for (int i = 0; i < 3; i++)
			ext_thread_start(&f[i], ask_slow, NULL);
		WAIT_FOR(atomic_load(&calls) > 0 && stats().greens_waiting >= 99);
		run_crowd(ask_with_past_deadline, 3, 20);
		CHECK_EQ(atomic_load(&calls), 1);
		atomic_store(&stop, 1);
		for (int i = 0; i < 100; i++)
			join(g[i]);
		for (int i = 0; i < 3; i++)
			ext_thread_join(&f[i]);
		/* each value is freed once */
		CHECK_EQ(atomic_load(&values_freed), atomic_load(&calls));
	}
	CHECK_EQ(atomic_load(&got), 1030);
	gmp_singleflight_free(table);
}

static int return_key(void *arg, void *value)
{
	gmp_yield();
	*(int *)value = *(int *)arg;
	return 0;
}

static void ask_for_numbers(UNUSED void *arg)
{
	for (int i = 0; i < 300; i++) {
		int key = i, value = -1;

		CHECK_EQ(gmp_singleflight_do(table, &key, sizeof(key), return_key, &key, &value,
					     NULL),
			 0);
		CHECK_EQ(value, i);
	}
}

RT(singleflight_different_keys_share_nothing)
{
	gmp_g *g[20];

	make(sizeof(int));
	for (int i = 0; i < 20; i++)
		g[i] = spawn(ask_for_numbers, NULL);
	for (int i = 0; i < 20; i++)
		join(g[i]);
	gmp_singleflight_free(table);
}

static int wait_for_stop(void *arg, void *value)
{
	atomic_fetch_add(&waiting, 1);
	while (!atomic_load(&stop))
		gmp_sleep(MS);
	*(int *)value = *(int *)arg;
	return 0;
}

static int numbers[500];

static void ask_one(void *arg)
{
	int value = -1;

	CHECK_EQ(gmp_singleflight_do(table, arg, sizeof(int), wait_for_stop, arg, &value, NULL), 0);
	CHECK_EQ(value, *(int *)arg);
}

RT(singleflight_table_grows_to_500_keys)
{
	gmp_g *g[500];

	make(sizeof(int));
	for (int i = 0; i < 500; i++) {
		numbers[i] = i * 1000;
		g[i] = spawn(ask_one, &numbers[i]);
	}
	WAIT_FOR(atomic_load(&waiting) == 500);
	atomic_store(&stop, 1);
	for (int i = 0; i < 500; i++)
		join(g[i]);
	gmp_singleflight_free(table);
}

/* --- callers that leave --- */

static void time_out_then_be_cancelled(UNUSED void *arg)
{
	struct shared *s = NULL;
	int sharers = -1;

	CHECK_EQ(gmp_singleflight_do_until(table, "slow", 4, compute_slowly, NULL, &s, &sharers,
					   gmp_deadline(MS)),
		 -ETIMEDOUT);
	CHECK(s == NULL);
	CHECK_EQ(sharers, -1);
	atomic_fetch_add(&waiting, 1);
	CHECK_EQ(gmp_singleflight_do(table, "slow", 4, compute_slowly, NULL, &s, &sharers),
		 -ECANCELED);
	CHECK(s == NULL);
}

RT(singleflight_timed_out_or_cancelled_is_no_sharer)
{
	gmp_g *g[10], *leader;

	make(sizeof(struct shared *));
	leader = spawn(ask_slow, NULL);
	WAIT_FOR(atomic_load(&calls) == 1);
	for (int i = 0; i < 10; i++)
		g[i] = spawn(time_out_then_be_cancelled, NULL);
	WAIT_FOR(atomic_load(&waiting) == 10);
	for (int i = 0; i < 10; i++)
		CHECK_EQ(gmp_cancel(g[i]), 0);
	for (int i = 0; i < 10; i++)
		join(g[i]);
	atomic_store(&stop, 1);
	join(leader);
	CHECK_EQ(atomic_load(&values_freed), 1); /* the leader was the only sharer */
	gmp_singleflight_free(table);
}

static int exit_in_fn(UNUSED void *arg, UNUSED void *value)
{
	atomic_fetch_add(&calls, 1);
	while (!atomic_load(&stop))
		gmp_yield();
	gmp_exit();
	return 0;
}

static void ask_exiting(UNUSED void *arg)
{
	CHECK_EQ(gmp_singleflight_do(table, "exit", 4, exit_in_fn, NULL, NULL, NULL), 0);
}

static int nested_exit(void *arg, UNUSED void *value)
{
	return gmp_singleflight_do(table, "exit", 4, exit_in_fn, arg, NULL, NULL);
}

static void ask_nested(UNUSED void *arg)
{
	gmp_singleflight_do(table, "outer", 5, nested_exit, NULL, NULL, NULL);
	CHECK(0);
}

static void ask_for_eownerdead(void *arg)
{
	int size = (int)strlen(arg);

	atomic_fetch_add(&waiting, 1);
	CHECK_EQ(gmp_singleflight_do(table, arg, (size_t)size, exit_in_fn, NULL, NULL, NULL),
		 -EOWNERDEAD);
	atomic_fetch_add(&got, 1);
}

RT(singleflight_exit_in_fn_gives_waiters_eownerdead)
{
	gmp_g *g[20], *leader;

	make(0);
	for (int round = 0; round < 2; round++) {
		atomic_store(&calls, 0);
		atomic_store(&waiting, 0);
		atomic_store(&stop, 0);
		leader = spawn(round ? ask_nested : ask_exiting, NULL);
		WAIT_FOR(atomic_load(&calls) == 1);
		for (int i = 0; i < 20; i++)
			g[i] = spawn(ask_for_eownerdead, round && i % 2 ? "outer" : "exit");
		wait_parked(20);
		atomic_store(&stop, 1);
		join(leader);
		for (int i = 0; i < 20; i++)
			join(g[i]);
		CHECK_EQ(atomic_load(&calls), 1);
	}
	CHECK_EQ(atomic_load(&got), 40);
	gmp_singleflight_free(table);
}

static int until_second(void *arg, void *value)
{
	atomic_int *go_on = arg;

	atomic_fetch_add(&waiting, 1);
	while (!atomic_load(go_on))
		gmp_yield();
	*(int *)value = go_on == &stop ? 1 : 2;
	return 0;
}

static void ask_with(void *arg)
{
	int value = 0;

	CHECK_EQ(gmp_singleflight_do(table, "k", 1, until_second, arg, &value, NULL), 0);
	CHECK_EQ(value, arg == &stop ? 1 : 2);
}

static void ask_second_flight(UNUSED void *arg)
{
	int value = 0;

	CHECK_EQ(gmp_singleflight_do(table, "k", 1, answer, NULL, &value, NULL), 0);
	CHECK_EQ(value, 2);
}

RT(singleflight_forgotten_key_is_computed_again)
{
	gmp_g *first, *second, *third;

	make(sizeof(int));
	first = spawn(ask_with, &stop);
	WAIT_FOR(atomic_load(&waiting) == 1);
	CHECK_EQ(gmp_singleflight_forget(table, "k", 1), 0);
	CHECK_EQ(gmp_singleflight_forget(table, "k", 1), -ENOENT);
	second = spawn(ask_with, &got);
	WAIT_FOR(atomic_load(&waiting) == 2);
	atomic_store(&stop, 1);
	join(first); /* the end of the first flight must not remove the second from the table */
	third = spawn(ask_second_flight, NULL);
	wait_parked(1);
	atomic_store(&got, 1);
	join(second);
	join(third);
	gmp_singleflight_free(table);
}

static int nest(void *arg, void *value)
{
	int depth = *(int *)arg, less = depth - 1;

	*(int *)value = depth;
	if (depth > 0) {
		int below = -1;

		CHECK_EQ(gmp_singleflight_do(table, &less, sizeof(less), nest, &less, &below, NULL),
			 0);
		*(int *)value += below;
	}
	return 0;
}

RT(singleflight_nested_calls_compute)
{
	int top = 20, sum = 0;

	make(sizeof(int));
	CHECK_EQ(gmp_singleflight_do(table, &top, sizeof(top), nest, &top, &sum, NULL), 0);
	CHECK_EQ(sum, 210);
	gmp_singleflight_free(table);
}

static int sleep_in_fn(UNUSED void *arg, UNUSED void *value)
{
	atomic_fetch_add(&waiting, 1);
	gmp_sleep(100 * SEC);
	return 0;
}

static void ask_sleeping(UNUSED void *arg)
{
	gmp_singleflight_do(table, "z", 1, sleep_in_fn, NULL, NULL, NULL);
}

static void leave_flight(UNUSED void *arg)
{
	atomic_store(&waiting, 0);
	for (int i = 0; i < 5; i++)
		CHECK_EQ(gmp_go(ask_sleeping, NULL), 0);
	WAIT_FOR(atomic_load(&waiting) == 1);
	wait_parked(5);
}

static int yield_in_fn(UNUSED void *arg, UNUSED void *value)
{
	gmp_yield();
	return 0;
}

static void ask_repeatedly(UNUSED void *arg)
{
	while (gmp_singleflight_do(table, "y", 1, yield_in_fn, NULL, NULL, NULL) != -ESRCH)
		atomic_fetch_add(&calls, 1);
}

static void end_in_flight(UNUSED void *arg)
{
	int before = atomic_load(&calls);

	for (int i = 0; i < 20; i++)
		CHECK_EQ(gmp_go(ask_repeatedly, NULL), 0);
	WAIT_FOR(atomic_load(&calls) > before + 100);
}

TEST_PROCS(singleflight_table_survives_shutdown_in_flight)
{
	int n = SLOW ? 50 : 1000;

	make(0);
	for (int i = 0; i < n; i++) {
		run_procs(procs, end_in_flight, NULL);
		gmp_singleflight_forget(table, "y", 1);
		CHECK_EQ(gmp_singleflight_do(table, "y", 1, yield_in_fn, NULL, NULL, NULL), 0);
	}
	gmp_singleflight_free(table);
}

TEST_PROCS(singleflight_key_of_killed_flight_can_be_forgotten)
{
	make(0);
	for (int i = 0; i < 3; i++) {
		run_procs(procs, leave_flight, NULL);
		if (i < 2)
			CHECK_EQ(gmp_singleflight_forget(table, "z", 1), 0);
	}
	gmp_singleflight_free(table);
}
