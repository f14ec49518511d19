/* SPDX-License-Identifier: MIT */
/*
 * Tests the life of a green thread: starting, joining, detaching, ending, from green threads and from
 * foreign ones; its name and number.
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

RT(spawn_does_not_run_it_at_once)
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

RT(join_sees_what_the_green_thread_wrote)
{
	for (int i = 0; i < 1000; i++) {
		int *flag = calloc(1, sizeof(*flag));

		CHECK(flag != NULL);
		join(spawn(set_flag, flag));
		CHECK_EQ(*flag, 1);
		free(flag);
	}
}

RT(join_of_an_ended_green_thread_returns_at_once)
{
	gmp_g *g[10];

	for (int i = 0; i < 10; i++)
		g[i] = spawn(add_one, NULL);
	WAIT_FOR(atomic_load(&count) == 10);
	for (int i = 0; i < 10; i++) /* counted as ended is not yet ended for who joins */
		WAIT_FOR(gmp_join_until(g[i], 0) == 0);
}

RT(join_until_times_out_and_keeps_the_handle)
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

static void join_itself(UNUSED void *arg)
{
	CHECK_EQ(gmp_join(gmp_self()), -EDEADLK);
	CHECK_EQ(gmp_join_until(gmp_self(), gmp_deadline(MS)), -EDEADLK);
	CHECK_EQ(gmp_join_until(gmp_self(), 0), -EDEADLK);
}

RT(joining_oneself_is_edeadlk)
{
	join(spawn(join_itself, NULL));
}

static void join_itself_in_blocking_code(void *through)
{
	gmp_g *self = gmp_self();

	gmp_block_enter();
	CHECK_EQ(gmp_join_until(self, 0), -EDEADLK);
	CHECK_EQ(gmp_join_until(self, gmp_deadline(MS)), -EDEADLK);
	CHECK_EQ(gmp_join(self), -EDEADLK);
	gmp_block_leave();
	atomic_store((atomic_int *)through, 1);
}

RT(joining_oneself_in_blocking_code_is_edeadlk)
{
	atomic_int through = 0;
	gmp_g *g = spawn(join_itself_in_blocking_code, &through);

	WAIT_FOR(atomic_load(&through)); /* nobody else is its joiner */
	join(g);
}

RT(join_of_null_is_einval)
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

static void join_arg_for_a_while(void *arg)
{
	CHECK_EQ(gmp_join_until(arg, gmp_deadline(20 * MS)), -ETIMEDOUT);
}

RT(a_second_joiner_at_the_same_time_is_einval)
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

RT(after_a_joiner_timed_out_another_may_join)
{
	gmp_g *g;

	gmp_wg_add(&gate, 1);
	g = spawn(wait_gate, NULL);
	join(spawn(join_arg_for_a_while, g));
	join(spawn(join_arg_for_a_while, g));
	gmp_wg_done(&gate);
	join(g);
}

RT(join_until_racing_with_the_end_takes_the_handle_once)
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

RT(detach_lets_it_go_on)
{
	gmp_g *g;

	gmp_wg_add(&gate, 1);
	g = spawn(wait_gate, NULL);
	CHECK_EQ(gmp_detach(g), 0);
	CHECK_EQ(atomic_load(&count), 0);
	gmp_wg_done(&gate);
	WAIT_FOR(atomic_load(&count) == 1 && stats().greens == 1);
}

RT(detach_before_during_and_after_the_end_leaves_nothing)
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

/* Which the sanitizer sees. */
RT(a_descriptor_is_used_again_only_when_its_detacher_has_done_with_it)
{
	run_crowd(cancel_and_detach, 0, 4);
	WAIT_FOR(atomic_load(&count) == 4 * 1000 && stats().greens == 1);
}

static void end_deep_down(int depth)
{
	volatile char pad[64];

	pad[0] = (char)depth;
	if (depth < 0)
		return;
	if (depth == 0)
		gmp_exit();
	end_deep_down(depth - 1);
	CHECK(!"gmp_exit returned" && pad[0]);
}

static void end_early(UNUSED void *arg)
{
	atomic_fetch_add(&count, 1);
	end_deep_down(20);
}

RT(exit_ends_the_caller_from_any_depth)
{
	for (int i = 0; i < 100; i++)
		join(spawn(end_early, NULL));
	for (int i = 0; i < 100; i++)
		CHECK_EQ(gmp_go(end_early, NULL), 0);
	WAIT_FOR(atomic_load(&count) == 200 && stats().greens == 1);
}

