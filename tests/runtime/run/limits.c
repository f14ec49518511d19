/* SPDX-License-Identifier: MIT */
/* Tests limits that the program sets: calls fail at a limit, and work when there is room again. */
#define _GNU_SOURCE 1
#include "util.h"

#include <netdb.h>
#include <sys/resource.h>

enum { KIB = 1024, STACK = 64 * KIB };

static gmp_wg drained;

static void wait_until_drained(UNUSED void *arg)
{
	gmp_wg_wait(&drained);
}

static void nothing(UNUSED void *arg)
{
}

static gmp_config with_stack_memory(int procs, uint64_t bytes)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = procs;
	c.stack_size = STACK;
	c.max_stack_memory = bytes;
	return c;
}

/* Spawns green threads, which wait until drain, until -EAGAIN; returns how many. */
static int fill(gmp_g **g, int most, const gmp_attr *a)
{
	int n = 0, err = 0;

	gmp_wg_add(&drained, 1);
	while (n < most && (err = gmp_spawn(&g[n], wait_until_drained, NULL, a)) == 0)
		n++;
	CHECK_EQ(err, -EAGAIN);
	return n;
}

static void drain(gmp_g **g, int n)
{
	gmp_wg_done(&drained);
	for (int i = 0; i < n; i++)
		join(g[i]);
}

static void use_ten_stacks(UNUSED void *arg)
{
	gmp_g *g[64];

	for (int round = 0; round < 3; round++) {
		CHECK_EQ(fill(g, 64, NULL), 9); /* the entry has a stack, too */
		CHECK_EQ(gmp_go(nothing, NULL), -EAGAIN);
		drain(g, 9);
		CHECK_EQ(gmp_spawn(&g[0], nothing, NULL, NULL), 0);
		join(g[0]);
	}
}

TEST_PROCS(spawn_beyond_max_stack_memory_returns_eagain)
{
	gmp_config c = with_stack_memory(procs, 10 * STACK);

	CHECK_EQ(gmp_run(use_ten_stacks, NULL, &c), 0);
}

static void use_all_stacks(UNUSED void *arg)
{
	gmp_g *g[128];

	CHECK_EQ(fill(g, 128, NULL), 65);
	drain(g, 65);
}

/* Stacks are allocated in batches; 66 is not a multiple of a batch. */
TEST_PROCS(max_stack_memory_is_usable_to_the_last_stack)
{
	gmp_config c = with_stack_memory(procs, 66 * STACK);

	CHECK_EQ(gmp_run(use_all_stacks, NULL, &c), 0);
}

static void spawn_beyond_max_green(UNUSED void *arg)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g[64], *one;
	int n = fill(g, 64, NULL);

	a.stack_size = 1024 * KIB;
	for (int i = 0; i < 100; i++)
		CHECK_EQ(gmp_spawn(&one, nothing, NULL, &a), -EAGAIN);
	drain(g, n);
	CHECK_EQ(gmp_spawn(&one, nothing, NULL, &a), 0);
	join(one);
}

TEST_PROCS(spawn_refused_by_max_green_takes_no_stack_memory)
{
	gmp_config c = with_stack_memory(procs, 4 * 1024 * KIB);

	c.max_green = 10;
	CHECK_EQ(gmp_run(spawn_beyond_max_green, NULL, &c), 0);
}

static void look_up_at_the_limit(UNUSED void *arg)
{
	struct addrinfo *a = NULL;
	gmp_g *g[64];
	int n = fill(g, 64, NULL);

	for (int i = 0; i < 10; i++) /* more calls than lookups are allowed at a time */
		CHECK_EQ(gmp_getaddrinfo("localhost", "80", NULL, &a), EAI_AGAIN);
	CHECK_EQ(gmp_dial("tcp", "LOCALHOST:1"), -EAGAIN); /* by a lookup */
	drain(g, n);
	if (gmp_getaddrinfo("localhost", "80", NULL, &a) == 0)
		freeaddrinfo(a);
}

TEST_PROCS(lookup_at_max_green_returns_eai_again_then_recovers)
{
	gmp_config c = with_stack_memory(procs, 0);

	c.max_green = 10;
	c.max_threads = 8;
	CHECK_EQ(gmp_run(look_up_at_the_limit, NULL, &c), 0);
}

static void large_stacks(UNUSED void *arg)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g[64], *one;

	a.stack_size = 1024 * KIB;
	for (int round = 0; round < 3; round++) {
		int n = fill(g, 64, &a);

		CHECK(n >= 2 && n <= 3); /* the rest is set aside for default stacks */
		drain(g, n);
	}
	a.stack_size = 8192 * KIB;
	CHECK_EQ(gmp_spawn(&one, nothing, NULL, &a), -EAGAIN);
	CHECK_EQ(gmp_spawn(&one, nothing, NULL, NULL), 0);
	join(one);
}

