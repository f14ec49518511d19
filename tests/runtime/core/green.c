/* SPDX-License-Identifier: MIT */
/*
 * Tests the lifetime of green threads (spawn, join, detach, exit), from green and external threads,
 * and their names and ids.
 */
#include "green_util.h"

static void nothing(UNUSED void *arg)
{
}

/* ---- starting and joining */

RT(go_runs_the_function_with_its_argument)
{
	static atomic_int sum;
	void add_to_sum(void *arg);

	for (int i = 1; i <= 100; i++)
		CHECK_EQ(gmp_go(add_to_sum, (void *)(intptr_t)i), 0);
	gmp_go(add_to_sum, &sum);
	WAIT_FOR(atomic_load(&sum) == 5050);
}

void add_to_sum(void *arg)
{
	static atomic_int waiting_sum;
	static _Atomic(atomic_int *) out;

	if ((uintptr_t)arg <= 100)
		atomic_fetch_add(&waiting_sum, (int)(uintptr_t)arg);
	else
		atomic_store(&out, (atomic_int *)arg);
	if (atomic_load(&out) != NULL)
		atomic_store(atomic_load(&out), atomic_load(&waiting_sum));
}

static void set_flag(void *arg)
{
	*(int *)arg = 1;
}

RT(spawn_on_one_p_does_not_switch_to_new_g)
{
	int flag = 0;
	gmp_g *g;

	if (procs > 1)
		check_skip("another P may take it at once");
	g = spawn(set_flag, &flag);
	CHECK_EQ(flag, 0);
	join(g);
	CHECK_EQ(flag, 1);
}

RT(join_makes_writes_of_green_thread_visible)
{
	for (int i = 0; i < 1000; i++) {
		int *flag = calloc(1, sizeof(*flag));

		CHECK(flag != NULL);
		join(spawn(set_flag, flag));
		CHECK_EQ(*flag, 1);
		free(flag);
	}
}

RT(join_ended_green_thread_returns_at_once)
{
	gmp_g *g[10];

	for (int i = 0; i < 10; i++)
		g[i] = spawn(add_one, NULL);
	WAIT_FOR(atomic_load(&count) == 10);
	for (int i = 0; i < 10; i++) /* add_one counts before the exit */
		WAIT_FOR(gmp_join_until(g[i], 0) == 0);
}

RT(join_until_timeout_keeps_handle_valid)
{
	int64_t t = gmp_now();
	gmp_g *g;

	gmp_wg_add(&gate, 1);
	g = spawn(wait_gate, NULL);
	CHECK_EQ(gmp_join_until(g, t + 10 * MS), -ETIMEDOUT);
	CHECK(gmp_now() >= t + 10 * MS);
	CHECK_EQ(gmp_join_until(g, 0), -ETIMEDOUT);
	CHECK_EQ(gmp_join_until(g, INT64_MIN), -ETIMEDOUT);
	CHECK_EQ(gmp_join_until(g, gmp_now() - 1), -ETIMEDOUT);
	CHECK(gmp_id(g) > 0);
	gmp_wg_done(&gate);
	CHECK_EQ(gmp_join_until(g, GMP_FOREVER), 0);
	CHECK_EQ(atomic_load(&count), 1);
}

static void join_self(UNUSED void *arg)
{
	CHECK_EQ(gmp_join(gmp_self()), -EDEADLK);
	CHECK_EQ(gmp_join_until(gmp_self(), gmp_deadline(MS)), -EDEADLK);
	CHECK_EQ(gmp_join_until(gmp_self(), 0), -EDEADLK);
}

RT(join_self_returns_edeadlk)
{
	join(spawn(join_self, NULL));
}

static void join_self_in_blocking_code(void *returned)
{
	gmp_g *self = gmp_self();

	gmp_block_enter();
	CHECK_EQ(gmp_join_until(self, 0), -EDEADLK);
	CHECK_EQ(gmp_join_until(self, gmp_deadline(MS)), -EDEADLK);
	CHECK_EQ(gmp_join(self), -EDEADLK);
	gmp_block_leave();
	atomic_store((atomic_int *)returned, 1);
}

RT(join_self_in_blocking_code_returns_edeadlk)
{
	atomic_int returned = 0;
	gmp_g *g = spawn(join_self_in_blocking_code, &returned);

	WAIT_FOR(atomic_load(&returned)); /* no other joiner until then */
	join(g);
}

