/* SPDX-License-Identifier: MIT */
/*
 * Tests blocking sections: the P is handed off to other Gs, the G keeps its OS thread, and it gets
 * a P again when the section ends. Its cases compare times: each needs a CPU.
 */
#define _GNU_SOURCE 1
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static __attribute__((noinline)) int thread_id(void)
{
	__asm__ volatile("" ::: "memory");
	return (int)syscall(SYS_gettid);
}

static void sleep_in_kernel(int64_t ns)
{
	struct timespec t = { ns / SEC, ns % SEC };

	while (nanosleep(&t, &t) < 0 && errno == EINTR)
		;
}

static void read_in_kernel(int fd)
{
	char c;

	while (read(fd, &c, 1) < 0 && errno == EINTR)
		;
}

/* --- short sections --- */

RT(block_short_section_keeps_thread_and_p)
{
	gmp_yield(); /* the first G leaves the thread that called gmp_run */
	int64_t began = gmp_now();

	for (int i = 0; i < 10000; i++) {
		int here = thread_id();

		gmp_block_enter();
		CHECK(gmp_self() == NULL);
		CHECK_EQ(thread_id(), here);
		gmp_block_leave();
		CHECK(gmp_self() != NULL);
		/* a slow machine may make a section long enough for a handoff, or a preemption */
		CHECK(thread_id() == here || stats().handoffs > 0 || stats().preemptions > 0 ||
		      gmp_now() > began + 10 * MS);
		if (i % 100 == 0)
			gmp_yield();
	}
}

static atomic_int over, woken;

static void repeat_sections(void *arg)
{
	int64_t ns = *(int64_t *)arg;

	while (!atomic_load(&over)) {
		for (int64_t till = gmp_now() - ns; ns < 0 && gmp_now() < till;)
			; /* compute between two sections */
		gmp_block_enter();
		if (ns > 0)
			sleep_in_kernel(ns);
		gmp_block_leave();
	}
}

static void sleep_five_times(UNUSED void *arg)
{
	for (int i = 0; i < 5; i++) {
		CHECK_EQ(gmp_sleep(100 * US), 0);
		atomic_fetch_add(&woken, 1);
	}
}

RT(block_repeated_short_sections_do_not_starve_sleeper)
{
	static const int64_t lengths[] = { 0, 5 * US, 700 * US, -300 * US };

	for (int i = 0; i < 4; i++) {
		gmp_g *g[5];

		atomic_store(&over, 0);
		atomic_store(&woken, 0);
		for (int k = 0; k < 5; k++)
			g[k] = k ? spawn(repeat_sections, (void *)(uintptr_t)&lengths[i])
				 : spawn(sleep_five_times, NULL);
		join(g[0]);
		CHECK_EQ(atomic_load(&woken), 5);
		atomic_store(&over, 1);
		for (int k = 1; k < 5; k++)
			join(g[k]);
	}
}

/* Returns false if the other P was not idle all the time, or if a slow machine made a section long:
 * either may cost the P. */
static bool short_sections_undisturbed(void)
{
	gmp_stats before = stats(), after;
	int64_t longest = 0;

	for (int i = 0; i < 100; i++) {
		int64_t began = gmp_now();

		gmp_block_enter();
		while (gmp_now() < began + 20 * US)
			;
		gmp_block_leave();
		int64_t took = gmp_now() - began;

		longest = took > longest ? took : longest;
	}
	after = stats();
	if (before.procs_idle != 1 || after.procs_idle != 1 || after.parks != before.parks ||
	    after.preemptions != before.preemptions || longest >= 9 * MS)
		return false;
	CHECK_EQ(after.handoffs, before.handoffs);
	return true;
}

static void short_sections(UNUSED void *arg)
{
	int64_t limit = gmp_deadline(PATIENCE);

	for (int undisturbed = 0; undisturbed < 30; undisturbed += short_sections_undisturbed())
		CHECK(gmp_now() < limit);
}

