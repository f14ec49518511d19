/* SPDX-License-Identifier: MIT */
/*
 * Tests preemption: while a G computes, others run, and the G itself observes nothing of it. Its
 * statistics, and how it is configured. Its cases compare times: each needs a CPU.
 */
#define _GNU_SOURCE 1
#include "preempt_util.h"

#include <fcntl.h>

/* --- a G that computes --- */

struct loop {
	uint64_t seed;
};

static void check_loop(void *arg)
{
	struct loop *l = arg;
	uint64_t x = l->seed;
	struct place here = place_mark((unsigned)l->seed);
	int rounds = 0;

	for (int64_t end = compute_end(); cpu_ns() < end; rounds++)
		x = crunch(x, 100000);
	place_check(&here);
	CHECK(x == crunch_at_once(l->seed, 100000 * (uint64_t)rounds));
}

RT(computing_g_on_each_p_keeps_thread_and_state_while_others_run)
{
	struct loop loops[PROCS_MOST] = { { 1 }, { 2 }, { 3 }, { 4 } };

	run_hogs(procs, check_loop, loops, sizeof(loops[0]));
	CHECK(stats().preemptions > 0);
}

/* Floating point and vectors: sums of a table that each G fills by itself. */
static void check_sums(void *arg)
{
	int64_t end = compute_end();
	double table[64], first = 0;

	for (int i = 0; i < 64; i++)
		table[i] = 1.0 / (i + 1 + *(int *)arg);
	for (long n = 0; cpu_ns() < end; n++) {
		double sum = 0;

		for (int k = 0; k < 1000; k++)
			for (int i = 0; i < 64; i++)
				sum += table[i] * k;
		if (n == 0)
			first = sum;
		CHECK(sum == first);
	}
}

RT(computing_g_keeps_floating_point_registers)
{
	int args[PROCS_MOST] = { 1, 2, 3, 4 };

	run_hogs(procs, check_sums, args, sizeof(args[0]));
	CHECK(stats().preemptions > 0);
}

static void compute_enough(UNUSED void *arg)
{
	for (int64_t end = compute_end(); cpu_ns() < end;)
		crunch(1, 100000);
}

static void fill_stack(int depth, unsigned char value)
{
	unsigned char frame[512];

	memset(frame, value, sizeof(frame));
	__asm__ volatile("" : : "r"(frame) : "memory");
	if (depth > 0)
		fill_stack(depth - 1, (unsigned char)(value + 1));
	else
		compute_enough(NULL);
	for (size_t i = 0; i < sizeof(frame); i++)
		CHECK_EQ(frame[i], value);
}

static void check_deep_stack(void *arg)
{
	fill_stack(100, (unsigned char)*(int *)arg);
}

RT(computing_g_keeps_deep_stack)
{
	int args[PROCS_MOST] = { 10, 20, 30, 40 };

	run_hogs(procs, check_deep_stack, args, sizeof(args[0]));
	CHECK(stats().preemptions > 0);
}

static atomic_int ran;

static void count_run(UNUSED void *arg)
{
	atomic_fetch_add(&ran, 1);
}

/* It computes until the Gs queued behind it have run, so without preemption it never ends. */
static void compute_until_children_ran(UNUSED void *arg)
{
	int before = atomic_load(&ran);
	struct place here;

	for (int i = 0; i < 10; i++)
		CHECK_EQ(gmp_go(count_run, NULL), 0);
	here = place_mark(77);
	COMPUTE_UNTIL(atomic_load(&ran) - before >= 10);
	place_check(&here);
}

RT(gs_queued_behind_computing_g_run)
{
	need_preemption();
	run_gs(compute_until_children_ran, NULL, 0, procs);
	WAIT_FOR(atomic_load(&ran) == 10 * procs); /* those of all computing Gs */
}

static atomic_int sleepers_left;

static void sleep_five_times(UNUSED void *arg)
{
	for (int i = 0; i < 5; i++)
		CHECK_EQ(gmp_sleep(MS), 0);
	atomic_fetch_sub(&sleepers_left, 1);
}

static void compute_until_sleepers_end(UNUSED void *arg)
{
	COMPUTE_UNTIL(atomic_load(&sleepers_left) == 0);
}

RT(sleeping_gs_wake_beside_computing_gs)
{
	gmp_g *g[50];

	need_preemption();
	atomic_store(&sleepers_left, 50);
	for (int i = 0; i < 50; i++)
		g[i] = spawn(sleep_five_times, NULL);
	run_gs(compute_until_sleepers_end, NULL, 0, procs);
	for (int i = 0; i < 50; i++)
		join(g[i]);
}