RT(join_of_joined_handle_returns_einval)
{
	gmp_g *waited = spawn(nothing, NULL), *ended = spawn(nothing, NULL);

	CHECK_EQ(gmp_join(waited), 0);
	CHECK_EQ(gmp_join(waited), -EINVAL);
	CHECK_EQ(gmp_detach(waited), -EINVAL);
	WAIT_FOR(gmp_join_until(ended, 0) == 0);
	CHECK_EQ(gmp_join(ended), -EINVAL);
	CHECK_EQ(gmp_detach(ended), -EINVAL);
	/* two spawns do not get the same g struct */
	gmp_g *a = spawn(nothing, NULL), *b = spawn(nothing, NULL);

	CHECK(a != b);
	join(a);
	join(b);
}

RT(detach_of_detached_handle_returns_einval)
{
	uint64_t alive = stats().greens;
	gmp_g *g = spawn(nothing, NULL);

	WAIT_FOR(stats().greens == alive); /* it has ended */
	CHECK_EQ(gmp_detach(g), 0);
	CHECK_EQ(gmp_detach(g), -EINVAL);
	CHECK_EQ(gmp_join(g), -EINVAL);
}

RT(join_null_returns_einval)
{
	CHECK_EQ(gmp_join(NULL), -EINVAL);
	CHECK_EQ(gmp_join_until(NULL, 0), -EINVAL);
	CHECK_EQ(gmp_detach(NULL), -EINVAL);
}

static void join_arg(void *arg)
{
	CHECK_EQ(gmp_join(arg), 0);
	atomic_fetch_add(&count, 10);
}

static void join_arg_until_timeout(void *arg)
{
	CHECK_EQ(gmp_join_until(arg, gmp_deadline(20 * MS)), -ETIMEDOUT);
}

RT(join_while_another_joiner_waits_returns_einval)
{
	gmp_g *g, *j;

	gmp_wg_add(&gate, 1);
	g = spawn(wait_gate, NULL);
	j = spawn(join_arg, g);
	wait_parked(2);
	CHECK_EQ(gmp_join(g), -EINVAL);
	CHECK_EQ(gmp_join_until(g, gmp_deadline(MS)), -EINVAL);
	CHECK_EQ(gmp_join_until(g, 0), -EINVAL);
	CHECK_EQ(gmp_detach(g), -EINVAL);
	gmp_wg_done(&gate);
	join(j);
	CHECK_EQ(atomic_load(&count), 11);
}

RT(join_after_timeout_of_another_joiner_works)
{
	gmp_g *g;

	gmp_wg_add(&gate, 1);
	g = spawn(wait_gate, NULL);
	join(spawn(join_arg_until_timeout, g));
	join(spawn(join_arg_until_timeout, g));
	gmp_wg_done(&gate);
	join(g);
}

RT(join_until_racing_exit_consumes_handle_once)
{
	for (int i = 0; i < (SLOW ? 500 : 3000); i++) {
		gmp_g *g = spawn(add_one, NULL);
		int err = gmp_join_until(g, gmp_deadline(i % 10 * US));

		if (err == -ETIMEDOUT)
			err = gmp_join(g);
		CHECK_EQ(err, 0);
		CHECK_EQ(atomic_load(&count), i + 1);
	}
	WAIT_FOR(stats().greens == 1);
}

RT(detach_running_green_thread_lets_it_continue)
{
	gmp_g *g;

	gmp_wg_add(&gate, 1);
	g = spawn(wait_gate, NULL);
	CHECK_EQ(gmp_detach(g), 0);
	CHECK_EQ(atomic_load(&count), 0);
	gmp_wg_done(&gate);
	WAIT_FOR(atomic_load(&count) == 1 && stats().greens == 1);
}

RT(detach_racing_exit_leaves_no_green_thread)
{
	for (int i = 0; i < 10000; i++) {
		gmp_g *g = spawn(add_one, NULL);

		if (i % 3 == 1)
			gmp_yield();
		CHECK_EQ(gmp_detach(g), 0);
	}
	WAIT_FOR(atomic_load(&count) == 10000 && stats().greens == 1);
	WAIT_FOR(stats().stacks_used <= 1);
}

static void cancel_and_detach(UNUSED void *arg)
{
	for (int i = 0; i < 1000; i++) {
		gmp_g *g = spawn(add_one, NULL);

		if (i % 3 == 1)
			gmp_yield();
		CHECK_EQ(gmp_cancel(g), 0);
		CHECK_EQ(gmp_detach(g), 0);
	}
}

/* A sanitizer reports a use of the reused g struct. */
RT(g_struct_is_reused_only_after_detach_has_returned)
{
	run_crowd(cancel_and_detach, 0, 4);
	WAIT_FOR(atomic_load(&count) == 4 * 1000 && stats().greens == 1);
}

