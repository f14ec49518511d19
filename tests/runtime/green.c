/* SPDX-License-Identifier: MIT */
/*
 * Tests the life of a green thread: starting, joining, detaching, ending, its name and number, the
 * order in which they run, and that there can be very many.
 */
#include "util.h"

static atomic_int count;
static gmp_wg gate;

static void nothing(UNUSED void *arg)
{
}

static void add_one(UNUSED void *arg)
{
	atomic_fetch_add(&count, 1);
}

static void wait_gate(UNUSED void *arg)
{
	CHECK_EQ(gmp_wg_wait(&gate), 0);
	atomic_fetch_add(&count, 1);
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
	for (int i = 0; i < (SANITIZED ? 500 : 3000); i++) {
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
	struct foreign f;

	foreign_start(&f, see_no_self, NULL);
	foreign_join(&f);
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

/* ---- order and fairness */

static int order[64], norder;

static void note_order(void *arg)
{
	order[norder++] = (int)(intptr_t)arg;
}

static void order_app(UNUSED void *arg)
{
	gmp_g *g[10];

	for (int i = 0; i < 10; i++)
		g[i] = spawn(note_order, (void *)(intptr_t)i);
	for (int i = 0; i < 10; i++)
		join(g[i]);
	CHECK_EQ(norder, 10);
	CHECK_EQ(order[0], 9);
	for (int i = 1; i < 10; i++)
		CHECK_EQ(order[i], i - 1);
}

TEST(the_last_spawned_runs_next_then_the_others_in_order)
{
	run_procs(1, order_app, NULL);
}

static void yield_and_note(void *arg)
{
	for (int i = 0; i < 5; i++) {
		order[norder++] = (int)(intptr_t)arg;
		gmp_yield();
	}
}

static void fifo_app(UNUSED void *arg)
{
	gmp_g *g[8];

	for (int i = 0; i < 8; i++)
		g[i] = spawn(yield_and_note, (void *)(intptr_t)i);
	for (int i = 0; i < 8; i++)
		join(g[i]);
	CHECK_EQ(norder, 40);
	for (int i = 8; i < 40; i++)
		CHECK_EQ(order[i], order[i - 8]);
	for (int i = 0; i < 8; i++) {
		for (int j = 0; j < i; j++)
			CHECK(order[i] != order[j]);
	}
}

TEST(yields_go_round_in_order_on_one_p)
{
	run_procs(1, fifo_app, NULL);
}

static atomic_int stop;
static atomic_int pair_over;
static gmp_wg ping, pong;

static void play_ping(UNUSED void *arg)
{
	while (!atomic_load(&stop)) {
		gmp_wg_add(&ping, 1);
		gmp_wg_done(&pong);
		gmp_wg_wait(&ping);
	}
	atomic_store(&pair_over, 1);
	gmp_wg_done(&pong);
}

static void play_pong(UNUSED void *arg)
{
	for (;;) {
		gmp_wg_wait(&pong);
		if (atomic_load(&pair_over))
			return;
		gmp_wg_add(&pong, 1);
		gmp_wg_done(&ping);
	}
}

RT(a_pair_that_wakes_each_other_cannot_starve_the_others)
{
	gmp_g *a[8], *b, *c;

	gmp_wg_add(&pong, 1);
	b = spawn(play_pong, NULL);
	c = spawn(play_ping, NULL);
	for (int i = 0; i < 20; i++)
		gmp_yield();
	for (int i = 0; i < 8; i++)
		a[i] = spawn(add_one, NULL);
	for (int i = 0; i < 8; i++)
		join(a[i]);
	gmp_sleep(MS);
	atomic_store(&stop, 1);
	join(c);
	join(b);
}

static atomic_int chains;

static void spawn_the_next(UNUSED void *arg)
{
	if (atomic_load(&stop))
		atomic_fetch_sub(&chains, 1);
	else
		CHECK_EQ(gmp_go(spawn_the_next, NULL), 0);
}

RT(a_chain_of_spawns_cannot_starve_the_others)
{
	for (int i = 0; i < procs; i++) {
		atomic_fetch_add(&chains, 1);
		CHECK_EQ(gmp_go(spawn_the_next, NULL), 0);
	}
	for (int i = 0; i < 5; i++)
		gmp_yield();
	join(spawn(add_one, NULL));
	gmp_sleep(MS);
	atomic_store(&stop, 1);
	WAIT_FOR(atomic_load(&chains) == 0);
}

#ifdef __SANITIZE_THREAD__
enum { COMING = 30, TURNS = 10 }; /* to it each new green thread is some 50 us */
#else
enum { COMING = 300, TURNS = 100 };
#endif

static void spawn_now_and_then(UNUSED void *arg)
{
	for (int i = 0; i < COMING; i++) {
		CHECK_EQ(gmp_go(add_one, NULL), 0);
		gmp_yield();
	}
}

RT(a_yielder_is_not_starved_by_those_that_keep_coming)
{
	struct foreign f;

	/* There is always one more ready, here and in the global queue. */
	for (int i = 0; i < 3 * procs; i++) {
		atomic_fetch_add(&chains, 1);
		CHECK_EQ(gmp_go(spawn_the_next, NULL), 0);
	}
	foreign_start(&f, spawn_now_and_then, NULL);
	foreign_join(&f);
	for (int i = 0; i < TURNS; i++)
		gmp_yield();
	atomic_store(&stop, 1);
	WAIT_FOR(atomic_load(&chains) == 0 && atomic_load(&count) == COMING);
}

static void yield_for_ever(UNUSED void *arg)
{
	while (!atomic_load(&stop))
		gmp_yield();
}

RT(yielders_do_not_starve_what_foreign_threads_spawn)
{
	struct foreign f;
	gmp_g *g[20];
	void spawn_and_join_here(void *arg);

	for (int i = 0; i < 20; i++)
		g[i] = spawn(yield_for_ever, NULL);
	foreign_start(&f, spawn_and_join_here, NULL);
	foreign_join(&f);
	atomic_store(&stop, 1);
	for (int i = 0; i < 20; i++)
		join(g[i]);
}

void spawn_and_join_here(UNUSED void *arg)
{
	for (int i = 0; i < 50; i++)
		join(spawn(add_one, NULL));
}

static void check_for_ever(UNUSED void *arg)
{
	while (!atomic_load(&stop))
		gmp_checkpoint();
}

RT(a_loop_with_checkpoints_lets_the_others_run)
{
	gmp_g *g[5];

	for (int i = 0; i < 5; i++)
		g[i] = spawn(check_for_ever, NULL);
	/* Each of these comes back only because the loops give way. */
	for (int i = 0; i < 5; i++)
		gmp_yield();
	join(spawn(add_one, NULL));
	atomic_store(&stop, 1);
	for (int i = 0; i < 5; i++)
		join(g[i]);
}

RT(a_ready_green_thread_is_taken_from_a_p_that_is_busy)
{
	int64_t limit = gmp_deadline(PATIENCE);
	gmp_g *g[3];

	if (procs == 1)
		check_skip("takes a second P");
	for (int i = 0; i < 3; i++)
		g[i] = spawn(add_one, NULL);
	/* This loop never gives way: another P has to take all three, the runnext too. */
	while (atomic_load(&count) < 3)
		CHECK(gmp_now() < limit);
	for (int i = 0; i < 3; i++)
		join(g[i]);
}

static atomic_int met;

static void meet(void *arg)
{
	atomic_fetch_add(&met, 1);
	while (atomic_load(&met) < *(int *)arg)
		;
}

RT(as_many_run_at_once_as_there_are_ps)
{
	gmp_g *g[4];

	for (int round = 0; round < 20; round++) {
		atomic_store(&met, 0);
		for (int i = 0; i < procs; i++)
			g[i] = spawn(meet, &procs);
		for (int i = 0; i < procs; i++)
			join(g[i]);
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
	struct foreign f[4];

	for (int i = 0; i < 4; i++)
		foreign_start(&f[i], spawn_from_here, NULL);
	spawn_from_here(NULL);
	for (int i = 0; i < 4; i++)
		foreign_join(&f[i]);
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
	struct foreign f;

	gmp_wg_add(&gate, 1);
	foreign_start(&f, join_until_here, spawn(wait_gate, NULL));
	foreign_join(&f);
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
		struct foreign f;
		gmp_g *g;

		gmp_wg_add(&gate, 1);
		g = spawn(wait_gate, NULL);
		foreign_start(&f, join_one, g);
		if (i % 2)
			gmp_sleep(200 * US);
		gmp_wg_done(&gate);
		foreign_join(&f);
	}
}

/* ---- many */

static void tree(void *arg)
{
	intptr_t depth = (intptr_t)arg;
	gmp_g *a, *b;

	atomic_fetch_add(&count, 1);
	if (depth == 0)
		return;
	a = spawn(tree, (void *)(depth - 1));
	b = spawn(tree, (void *)(depth - 1));
	join(a);
	join(b);
}

RT(a_tree_of_green_threads_is_joined_from_below)
{
	int depth = SANITIZED ? 9 : 14;

	join(spawn(tree, (void *)(intptr_t)depth));
	CHECK_EQ(atomic_load(&count), (2 << depth) - 1);
}

RT(a_hundred_thousand_green_threads_run)
{
	int n = SANITIZED ? 5000 : 100000;
	gmp_g **g = calloc((size_t)n, sizeof(gmp_g *));

	CHECK(g != NULL);
	for (int i = 0; i < n; i++)
		g[i] = spawn(add_one, NULL);
	for (int i = 0; i < n; i++)
		join(g[i]);
	CHECK_EQ(atomic_load(&count), n);
	CHECK_EQ(stats().greens, 1);
	free(g);
}

static long footprint_kb(void)
{
	return rss_kb() + proc_kb("/proc/self/status", "VmPTE");
}

static void park_many(int n)
{
	atomic_store(&count, 0);
	gmp_wg_add(&gate, 1);
	for (int i = 0; i < n; i++)
		CHECK_EQ(gmp_go(wait_gate, NULL), 0);
	wait_parked((uint64_t)n);
}

static void release_many(int n)
{
	gmp_wg_done(&gate);
	WAIT_FOR(atomic_load(&count) == n && stats().greens == 1);
}

RT(a_hundred_thousand_parked_take_at_most_5000_bytes_each)
{
	int n = SANITIZED ? 2000 : 100000;
	long before = footprint_kb(), after;

	park_many(n);
	after = footprint_kb();
	if (!SANITIZED)
		CHECK((after - before) * 1024 / n <= 5000);
	release_many(n);
	/* A second wave uses what the first left. */
	park_many(n);
	if (!SANITIZED)
		CHECK(footprint_kb() <= after + after / 10);
	release_many(n);
}

RT(a_million_parked_work_with_the_systems_defaults)
{
	int n = 1000000;
	long before = footprint_kb();

	if (SANITIZED || procs == 2)
		check_skip("too much for this build, or shown at 1 and 4 Ps");
	if (proc_kb("/proc/meminfo", "MemAvailable") < (8L << 20))
		check_skip("less than 8 GiB of memory");
	park_many(n);
	CHECK((footprint_kb() - before) * 1024 / n <= 5000);
	release_many(n);
}

static void unstarted_app(UNUSED void *arg)
{
	int n = (int)check_scaled(100000);
	long before = rss_kb();
	uint64_t used = stats().stacks_used;

	for (int i = 0; i < n; i++)
		CHECK_EQ(gmp_go(add_one, NULL), 0);
	CHECK_EQ(stats().stacks_used, used);
	if (!SANITIZED)
		CHECK((rss_kb() - before) * 1024 / n <= 1000);
	WAIT_FOR(atomic_load(&count) == n);
}

TEST(a_green_thread_has_no_stack_before_it_runs)
{
	run_procs(1, unstarted_app, NULL);
}