TEST_PROCS(max_stack_memory_counts_stacks_of_all_sizes)
{
	gmp_config c = with_stack_memory(procs, 3072 * KIB + 8 * STACK);

	CHECK_EQ(gmp_run(large_stacks, NULL, &c), 0);
}

TEST(max_stack_memory_below_one_stack_fails_run)
{
	gmp_config c = with_stack_memory(1, STACK / 2);

	CHECK_EQ(gmp_run(nothing, NULL, &c), -EAGAIN);
	c.max_stack_memory = 1;
	CHECK_EQ(gmp_run(nothing, NULL, &c), -EINVAL);
	c.max_stack_memory = STACK;
	CHECK_EQ(gmp_run(nothing, NULL, &c), 0);
}

TEST(max_stack_memory_from_environment_applies)
{
	gmp_config c = with_stack_memory(2, 0);

	setenv("GMP_MAX_STACK_MEMORY", "640k", 1);
	CHECK_EQ(gmp_run(use_ten_stacks, NULL, &c), 0);
	setenv("GMP_MAX_STACK_MEMORY", "much", 1);
	CHECK_EQ(gmp_run(use_ten_stacks, NULL, &c), -EINVAL);
}

TEST_PROCS(max_stack_memory_applies_to_external_spawn)
{
	gmp_config c = with_stack_memory(procs, 10 * STACK);
	gmp_g *g[64];
	int n;

	CHECK_EQ(gmp_start(&c), 0);
	n = fill(g, 64, NULL);
	CHECK_EQ(n, 10);
	drain(g, n);
	CHECK_EQ(gmp_stop(), 0);
}

static atomic_int ended;

static void note_end(UNUSED void *arg)
{
	atomic_fetch_add(&ended, 1);
}

static void detach_a_hundred(UNUSED void *arg)
{
	for (int i = 0; i < 100; i++) {
		gmp_g *g = spawn(note_end, NULL);

		if (i % 2)
			WAIT_FOR(atomic_load(&ended) == i + 1 && stats().greens == 1);
		CHECK_EQ(gmp_detach(g), 0);
		WAIT_FOR(atomic_load(&ended) == i + 1 && stats().greens == 1);
	}
}

TEST_PROCS(detach_at_max_green_makes_room_for_next_spawn)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = procs;
	c.max_green = 10;
	CHECK_EQ(gmp_run(detach_a_hundred, NULL, &c), 0);
}

enum { MANY_TIMERS = 5000 };

static atomic_int timers_ran;

static void count_run(UNUSED void *arg)
{
	atomic_fetch_add(&timers_ran, 1);
}

static void use_many_timers(UNUSED void *arg)
{
	static gmp_timer *t[MANY_TIMERS];
	static gmp_chan *tick[MANY_TIMERS];
	gmp_group *group[20];

	atomic_store(&timers_ran, 0);
	for (int i = 0; i < MANY_TIMERS; i++) {
		t[i] = gmp_timer_new(count_run, NULL);
		tick[i] = gmp_tick_new(gmp_deadline(MS + i), 0);
		CHECK(t[i] && tick[i]);
		CHECK_EQ(gmp_timer_set(t[i], gmp_deadline(i % 7 * MS), 0), 0);
	}
	for (int i = 0; i < 20; i++)
		CHECK((group[i] = gmp_group_new(0, GMP_FOREVER)) != NULL);
	for (int i = 0; i < MANY_TIMERS; i++)
		CHECK_EQ(gmp_chan_recv(tick[i], NULL), 0);
	WAIT_FOR(atomic_load(&timers_ran) == MANY_TIMERS);
	for (int i = 0; i < MANY_TIMERS; i++) {
		gmp_timer_free(t[i]);
		gmp_tick_free(tick[i]);
	}
	for (int i = 0; i < 20; i++)
		gmp_group_free(group[i]);
}

TEST_PROCS(timers_and_ticks_beyond_max_green_work)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = procs;
	c.max_green = 10;
	CHECK_EQ(gmp_run(use_many_timers, NULL, &c), 0);
}

static atomic_int in_timer;
static int leaving;

static void stay_in_timer(UNUSED void *arg)
{
	atomic_store(&in_timer, 1);
	gmp_sleep_until(GMP_FOREVER);
}