static void exit_at_depth(int depth)
{
	volatile char pad[64];

	pad[0] = (char)depth;
	if (depth < 0)
		return;
	if (depth == 0)
		gmp_exit();
	exit_at_depth(depth - 1);
	CHECK(!"gmp_exit returned" && pad[0]);
}

static void exit_early(UNUSED void *arg)
{
	atomic_fetch_add(&count, 1);
	exit_at_depth(20);
}

RT(exit_in_nested_call_ends_green_thread)
{
	for (int i = 0; i < 100; i++)
		join(spawn(exit_early, NULL));
	for (int i = 0; i < 100; i++)
		CHECK_EQ(gmp_go(exit_early, NULL), 0);
	WAIT_FOR(atomic_load(&count) == 200 && stats().greens == 1);
}

/* ---- arguments */

RT(spawn_bad_arguments_return_einval)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g = NULL;

	CHECK_EQ(gmp_go(NULL, NULL), -EINVAL);
	CHECK_EQ(gmp_spawn(NULL, nothing, NULL, NULL), -EINVAL);
	CHECK_EQ(gmp_spawn(&g, NULL, NULL, NULL), -EINVAL);
	a.size = 0;
	CHECK_EQ(gmp_spawn(&g, nothing, NULL, &a), -EINVAL);
	a = (gmp_attr)GMP_ATTR_INIT;
	a.flags = 1u << 30;
	CHECK_EQ(gmp_spawn(&g, nothing, NULL, &a), -EINVAL);
	a = (gmp_attr)GMP_ATTR_INIT;
	a.stack_size = ((size_t)1 << 30) + 1;
	CHECK_EQ(gmp_spawn(&g, nothing, NULL, &a), -EINVAL);
	a.stack_size = SIZE_MAX;
	CHECK_EQ(gmp_spawn(&g, nothing, NULL, &a), -EINVAL);
	CHECK(g == NULL);
	CHECK_EQ(stats().greens, 1);
}

static void use_8_kib(void *arg)
{
	volatile char buf[8192];

	for (size_t i = 0; i < sizeof(buf); i++)
		buf[i] = (char)i;
	gmp_yield();
	for (size_t i = 0; i < sizeof(buf); i++)
		CHECK_EQ(buf[i], (char)i);
	atomic_fetch_add((atomic_int *)arg, 1);
}

RT(spawn_small_stack_size_is_rounded_up_to_16_kib)
{
	static const size_t sizes[] = { 1, 100, 4096, 8192, 16383, 16384 };
	gmp_g *g[6];

	for (int i = 0; i < 6; i++) {
		gmp_attr a = GMP_ATTR_INIT;

		a.stack_size = sizes[i];
		CHECK_EQ(gmp_spawn(&g[i], use_8_kib, &count, &a), 0);
	}
	for (int i = 0; i < 6; i++)
		join(g[i]);
	CHECK_EQ(atomic_load(&count), 6);
}

RT(spawn_stack_size_of_1_gib_works)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g;

	a.stack_size = (size_t)1 << 30;
	CHECK_EQ(gmp_spawn(&g, use_8_kib, &count, &a), 0);
	join(g);
	CHECK_EQ(atomic_load(&count), 1);
}

/* ---- self, id, name */

static void store_self(void *arg)
{
	*(gmp_g **)arg = gmp_self();
}

RT(self_equals_handle_from_spawn)
{
	gmp_g *seen = NULL, *g = spawn(store_self, &seen);

	join(g);
	CHECK(seen == g);
	CHECK(gmp_self() != NULL);
}

static void check_self_is_null(UNUSED void *arg)
{
	CHECK(gmp_self() == NULL);
	gmp_yield();
	gmp_checkpoint();
	CHECK(gmp_self() == NULL);
}

RT(self_on_external_thread_returns_null)
{
	struct ext_thread f;

	ext_thread_start(&f, check_self_is_null, NULL);
	ext_thread_join(&f);
	CHECK(gmp_self() != NULL);
}