/* One P is idle, so no other G needs the P of the sections. */
TEST(block_short_sections_beside_idle_p_are_not_handed_off)
{
	run_procs(2, short_sections, NULL);
}

RT(block_nested_sections_end_at_outermost_leave)
{
	gmp_block_enter();
	gmp_block_enter();
	gmp_block_leave();
	CHECK(gmp_self() == NULL);
	gmp_block_enter();
	gmp_block_leave();
	CHECK(gmp_self() == NULL);
	gmp_block_leave();
	CHECK(gmp_self() != NULL);
	gmp_block_leave(); /* does nothing */
	CHECK(gmp_self() != NULL);
	gmp_yield();
}

static int return_42(void)
{
	CHECK(gmp_self() == NULL);
	return 42;
}

static int calls_made;

static const struct with_array {
	char array[8];
} * has_array(void)
{
	static const struct with_array w = { "array" };

	calls_made++;
	return &w;
}

static void return_nothing(void)
{
	CHECK(gmp_self() == NULL);
	calls_made++;
}

RT(blocking_macros_return_value_of_expression)
{
	char c;

	CHECK_EQ(gmp_blocking(return_42()), 42);
	CHECK(gmp_blocking((char *)NULL) == NULL);
	const char *array = gmp_blocking(has_array()->array), *literal = gmp_blocking("literal");

	CHECK_EQ(strcmp(array, "array"), 0);
	CHECK_EQ(strcmp(literal, "literal"), 0);
	gmp_blocking(return_nothing());
	CHECK_EQ(calls_made, 2);
	CHECK_EQ(gmp_blocking_sys(read(-1, &c, 1)), -EBADF);
	CHECK_EQ(gmp_blocking_sys(open("/nowhere/at/all", O_RDONLY)), -ENOENT);
	CHECK_EQ(gmp_blocking_sys(getppid()), getppid());
	CHECK(gmp_self() != NULL);
}

static atomic_int errno_tested;

static void set_errno_often(void *left)
{
	while (!atomic_load(&errno_tested)) {
		*gmp_errno_here() = 1000;
		gmp_yield();
	}
	gmp_wg_done(left);
}

/*
 * The compiler may cache the address of errno across the yield, after which it belongs to another
 * OS thread.
 */
RT(blocking_sys_after_thread_change_returns_own_error)
{
	gmp_wg left = GMP_WG_INIT;

	gmp_wg_add(&left, 4);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(gmp_go(set_errno_often, &left), 0);
	for (int i = 0; i < (int)check_scaled(20000); i++) {
		errno = 0;
		gmp_yield();
		CHECK_EQ(gmp_blocking_sys(close(-1)), -EBADF);
	}
	atomic_store(&errno_tested, 1);
	CHECK_EQ(gmp_wg_wait(&left), 0);
}

TEST(block_on_external_thread_does_nothing)
{
	gmp_block_enter();
	gmp_block_leave();
	gmp_block_leave();
	CHECK_EQ(gmp_blocking(7), 7);
	CHECK_EQ(gmp_start(NULL), 0);
	gmp_block_enter();
	CHECK_EQ(gmp_stop(), 0);
	gmp_block_leave();
}

/* --- long sections --- */

static atomic_int yields, go_on;

static void count_yields(UNUSED void *arg)
{
	while (!atomic_load(&go_on)) {
		atomic_fetch_add(&yields, 1);
		gmp_yield();
	}
}

static int ends[2];

static void read_from_pipe(void *arg)
{
	gmp_block_enter();
	atomic_fetch_add((atomic_int *)arg, 1);
	read_in_kernel(ends[0]);
	gmp_block_leave();
	CHECK(gmp_self() != NULL);
	atomic_fetch_sub((atomic_int *)arg, 1);
}