static int ends[2];
static atomic_int was_read;

static void read_pipe(UNUSED void *arg)
{
	char c;

	CHECK_EQ(gmp_read(ends[0], &c, 1), 1);
	atomic_store(&was_read, 1);
}

/* The event of an fd, of which the poller must notify a G. */
static void compute_until_read(void *first)
{
	if (*(int *)first)
		CHECK_EQ(write(ends[1], "x", 1), 1);
	COMPUTE_UNTIL(atomic_load(&was_read));
}

RT(fd_events_arrive_beside_computing_gs)
{
	int args[PROCS_MOST] = { 1, 0, 0, 0 };
	gmp_g *reader;

	need_preemption();
	CHECK_EQ(pipe(ends), 0);
	CHECK_EQ(gmp_fd_adopt(ends[0]), ends[0]);
	reader = spawn(read_pipe, NULL);
	wait_parked(1);
	run_gs(compute_until_read, args, sizeof(args[0]), procs);
	join(reader);
	CHECK_EQ(gmp_close(ends[0]), 0);
	close(ends[1]);
}

/* --- statistics --- */

static void compute_a_while_without_p(UNUSED void *arg)
{
	compute_until_taken();
	CHECK(stats().preempted >= 1);
	compute_for(20 * MS);
	gmp_yield(); /* with a P again */
	compute_for(MS);
}

RT(stats_count_preemptions_and_time_without_p)
{
	gmp_stats before = stats(), after;

	CHECK_EQ(before.preempted, 0);
	run_taken(procs, compute_a_while_without_p, NULL, 0);
	after = stats();
	CHECK(after.preemptions >= before.preemptions + (uint64_t)procs);
	CHECK(after.preempted_ns >= before.preempted_ns + (uint64_t)procs * 20 * MS);
	CHECK_EQ(after.preempted, 0);
}

/* --- the bound on Gs that compute without a P --- */

static atomic_int released;

static void compute_until_released(UNUSED void *arg)
{
	COMPUTE_UNTIL(atomic_load(&released));
}

/* Each P has a G that computes; all others have lost theirs. */
static void release_when_all_are_taken(void *ps)
{
	while (stats().preempted < (uint64_t)(5 * *(int *)ps))
		usleep(1000);
	atomic_store(&released, 1);
}

RT(any_number_of_gs_compute_without_p)
{
	struct ext_thread f;

	need_preemption();
	ext_thread_start(&f, release_when_all_are_taken, &procs);
	run_gs(compute_until_released, NULL, 0, 6 * procs);
	ext_thread_join(&f);
	WAIT_FOR(stats().preempted == 0);
}

/* It needs a P while all Gs that compute have one, or have lost it. */
static void sleep_and_release(void *ps)
{
	while (stats().preempted < (uint64_t)(3 * *(int *)ps))
		CHECK_EQ(gmp_sleep(MS), 0);
	CHECK_EQ(gmp_sleep(MS), 0);
	atomic_store(&released, 1);
}

RT(gs_that_compute_indefinitely_let_others_run)
{
	gmp_g *sleeper;

	need_preemption();
	sleeper = spawn(sleep_and_release, &procs);
	run_gs(compute_until_released, NULL, 0, 4 * procs);
	join(sleeper);
	WAIT_FOR(stats().preempted == 0);
}

/* --- dumps --- */

static void compute_until_dumped(void *dumped)
{
	compute_until_taken();
	COMPUTE_UNTIL(atomic_load((atomic_int *)dumped));
}

RT(dump_shows_gs_without_p)
{
	static char text[1 << 16];
	atomic_int dumped = 0;
	gmp_g *g[PROCS_MOST];
	int fds[2];
	ssize_t n;

	CHECK_EQ(pipe(fds), 0);
	CHECK(fcntl(fds[1], F_SETPIPE_SZ, 1 << 16) >= 1 << 16);
	rivals_start(procs, procs);
	for (int i = 0; i < procs; i++)
		g[i] = spawn_large(compute_until_dumped, &dumped);
	WAIT_FOR(atomic_load(&rivals.all_taken));
	CHECK_EQ(gmp_dump(fds[1]), 0);
	atomic_store(&dumped, 1);
	CHECK((n = read(fds[0], text, sizeof(text) - 1)) > 0);
	text[n] = '\0';
	CHECK(strstr(text, "hog") != NULL);
	for (int i = 0; i < procs; i++)
		join(g[i]);
	rivals_stop();
	close(fds[0]);
	close(fds[1]);
}

/* --- configuration --- */