/* ---- arguments */

RT(bad_arguments_of_spawn_are_einval)
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

RT(small_stacks_are_rounded_up_to_16_kib)
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

RT(a_stack_of_1_gib_is_accepted)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g;

	a.stack_size = (size_t)1 << 30;
	CHECK_EQ(gmp_spawn(&g, use_8_kib, &count, &a), 0);
	join(g);
	CHECK_EQ(atomic_load(&count), 1);
}

/* ---- self, id, name */

static void see_self(void *arg)
{
	*(gmp_g **)arg = gmp_self();
}

RT(self_is_the_handle_that_spawn_gave)
{
	gmp_g *seen = NULL, *g = spawn(see_self, &seen);

	join(g);
	CHECK(seen == g);
	CHECK(gmp_self() != NULL);
}

static void see_no_self(UNUSED void *arg)
{
	CHECK(gmp_self() == NULL);
	gmp_yield();
	gmp_checkpoint();
	CHECK(gmp_self() == NULL);
}

RT(self_is_null_on_a_foreign_thread)
{
	struct ext_thread f;

	ext_thread_start(&f, see_no_self, NULL);
	ext_thread_join(&f);
	CHECK(gmp_self() != NULL);
}

RT(ids_are_positive_and_never_used_twice)
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

static atomic_int names_seen;

static void see_name(void *arg)
{
	snprintf(arg, 100, "%s", gmp_name(gmp_self()));
	atomic_fetch_add(&names_seen, 1);
	gmp_wg_wait(&gate);
}

RT(the_name_is_copied_and_cut_at_63_bytes)
{
	char name[] = "worker", seen[100] = "?", lng[101];
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g;

	gmp_wg_add(&gate, 1);
	a.name = name;
	CHECK_EQ(gmp_spawn(&g, see_name, seen, &a), 0);
	memset(name, 'x', sizeof(name) - 1);
	WAIT_FOR(atomic_load(&names_seen) == 1);
	CHECK_STR(seen, "worker");
	CHECK_STR(gmp_name(g), "worker");
	gmp_wg_done(&gate);
	join(g);

	gmp_wg_add(&gate, 1);
	memset(lng, 'y', 100);
	lng[100] = '\0';
	a.name = lng;
	CHECK_EQ(gmp_spawn(&g, see_name, seen, &a), 0);
	WAIT_FOR(atomic_load(&names_seen) == 2);
	CHECK_EQ(strlen(gmp_name(g)), 63);
	CHECK_EQ(strncmp(gmp_name(g), lng, 63), 0);
	gmp_wg_done(&gate);
	join(g);
}

RT(without_a_name_the_name_is_empty)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g = spawn(nothing, NULL);

	CHECK_STR(gmp_name(g), "");
	join(g);
	/* A record that is used again does not keep the old name. */
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

/* ---- foreign threads */

static void spawn_from_here(UNUSED void *arg)
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

RT(foreign_threads_spawn_and_join)
{
	struct ext_thread f[4];

	for (int i = 0; i < 4; i++)
		ext_thread_start(&f[i], spawn_from_here, NULL);
	spawn_from_here(NULL);
	for (int i = 0; i < 4; i++)
		ext_thread_join(&f[i]);
	WAIT_FOR(atomic_load(&count) == 5 * (500 + 167) && stats().greens == 1);
}

static void join_until_here(void *arg)
{
	int64_t t = gmp_now();

	CHECK_EQ(gmp_join_until(arg, t + 10 * MS), -ETIMEDOUT);
	CHECK(gmp_now() >= t + 10 * MS);
	CHECK_EQ(gmp_join_until(arg, 0), -ETIMEDOUT);
	CHECK_EQ(gmp_detach(arg), 0);
}

RT(join_until_works_from_a_foreign_thread)
{
	struct ext_thread f;

	gmp_wg_add(&gate, 1);
	ext_thread_start(&f, join_until_here, spawn(wait_gate, NULL));
	ext_thread_join(&f);
	gmp_wg_done(&gate);
	WAIT_FOR(atomic_load(&count) == 1);
}

static void join_one(void *arg)
{
	CHECK_EQ(gmp_join(arg), 0);
}

RT(a_foreign_joiner_wakes_when_the_green_thread_ends)
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