/* All Ps are held by OS threads that sleep in the kernel until another G has written. */
RT(block_on_all_ps_hands_ps_to_other_gs)
{
	enum { N = 20 };
	atomic_int inside = 0;
	gmp_g *g[N];

	CHECK_EQ(pipe(ends), 0);
	for (int i = 0; i < N; i++)
		g[i] = spawn(read_from_pipe, &inside);
	WAIT_FOR(atomic_load(&inside) == N);
	CHECK(stats().handoffs >= (uint64_t)(N - procs));
	WAIT_FOR(stats().greens_blocked == N);
	WAIT_FOR(stats().procs_idle + 1 == (uint64_t)procs); /* the other Ms do not spin any more */
	for (int i = 0; i < N; i++)
		CHECK_EQ(write(ends[1], "x", 1), 1);
	for (int i = 0; i < N; i++)
		join(g[i]);
	CHECK_EQ(atomic_load(&inside), 0);
	CHECK_EQ(stats().greens_blocked, 0);
	close(ends[0]);
	close(ends[1]);
}

/* The readers return only after the sleeper, which a timer wakes, has written. */
RT(block_on_all_ps_lets_timer_fire)
{
	atomic_int inside = 0;
	gmp_g *g[4];

	CHECK_EQ(pipe(ends), 0);
	for (int i = 0; i < procs; i++)
		g[i] = spawn(read_from_pipe, &inside);
	CHECK_EQ(gmp_sleep(5 * MS), 0);
	for (int i = 0; i < procs; i++)
		CHECK_EQ(write(ends[1], "x", 1), 1);
	for (int i = 0; i < procs; i++)
		join(g[i]);
	close(ends[0]);
	close(ends[1]);
}

static void sleep_in_section(void *arg)
{
	gmp_block_enter();
	sleep_in_kernel((int64_t)(intptr_t)arg);
	gmp_block_leave();
}

static void call_gmp_in_section(void *arg)
{
	gmp_chan *c = arg;
	int v;

	gmp_block_enter();
	/* as on an external thread: the wait sleeps in the kernel */
	CHECK_EQ(gmp_chan_recv(c, &v), 0);
	CHECK_EQ(v, 1);
	v++;
	CHECK_EQ(gmp_chan_send(c, &v), 0);
	CHECK_EQ(gmp_sleep(10 * US), 0);
	gmp_block_leave();
}

RT(block_inside_gmp_calls_act_as_on_external_thread)
{
	gmp_chan *c = gmp_chan_new(sizeof(int), 0);
	gmp_g *g = spawn(call_gmp_in_section, c);
	int v = 1;

	CHECK_EQ(gmp_chan_send(c, &v), 0);
	CHECK_EQ(gmp_chan_recv(c, &v), 0);
	CHECK_EQ(v, 2);
	join(g);
	gmp_chan_free(c);
}

static void locked_and_blocked(UNUSED void *arg)
{
	int here;

	CHECK_EQ(gmp_lock_thread(), 0);
	here = thread_id();
	for (int i = 0; i < 5; i++) {
		gmp_block_enter();
		sleep_in_kernel(12 * MS);
		gmp_block_leave();
		CHECK_EQ(thread_id(), here);
		gmp_yield();
		CHECK_EQ(thread_id(), here);
	}
	CHECK_EQ(gmp_unlock_thread(), 0);
}

RT(block_leave_of_locked_green_thread_keeps_its_thread)
{
	gmp_g *g[3], *busy = spawn(count_yields, NULL);

	atomic_store(&go_on, 0);
	for (int i = 0; i < 3; i++)
		g[i] = spawn(locked_and_blocked, NULL);
	for (int i = 0; i < 3; i++)
		join(g[i]);
	atomic_store(&go_on, 1);
	join(busy);
}

static void run_short_sections(void *arg)
{
	for (int i = 0; i < (SLOW ? 100 : 500); i++) {
		gmp_block_enter();
		if (i % 50 == (int)(intptr_t)arg)
			sleep_in_kernel(MS);
		gmp_block_leave();
		if (i % 7 == 0)
			gmp_yield();
	}
}