/* The G that frees is older or younger than the timer's G: killed before it, or after it. */
static void free_timer(void *t)
{
	WAIT_FOR(atomic_load(&in_timer));
	gmp_timer_free(t);
}

static void leave_timer_free(UNUSED void *arg)
{
	gmp_timer *t = gmp_timer_new(stay_in_timer, NULL);

	CHECK(t != NULL);
	atomic_store(&in_timer, 0);
	if (++leaving % 2)
		CHECK_EQ(gmp_go(free_timer, t), 0);
	gmp_yield();
	CHECK_EQ(gmp_timer_set(t, 0, 0), 0);
	WAIT_FOR(atomic_load(&in_timer));
	if (leaving % 2 == 0)
		CHECK_EQ(gmp_go(free_timer, t), 0);
	wait_parked(2);
}

TEST_PROCS(timer_free_killed_at_shutdown_gives_place_back)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = procs;
	c.max_green = 10;
	for (int i = 0; i < 40; i++)
		CHECK_EQ(gmp_run(leave_timer_free, NULL, &c), 0);
}

static void timer_without_room(UNUSED void *arg)
{
	gmp_timer *t = gmp_timer_new(count_run, NULL);
	gmp_g *g[64];
	int n = fill(g, 64, NULL);

	CHECK(t != NULL);
	atomic_store(&timers_ran, 0);
	CHECK_EQ(gmp_timer_set(t, gmp_deadline(MS), 0), 0);
	CHECK_EQ(gmp_sleep(20 * MS), 0);
	CHECK_EQ(atomic_load(&timers_ran), 0);
	CHECK_EQ(gmp_timer_set(t, gmp_deadline(MS), 0), 1); /* it is still armed */
	CHECK_EQ(gmp_sleep(20 * MS), 0);
	drain(g, n);
	WAIT_FOR(atomic_load(&timers_ran) == 1);
	CHECK_EQ(gmp_timer_stop(t), 0);
	gmp_timer_free(t);
}

TEST_PROCS(timer_run_beyond_max_stack_memory_begins_late)
{
	gmp_config c = with_stack_memory(procs, 10 * STACK);

	CHECK_EQ(gmp_run(timer_without_room, NULL, &c), 0);
}

static gmp_config with_max_green(int procs, uint32_t n)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = procs;
	c.max_green = n;
	return c;
}

/* A stopped or freed timer leaves no deferred G, and what was saved for it can be spawned. */
static void stop_without_room(UNUSED void *arg)
{
	gmp_timer *t[8];
	gmp_g *g[64];

	atomic_store(&timers_ran, 0);
	for (int i = 0; i < 8; i++)
		CHECK((t[i] = gmp_timer_new(count_run, NULL)) != NULL);
	int n = fill(g, 64, NULL);

	for (int i = 0; i < 8; i++)
		CHECK_EQ(gmp_timer_set(t[i], 0, 0), 0);
	CHECK_EQ(gmp_sleep(5 * MS), 0);
	for (int i = 0; i < 8; i++) {
		if (i % 2)
			CHECK_EQ(gmp_timer_stop(t[i]), 1);
		gmp_timer_free(t[i]);
	}
	drain(g, n);
	CHECK_EQ(fill(g, 64, NULL), n);
	drain(g, n);
	CHECK_EQ(gmp_sleep(5 * MS), 0);
	CHECK_EQ(atomic_load(&timers_ran), 0);
}

TEST_PROCS(timer_stopped_at_max_green_is_not_deferred)
{
	gmp_config c = with_max_green(procs, 20);

	CHECK_EQ(gmp_run(timer_without_room, NULL, &c), 0);
	CHECK_EQ(gmp_run(stop_without_room, NULL, &c), 0);
}

static atomic_int spawning;

static void short_life(UNUSED void *arg)
{
	gmp_yield();
}

/* Takes each place as soon as a green thread has ended. */
static void spawn_always(UNUSED void *arg)
{
	while (atomic_load(&spawning))
		if (gmp_go(short_life, NULL) != 0)
			gmp_yield();
}

static void timers_beside_spawns(UNUSED void *arg)
{
	gmp_timer *t[8];

	atomic_store(&timers_ran, 0);
	atomic_store(&spawning, 1);
	for (int i = 0; i < 4; i++) { /* the first one may have filled all places */
		int err = gmp_go(spawn_always, NULL);

		CHECK(err == 0 || (i > 0 && err == -EAGAIN));
	}
	for (int i = 0; i < 8; i++) {
		CHECK((t[i] = gmp_timer_new(count_run, NULL)) != NULL);
		CHECK_EQ(gmp_timer_set(t[i], gmp_deadline(i * MS), 0), 0);
	}
	WAIT_FOR(atomic_load(&timers_ran) == 8);
	atomic_store(&spawning, 0);
	for (int i = 0; i < 8; i++)
		gmp_timer_free(t[i]);
}