RT(id_is_positive_and_never_reused)
{
	enum { N = 2000 };
	static int64_t ids[N + 1];
	int n = 0;

	CHECK_EQ(gmp_id(NULL), 0);
	ids[n++] = (int64_t)gmp_id(gmp_self());
	while (n < N) {
		gmp_g *g[10];

		for (int i = 0; i < 10; i++) {
			g[i] = spawn(nothing, NULL);
			ids[n + i] = (int64_t)gmp_id(g[i]);
		}
		for (int i = 0; i < 10; i++) {
			CHECK_EQ(gmp_id(g[i]), ids[n + i]);
			join(g[i]);
		}
		n += 10;
		if (n + 10 > N)
			break;
	}
	qsort(ids, (size_t)n, sizeof(ids[0]), cmp_i64);
	CHECK(ids[0] >= 1);
	for (int i = 1; i < n; i++)
		CHECK(ids[i] != ids[i - 1]);
}

static atomic_int names_stored;

static void store_name(void *arg)
{
	snprintf(arg, 100, "%s", gmp_name(gmp_self()));
	atomic_fetch_add(&names_stored, 1);
	gmp_wg_wait(&gate);
}

RT(name_is_copied_and_truncated_to_63_bytes)
{
	char name[] = "worker", seen[100] = "?", lng[101];
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g;

	gmp_wg_add(&gate, 1);
	a.name = name;
	CHECK_EQ(gmp_spawn(&g, store_name, seen, &a), 0);
	memset(name, 'x', sizeof(name) - 1);
	WAIT_FOR(atomic_load(&names_stored) == 1);
	CHECK_STR(seen, "worker");
	CHECK_STR(gmp_name(g), "worker");
	gmp_wg_done(&gate);
	join(g);

	gmp_wg_add(&gate, 1);
	memset(lng, 'y', 100);
	lng[100] = '\0';
	a.name = lng;
	CHECK_EQ(gmp_spawn(&g, store_name, seen, &a), 0);
	WAIT_FOR(atomic_load(&names_stored) == 2);
	CHECK_EQ(strlen(gmp_name(g)), 63);
	CHECK_EQ(strncmp(gmp_name(g), lng, 63), 0);
	gmp_wg_done(&gate);
	join(g);
}

RT(name_unset_is_empty_also_in_reused_g_struct)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g = spawn(nothing, NULL);

	CHECK_STR(gmp_name(g), "");
	join(g);
	/* A reused g struct does not keep the old name. */
	a.name = "old";
	for (int i = 0; i < 100; i++) {
		CHECK_EQ(gmp_spawn(&g, nothing, NULL, &a), 0);
		CHECK_STR(gmp_name(g), "old");
		join(g);
		g = spawn(nothing, NULL);
		CHECK_STR(gmp_name(g), "");
		join(g);
	}
}

/* ---- external threads */

static void spawn_and_join_many(UNUSED void *arg)
{
	enum { N = 500 };
	gmp_g *g[N];

	for (int i = 0; i < N; i++) {
		g[i] = spawn(add_one, NULL);
		if (i % 3 == 0)
			CHECK_EQ(gmp_go(add_one, NULL), 0);
	}
	for (int i = 0; i < N; i++)
		join(g[i]);
}

RT(spawn_and_join_from_external_threads_work)
{
	struct ext_thread f[4];

	for (int i = 0; i < 4; i++)
		ext_thread_start(&f[i], spawn_and_join_many, NULL);
	spawn_and_join_many(NULL);
	for (int i = 0; i < 4; i++)
		ext_thread_join(&f[i]);
	WAIT_FOR(atomic_load(&count) == 5 * (500 + 167) && stats().greens == 1);
}

static void join_until_timeout(void *arg)
{
	int64_t t = gmp_now();

	CHECK_EQ(gmp_join_until(arg, t + 10 * MS), -ETIMEDOUT);
	CHECK(gmp_now() >= t + 10 * MS);
	CHECK_EQ(gmp_join_until(arg, 0), -ETIMEDOUT);
	CHECK_EQ(gmp_detach(arg), 0);
}

RT(join_until_on_external_thread_times_out)
{
	struct ext_thread f;

	gmp_wg_add(&gate, 1);
	ext_thread_start(&f, join_until_timeout, spawn(wait_gate, NULL));
	ext_thread_join(&f);
	gmp_wg_done(&gate);
	WAIT_FOR(atomic_load(&count) == 1);
}

static void join_one(void *arg)
{
	CHECK_EQ(gmp_join(arg), 0);
}

RT(join_on_external_thread_wakes_at_exit)
{
	for (int i = 0; i < 50; i++) {
		struct ext_thread f;
		gmp_g *g;

		gmp_wg_add(&gate, 1);
		g = spawn(wait_gate, NULL);
		ext_thread_start(&f, join_one, g);
		if (i % 2)
			gmp_sleep(200 * US);
		gmp_wg_done(&gate);
		ext_thread_join(&f);
	}
}