RT(block_sections_survive_set_procs)
{
	enum { N = 8 };
	gmp_g *g[N];

	for (intptr_t i = 0; i < N; i++)
		g[i] = spawn(run_short_sections, (void *)i);
	for (int i = 0; i < (SLOW ? 30 : 200); i++) {
		CHECK(gmp_set_procs(1 + i % 4) > 0);
		gmp_sleep(50 * US);
	}
	for (int i = 0; i < N; i++)
		join(g[i]);
	CHECK(gmp_set_procs(procs) > 0);
	WAIT_FOR(stats().greens_blocked == 0);
}

/* --- sections whose length is predicted --- */

static __attribute__((noinline)) void run_section(int64_t ns, void (*in_section)(void))
{
	gmp_block_enter();
	if (in_section)
		in_section();
	sleep_in_kernel(ns);
	gmp_block_leave();
}

static uint64_t handed_off;

static void count_handoffs(void)
{
	handed_off = stats().handoffs;
}

static void nothing(UNUSED void *arg)
{
}

static void repeat_long_sections(UNUSED void *arg)
{
	enum { TIMES = 100, AT_ENTRY_LEAST = 90 };
	int handed_off_at_entry = 0;

	for (int i = 0; i < 100; i++)
		run_section(200 * US, NULL);
	for (int i = 0; i < TIMES; i++) {
		gmp_g *g = spawn(nothing, NULL);
		uint64_t before = stats().handoffs;

		run_section(200 * US, count_handoffs);
		handed_off_at_entry += handed_off > before;
		join(g);
	}
	/* on a slow machine g may run before the section begins */
	CHECK(handed_off_at_entry >= AT_ENTRY_LEAST);
}

/* sysmon would take the P only after 20 us. */
TEST(block_predicted_long_section_hands_off_p_at_entry)
{
	run_procs(1, repeat_long_sections, NULL);
}

enum { CROWD = 16, SECTIONS_EACH = 200 };

static atomic_int handed_at_once;

/* A call of its own: no other test makes it known. */
static void first_section(UNUSED void *arg)
{
	uint64_t before = stats().handoffs;

	gmp_block_enter();
	if (stats().handoffs > before)
		atomic_fetch_add(&handed_at_once, 1);
	sleep_in_kernel(100 * MS);
	gmp_block_leave();
}

static void crowd_of_first_sections(UNUSED void *arg)
{
	gmp_g *g[CROWD];

	for (int i = 0; i < CROWD; i++)
		g[i] = spawn(first_section, NULL);
	for (int i = 0; i < CROWD; i++)
		join(g[i]);
}

/*
 * Each section begins before the first has ended.  The last has no work to hand off.  Without the
 * hand-off each would wait for sysmon.
 */
TEST(block_unknown_call_with_work_hands_off_p_at_entry)
{
	atomic_store(&handed_at_once, 0);
	run_procs(1, crowd_of_first_sections, NULL);
	CHECK(atomic_load(&handed_at_once) >= CROWD - 4);
}

static void crowd_of_sections(UNUSED void *arg)
{
	for (int i = 0; i < SECTIONS_EACH; i++)
		run_section(100 * US, NULL);
}

/*
 * An M that leaves a section takes the P of a section that has begun meanwhile, so its G is not
 * queued. Repeated only if this machine was slow.
 */
RT(block_100us_sections_in_crowd_return_without_switch)
{
	uint64_t switches = UINT64_MAX;

	for (int part = 0; part < 8 && switches > CROWD * SECTIONS_EACH / 4; part++) {
		uint64_t before = stats().switches;
		gmp_g *g[CROWD];

		for (int i = 0; i < CROWD; i++)
			g[i] = spawn(crowd_of_sections, NULL);
		for (int i = 0; i < CROWD; i++)
			join(g[i]);
		switches = stats().switches - before;
	}
	CHECK(switches <= CROWD * SECTIONS_EACH / 4);
}