TEST_PROCS(timer_due_at_max_green_runs_before_spawns)
{
	gmp_config c = with_max_green(procs, 20);

	CHECK_EQ(gmp_run(timers_beside_spawns, NULL, &c), 0);
}

static gmp_wg held;

static void release_held(UNUSED void *arg)
{
	gmp_wg_add(&held, -2);
}

static void wait_held(UNUSED void *arg)
{
	gmp_wg_wait(&held);
}

static void sleep_20_ms(UNUSED void *arg)
{
	CHECK_EQ(gmp_sleep(20 * MS), 0);
}

/* The timer is due after 1 ms and has no room.  After 20 ms one green thread ends, and all others
 * wait: only the timer, which has not tried again, makes them runnable. */
static void all_wait_for_deferred(UNUSED void *arg)
{
	gmp_timer *t = gmp_timer_new(release_held, NULL);

	gmp_wg_add(&held, 2);
	CHECK_EQ(gmp_go(wait_held, NULL), 0);
	CHECK_EQ(gmp_go(wait_held, NULL), 0);
	CHECK_EQ(gmp_go(sleep_20_ms, NULL), 0);
	CHECK_EQ(gmp_timer_set(t, gmp_deadline(MS), 0), 0);
	gmp_wg_wait(&held);
	gmp_timer_free(t);
}

TEST_PROCS(deferred_timer_with_room_is_no_deadlock)
{
	gmp_config c = with_max_green(procs, 4);

	for (int i = 0; i < 10; i++)
		CHECK_EQ(gmp_run(all_wait_for_deferred, NULL, &c), 0);
}

static void period_without_room(UNUSED void *arg)
{
	gmp_timer *t = gmp_timer_new(count_run, NULL);
	gmp_g *g[64];
	int n = fill(g, 64, NULL);
	uint64_t before = stats().timers_skipped;

	atomic_store(&timers_ran, 0);
	CHECK_EQ(gmp_timer_set(t, gmp_deadline(MS), MS), 0);
	WAIT_FOR(stats().timers_skipped >= before + 5);
	CHECK_EQ(atomic_load(&timers_ran), 0);
	drain(g, n);
	WAIT_FOR(atomic_load(&timers_ran) >= 2);
	gmp_timer_free(t);
}

TEST_PROCS(timer_periods_without_room_are_counted)
{
	gmp_config c = with_max_green(procs, 20);

	CHECK_EQ(gmp_run(period_without_room, NULL, &c), 0);
}

static void task(void *left)
{
	atomic_fetch_sub((atomic_int *)left, 1);
}

static void pool_without_room(UNUSED void *arg)
{
	gmp_pool *p = gmp_pool_new(0, NULL);
	atomic_int left = 0;

	CHECK(p != NULL);
	for (int i = 0; i < 200; i++) {
		int err = gmp_pool_submit(p, task, &left);

		CHECK(err == 0 || err == -EAGAIN);
		atomic_fetch_add(&left, err == 0);
	}
	WAIT_FOR(atomic_load(&left) == 0);
	CHECK_EQ(gmp_pool_release(p, gmp_deadline(PATIENCE)), 0);
	gmp_pool_free(p);
}

TEST_PROCS(pool_at_max_stack_memory_works_or_returns_eagain)
{
	gmp_config c = with_stack_memory(procs, 10 * STACK);

	CHECK_EQ(gmp_run(pool_without_room, NULL, &c), 0);
}

static void fork_refused(UNUSED void *arg)
{
	struct rlimit none = { 0, 0 };

	if (setrlimit(RLIMIT_NPROC, &none) != 0)
		_exit(50);
	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();
		int err = errno;

		CHECK_EQ(pid, -1);
		CHECK_EQ(err, EAGAIN);
		join(spawn(nothing, NULL));
		CHECK_EQ(gmp_sleep(MS), 0);
	}
}

static void run_that_forks(void)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = 1;
	if (setresuid(65534, 65534, 65534) != 0)
		_exit(50);
	CHECK_EQ(gmp_run(fork_refused, NULL, &c), 0);
	_exit(0);
}

TEST(fork_that_fails_leaves_runtime_working)
{
	if (SANITIZED || geteuid() != 0)
		check_skip("needs root, and no sanitizer's threads");
	check_skip_on_valgrind("Valgrind itself dies of a fork that is refused");
	CHECK_EQ(in_child(run_that_forks), 0);
}