/* As many Gs as Ps compute beside the ticker. Returns its median gap. */
static int64_t median_beside_hogs(int procs)
{
	static struct ticker t;

	ticker_start(&t, cpu_ns);
	run_gs(compute_enough, NULL, 0, procs);
	ticker_stop(&t);
	return ticker_gap(&t, 50);
}

static void run_with(gmp_config c, int procs, gmp_fn fn)
{
	c.procs = procs;
	CHECK_EQ(gmp_run(fn, &procs, &c), 0);
}

static void expect_none(void *procs)
{
	median_beside_hogs(*(int *)procs);
	CHECK_EQ(stats().preemptions, 0);
	CHECK_EQ(stats().preempted, 0);
	CHECK_EQ(stats().preempted_ns, 0);
}

static void expect_none_and_gap(void *procs)
{
	int64_t gap = median_beside_hogs(*(int *)procs);

	CHECK_EQ(stats().preemptions, 0);
	CHECK(*(int *)procs > 1 || gap >= COMPUTE_NS / 2);
}

static void only_compute(UNUSED void *arg)
{
	compute_until_taken();
}

static void expect_some(void *procs)
{
	run_taken(*(int *)procs, only_compute, NULL, 0);
}

TEST_PROCS(cooperative_flag_turns_preemption_off)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.flags = GMP_COOPERATIVE;
	run_with(c, procs, expect_none_and_gap);
}

TEST_PROCS(preempt_off_in_environment_turns_preemption_off)
{
	setenv("GMP_PREEMPT", "off", 1);
	run_with((gmp_config)GMP_CONFIG_INIT, procs, expect_none_and_gap);
	unsetenv("GMP_PREEMPT");
	need_preemption();
	run_with((gmp_config)GMP_CONFIG_INIT, procs, expect_some);
}

static int64_t cpu_of(clockid_t clock)
{
	struct timespec t;

	CHECK_EQ(clock_gettime(clock, &t), 0);
	return t.tv_sec * (1000 * MS) + t.tv_nsec;
}

static void compute_beside_sysmon(UNUSED void *procs)
{
	int64_t own = -cpu_of(CLOCK_THREAD_CPUTIME_ID), all = -cpu_of(CLOCK_PROCESS_CPUTIME_ID);

	while (own + cpu_of(CLOCK_THREAD_CPUTIME_ID) < 200 * MS)
		;
	own += cpu_of(CLOCK_THREAD_CPUTIME_ID);
	all += cpu_of(CLOCK_PROCESS_CPUTIME_ID);
	CHECK(all - own < own / 2);
}

/* Its interval follows the time slice, which must not be 0 then. */
TEST(preempt_off_leaves_sysmon_its_pauses)
{
	setenv("GMP_PREEMPT", "off", 1);
	run_with((gmp_config)GMP_CONFIG_INIT, 1, compute_beside_sysmon);
	unsetenv("GMP_PREEMPT");
}

TEST_PROCS(virtual_time_has_no_preemption)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.flags = GMP_VIRTUAL_TIME;
	run_with(c, procs, expect_none);
}

TEST_PROCS(thread_scheduler_has_no_preemption)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.sched = GMP_SCHED_THREAD;
	run_with(c, procs, expect_none);
}

TEST_PROCS(other_scheduler_modes_preempt)
{
	gmp_config c = GMP_CONFIG_INIT;

	need_preemption();
	c.sched = GMP_SCHED_LOCAL;
	run_with(c, procs, expect_some);
	c.sched = GMP_SCHED_GLOBAL;
	run_with(c, procs, expect_some);
}

/* A slice of 10 s is longer than the computation, one of 2 ms is not. */
TEST_PROCS(time_slice_of_config_decides_about_preemption)
{
	gmp_config c = GMP_CONFIG_INIT;

	need_preemption();
	c.preempt_ns = 10 * SEC;
	run_with(c, procs, expect_none);
	c.preempt_ns = 2 * MS;
	run_with(c, procs, expect_some);
}

TEST_PROCS(time_slice_of_environment_decides_about_preemption)
{
	need_preemption();
	setenv("GMP_PREEMPT", "10s", 1);
	run_with((gmp_config)GMP_CONFIG_INIT, procs, expect_none);
	setenv("GMP_PREEMPT", "2ms", 1);
	run_with((gmp_config)GMP_CONFIG_INIT, procs, expect_some);
}

TEST(bad_time_slice_returns_einval)
{
	static const char *const bad[] = { "on", "-1", "10 ms", "1h1", "x" };
	int one = 1;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		setenv("GMP_PREEMPT", bad[i], 1);
		CHECK_EQ(gmp_run(expect_none, &one, NULL), -EINVAL);
	}
}