static atomic_int late_wakeups;

static void sleep_often(UNUSED void *arg)
{
	for (int i = 0; i < 20; i++) {
		int64_t due = gmp_deadline(MS);

		CHECK_EQ(gmp_sleep_until(due), 0);
		if (gmp_now() - due > 15 * MS)
			atomic_fetch_add(&late_wakeups, 1);
	}
}

/* An expired timer takes a P from sections that are predicted to be long. */
RT(block_predicted_long_sections_do_not_delay_timers)
{
	gmp_g *g[8], *sleeper;

	atomic_store(&over, 0);
	static const int64_t length = 300 * US;
	for (int i = 0; i < 8; i++)
		g[i] = spawn(repeat_sections, (void *)(uintptr_t)&length);
	sleeper = spawn(sleep_often, NULL);
	join(sleeper);
	atomic_store(&over, 1);
	for (int i = 0; i < 8; i++)
		join(g[i]);
	CHECK(atomic_load(&late_wakeups) <= 10);
}

enum { LAG_MOST = 4 * CROWD };

static atomic_int sections_done, late_starts, computing;

static void count_late_start(void *before)
{
	if (atomic_load(&sections_done) - (int)(intptr_t)before > LAG_MOST)
		atomic_fetch_add(&late_starts, 1);
}

static void spawn_and_block(UNUSED void *arg)
{
	for (int i = 0; i < SECTIONS_EACH; i++) {
		gmp_g *g = spawn(count_late_start, (void *)(intptr_t)atomic_load(&sections_done));

		run_section(30 * US, NULL);
		atomic_fetch_add(&sections_done, 1);
		join(g);
	}
}

static void *burn(UNUSED void *arg)
{
	while (atomic_load(&computing))
		;
	return NULL;
}

/*
 * HANDOFF-4. Beside OS threads that compute, a wakeup is slow, so a returning M takes most
 * Ps that were handed off.
 */
RT(block_sections_on_busy_machine_do_not_starve_runnable_gs)
{
	gmp_g *g[CROWD];
	pthread_t load[2];

	atomic_store(&sections_done, 0);
	atomic_store(&late_starts, 0);
	atomic_store(&computing, 1);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&load[i], NULL, burn, NULL), 0);
	for (int i = 0; i < CROWD; i++)
		g[i] = spawn(spawn_and_block, NULL);
	for (int i = 0; i < CROWD; i++)
		join(g[i]);
	atomic_store(&computing, 0);
	for (int i = 0; i < 2; i++)
		pthread_join(load[i], NULL);
	CHECK(atomic_load(&late_starts) <= CROWD * SECTIONS_EACH / 10);
}

/* --- limits and shutdown --- */

static void check_thread_limit(UNUSED void *arg)
{
	enum { N = 40 };
	gmp_g *g[N];

	for (int i = 0; i < N; i++)
		g[i] = spawn(sleep_in_section, (void *)(intptr_t)(15 * MS));
	for (int i = 0; i < N; i++) {
		CHECK(stats().threads <= 8);
		join(g[i]);
	}
}

TEST(block_beyond_max_threads_waits_for_a_thread)
{
	run_bounded(2, 8, check_thread_limit, NULL);
}

static void run_five_sections(UNUSED void *arg)
{
	gmp_g *g[5];

	for (int i = 0; i < 5; i++)
		g[i] = spawn(sleep_in_section, (void *)(intptr_t)(15 * MS));
	for (int i = 0; i < 5; i++)
		join(g[i]);
}

TEST(block_with_max_threads_1_runs_sections_in_turn)
{
	run_bounded(1, 1, run_five_sections, NULL);
}

static atomic_int left_section;

static void block_past_shutdown(UNUSED void *arg)
{
	gmp_block_enter();
	atomic_fetch_add(&go_on, 1);
	sleep_in_kernel(50 * MS);
	atomic_fetch_add(&left_section, 1);
	gmp_block_leave();
	for (;;)
		gmp_yield(); /* killed here at shutdown */
}

static void leave_blocked(UNUSED void *arg)
{
	atomic_store(&go_on, 0);
	atomic_store(&left_section, 0);
	for (int i = 0; i < 6; i++)
		CHECK_EQ(gmp_go(block_past_shutdown, NULL), 0);
	WAIT_FOR(atomic_load(&go_on) == 6);
}

TEST_PROCS(shutdown_waits_for_blocking_sections)
{
	run_procs(procs, leave_blocked, NULL);
	CHECK_EQ(atomic_load(&left_section), 6);
}

/* The only G is in a blocking section and no other can run: this is no deadlock. */
static void block_then_wait(UNUSED void *arg)
{
	gmp_wg wg = GMP_WG_INIT;

	gmp_wg_add(&wg, 1);
	gmp_block_enter();
	sleep_in_kernel(1500 * MS);
	gmp_block_leave();
	gmp_wg_done(&wg);
	CHECK_EQ(gmp_wg_wait(&wg), 0);
}

TEST_PROCS(deadlock_is_not_reported_during_blocking_section)
{
	run_procs(procs, block_then_wait, NULL);
}

static void block_then_done(void *arg)
{
	gmp_block_enter();
	sleep_in_kernel(1200 * MS);
	gmp_block_leave();
	gmp_wg_done(arg);
}

static void wait_for_blocked(UNUSED void *arg)
{
	gmp_wg wg = GMP_WG_INIT;

	gmp_wg_add(&wg, 1);
	CHECK_EQ(gmp_go(block_then_done, &wg), 0);
	CHECK_EQ(gmp_wg_wait(&wg), 0);
}

static void block_for_a_while(UNUSED void *arg)
{
	CHECK_EQ(gmp_blocking(usleep(12000)), 0);
}

static void block_all(UNUSED void *arg)
{
	for (int i = 0; i < 8; i++)
		CHECK_EQ(gmp_go(block_for_a_while, NULL), 0);
	gmp_sleep(5 * MS);
}

/*
 * sysmon takes Ps during shutdown. It must not create an M for them that is not joined, which a
 * sanitizer would report as a leak.
 */
TEST_PROCS(shutdown_during_handoff_leaks_no_thread)
{
	for (int i = 0; i < 30; i++)
		run_procs(procs, block_all, NULL);
}

TEST_PROCS(deadlock_is_not_reported_for_waiter_on_blocked_g)
{
	run_procs(procs, wait_for_blocked, NULL);
}

/* --- sections as long as a disk access --- */

enum { MILLISECONDS = 4000, HANDOFFS_LEAST = 100, PARTS = 4 };

static atomic_int sections;

static void sleep_a_millisecond_often(void *arg)
{
	uint64_t before = *(uint64_t *)arg;
	struct timespec t = { 0, 1000000 };

	while (atomic_fetch_add(&sections, 1) < MILLISECONDS &&
	       stats().handoffs - before < HANDOFFS_LEAST)
		gmp_blocking(nanosleep(&t, NULL));
}

/* Repeated only after a part without handoffs: sysmon may have had no CPU for seconds. */
RT(block_1ms_sections_run_in_parallel)
{
	uint64_t handoffs_seen = 0;

	for (int part = 0; part < PARTS && handoffs_seen == 0; part++) {
		uint64_t before = stats().handoffs;
		gmp_g *g[16];

		atomic_store(&sections, 0);
		for (int i = 0; i < 16; i++)
			g[i] = spawn(sleep_a_millisecond_often, &before);
		for (int i = 0; i < 16; i++)
			join(g[i]);
		handoffs_seen = stats().handoffs - before;
	}
	CHECK(handoffs_seen >= HANDOFFS_LEAST);
}
