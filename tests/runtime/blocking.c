/* SPDX-License-Identifier: MIT */
/* Tests of blocking code: others run meanwhile, the green thread keeps its thread, and comes back. */
#define _GNU_SOURCE 1
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static __attribute__((noinline)) int thread_id(void)
{
	__asm__ volatile("" ::: "memory");
	return (int)syscall(SYS_gettid);
}

static void kernel_sleep(int64_t ns)
{
	struct timespec t = { ns / SEC, ns % SEC };

	while (nanosleep(&t, &t) < 0 && errno == EINTR)
		;
}

static void kernel_read(int fd)
{
	char c;

	while (read(fd, &c, 1) < 0 && errno == EINTR)
		;
}

/* --- short sections --- */

RT(a_short_section_keeps_thread_and_p)
{
	int64_t began = gmp_now();

	for (int i = 0; i < 10000; i++) {
		int here = thread_id();

		gmp_block_enter();
		CHECK(gmp_self() == NULL);
		CHECK_EQ(thread_id(), here);
		gmp_block_leave();
		CHECK(gmp_self() != NULL);
		/* it may have been taken for long by a slow machine, but the P is there for it */
		CHECK(thread_id() == here || stats().handoffs > 0 || gmp_now() > began + 10 * MS);
		if (i % 100 == 0)
			gmp_yield();
	}
}

static atomic_int over, woken;

static void one_section_after_the_other(void *arg)
{
	int64_t ns = *(int64_t *)arg;

	while (!atomic_load(&over)) {
		for (int64_t till = gmp_now() - ns; ns < 0 && gmp_now() < till;)
			; /* it computes between two sections */
		gmp_block_enter();
		if (ns > 0)
			kernel_sleep(ns);
		gmp_block_leave();
	}
}

static void sleep_a_little(UNUSED void *arg)
{
	for (int i = 0; i < 5; i++) {
		CHECK_EQ(gmp_sleep(100 * US), 0);
		atomic_fetch_add(&woken, 1);
	}
}

RT(who_goes_from_one_short_section_to_the_next_keeps_no_p_for_long)
{
	static const int64_t lengths[] = { 0, 5 * US, 700 * US, -300 * US };

	for (int i = 0; i < 4; i++) {
		gmp_g *g[5];

		atomic_store(&over, 0);
		atomic_store(&woken, 0);
		for (int k = 0; k < 5; k++)
			g[k] = k ? spawn(one_section_after_the_other,
					 (void *)(uintptr_t)&lengths[i])
				 : spawn(sleep_a_little, NULL);
		join(g[0]);
		CHECK_EQ(atomic_load(&woken), 5);
		atomic_store(&over, 1);
		for (int k = 1; k < 5; k++)
			join(g[k]);
	}
}

static void short_sections(UNUSED void *arg)
{
	uint64_t before = stats().handoffs, lengthy = 0;
	int64_t end = gmp_deadline(100 * MS), began, now;

	for (now = gmp_now(); now < end; lengthy += now - began >= 9 * MS) {
		began = now;
		gmp_block_enter();
		while (gmp_now() < began + 20 * US)
			;
		gmp_block_leave();
		now = gmp_now();
	}
	/* of those that this machine has made long each may have cost the P */
	CHECK(stats().handoffs - before <= lengthy);
}

/* One P is idle, so that this one is not wanted. */
TEST(many_short_sections_are_not_taken_for_a_long_one)
{
	run_procs(2, short_sections, NULL);
}

RT(sections_nest)
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
	gmp_block_leave(); /* nothing */
	CHECK(gmp_self() != NULL);
	gmp_yield();
}

static int answer(void)
{
	CHECK(gmp_self() == NULL);
	return 42;
}

static int answered;

static const struct with_array {
	char array[8];
} * has_array(void)
{
	static const struct with_array w = { "array" };

	answered++;
	return &w;
}

static void nothing_at_all(void)
{
	CHECK(gmp_self() == NULL);
	answered++;
}

RT(the_macros_give_the_value_of_the_expression)
{
	char c;

	CHECK_EQ(gmp_blocking(answer()), 42);
	CHECK(gmp_blocking((char *)NULL) == NULL);
	const char *array = gmp_blocking(has_array()->array), *literal = gmp_blocking("literal");

	CHECK_EQ(strcmp(array, "array"), 0);
	CHECK_EQ(strcmp(literal, "literal"), 0);
	gmp_blocking(nothing_at_all());
	CHECK_EQ(answered, 2);
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

/* The compiler may keep the address of errno from before the yield, which is another thread's after it. */
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

TEST(without_a_runtime_and_on_foreign_threads_nothing_happens)
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

static atomic_int turns_had, go_on;

static void count_turns(UNUSED void *arg)
{
	while (!atomic_load(&go_on)) {
		atomic_fetch_add(&turns_had, 1);
		gmp_yield();
	}
}

static int ends[2];

static void read_from_pipe(void *arg)
{
	gmp_block_enter();
	atomic_fetch_add((atomic_int *)arg, 1);
	kernel_read(ends[0]);
	gmp_block_leave();
	CHECK(gmp_self() != NULL);
	atomic_fetch_sub((atomic_int *)arg, 1);
}

/* All Ps are kept by threads that sleep in the kernel, and will until somebody else has run. */
RT(others_run_while_all_ps_were_blocked)
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
	WAIT_FOR(stats().procs_idle + 1 ==
		 (uint64_t)procs); /* the others have stopped looking for work */
	for (int i = 0; i < N; i++)
		CHECK_EQ(write(ends[1], "x", 1), 1);
	for (int i = 0; i < N; i++)
		join(g[i]);
	CHECK_EQ(atomic_load(&inside), 0);
	CHECK_EQ(stats().greens_blocked, 0);
	close(ends[0]);
	close(ends[1]);
}

/* They come back only when this one, whom the timer wakes, has written. */
RT(a_timer_fires_while_its_p_is_blocked)
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

static void sleep_there(void *arg)
{
	gmp_block_enter();
	kernel_sleep((int64_t)(intptr_t)arg);
	gmp_block_leave();
}

static void run_inside(void *arg)
{
	gmp_chan *c = arg;
	int v;

	gmp_block_enter();
	/* as a foreign thread: this sleeps in the kernel, and is woken */
	CHECK_EQ(gmp_chan_recv(c, &v), 0);
	CHECK_EQ(v, 1);
	v++;
	CHECK_EQ(gmp_chan_send(c, &v), 0);
	CHECK_EQ(gmp_sleep(10 * US), 0);
	gmp_block_leave();
}

RT(calls_inside_behave_as_on_a_foreign_thread)
{
	gmp_chan *c = gmp_chan_new(sizeof(int), 0);
	gmp_g *g = spawn(run_inside, c);
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
		kernel_sleep(12 * MS);
		gmp_block_leave();
		CHECK_EQ(thread_id(), here);
		gmp_yield();
		CHECK_EQ(thread_id(), here);
	}
	CHECK_EQ(gmp_unlock_thread(), 0);
}

RT(one_that_is_locked_to_its_thread_comes_back_to_it)
{
	gmp_g *g[3], *busy = spawn(count_turns, NULL);

	atomic_store(&go_on, 0);
	for (int i = 0; i < 3; i++)
		g[i] = spawn(locked_and_blocked, NULL);
	for (int i = 0; i < 3; i++)
		join(g[i]);
	atomic_store(&go_on, 1);
	join(busy);
}

static void short_ones(void *arg)
{
	for (int i = 0; i < (SLOW ? 100 : 500); i++) {
		gmp_block_enter();
		if (i % 50 == (int)(intptr_t)arg)
			kernel_sleep(MS);
		gmp_block_leave();
		if (i % 7 == 0)
			gmp_yield();
	}
}

RT(ps_come_and_go_while_sections_last)
{
	enum { N = 8 };
	gmp_g *g[N];

	for (intptr_t i = 0; i < N; i++)
		g[i] = spawn(short_ones, (void *)i);
	for (int i = 0; i < (SLOW ? 30 : 200); i++) {
		CHECK(gmp_set_procs(1 + i % 4) > 0);
		gmp_sleep(50 * US);
	}
	for (int i = 0; i < N; i++)
		join(g[i]);
	CHECK(gmp_set_procs(procs) > 0);
	WAIT_FOR(stats().greens_blocked == 0);
}

/* --- sections of a length that is known --- */

static __attribute__((noinline)) void known_section(int64_t ns, void (*look)(void))
{
	gmp_block_enter();
	if (look)
		look();
	kernel_sleep(ns);
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

static void long_after_long(UNUSED void *arg)
{
	enum { TIMES = 100, ENOUGH_OF_THEM = 90 };
	int at_once = 0;

	for (int i = 0; i < 100; i++)
		known_section(200 * US, NULL);
	for (int i = 0; i < TIMES; i++) {
		gmp_g *g = spawn(nothing, NULL);
		uint64_t before = stats().handoffs;

		known_section(200 * US, count_handoffs);
		at_once += handed_off > before;
		join(g);
	}
	/* a slow machine may have run it before */
	CHECK(at_once >= ENOUGH_OF_THEM);
}

/* sysmon would need 20 us. */
TEST(section_known_as_long_hands_off_its_p_at_entry)
{
	run_procs(1, long_after_long, NULL);
}

enum { CROWD = 16, SECTIONS_EACH = 200 };

static void crowd_of_sections(UNUSED void *arg)
{
	for (int i = 0; i < SECTIONS_EACH; i++)
		known_section(100 * US, NULL);
}

/* An M that comes back takes the P of a section that has begun meanwhile: no G is queued for it.  Another
 * part only if this machine was slow. */
RT(sections_of_100us_in_a_crowd_return_without_a_switch)
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

static atomic_int late_turns;

static void sleep_often(UNUSED void *arg)
{
	for (int i = 0; i < 20; i++) {
		int64_t due = gmp_deadline(MS);

		CHECK_EQ(gmp_sleep_until(due), 0);
		if (gmp_now() - due > 15 * MS)
			atomic_fetch_add(&late_turns, 1);
	}
}

/* Neither side waits for the other: a timer that is due takes a P from sections known as long. */
RT(timers_fire_beside_sections_known_as_long)
{
	gmp_g *g[8], *sleeper;

	atomic_store(&over, 0);
	static const int64_t length = 300 * US;
	for (int i = 0; i < 8; i++)
		g[i] = spawn(one_section_after_the_other, (void *)(uintptr_t)&length);
	sleeper = spawn(sleep_often, NULL);
	join(sleeper);
	atomic_store(&over, 1);
	for (int i = 0; i < 8; i++)
		join(g[i]);
	CHECK(atomic_load(&late_turns) <= 10);
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

		known_section(30 * US, NULL);
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

/* handoff.h HO4.  Beside threads that compute a wakeup takes long, so most hand-offs are overtaken. */
RT(queued_work_starts_soon_beside_sections_on_a_busy_machine)
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

/* --- bounds, and the end --- */

static void eight_at_most(UNUSED void *arg)
{
	enum { N = 40 };
	gmp_g *g[N];

	for (int i = 0; i < N; i++)
		g[i] = spawn(sleep_there, (void *)(intptr_t)(15 * MS));
	for (int i = 0; i < N; i++) {
		CHECK(stats().threads <= 8);
		join(g[i]);
	}
}

TEST(beyond_max_threads_they_wait_their_turn)
{
	run_bounded(2, 8, eight_at_most, NULL);
}

static void one_at_a_time(UNUSED void *arg)
{
	gmp_g *g[5];

	for (int i = 0; i < 5; i++)
		g[i] = spawn(sleep_there, (void *)(intptr_t)(15 * MS));
	for (int i = 0; i < 5; i++)
		join(g[i]);
}

TEST(with_one_thread_in_all_they_do_it_one_after_the_other)
{
	run_bounded(1, 1, one_at_a_time, NULL);
}

static atomic_int came_back;

static void sleep_past_the_end(UNUSED void *arg)
{
	gmp_block_enter();
	atomic_fetch_add(&go_on, 1);
	kernel_sleep(50 * MS);
	atomic_fetch_add(&came_back, 1);
	gmp_block_leave();
	for (;;)
		gmp_yield(); /* it is dropped here */
}

static void leave_behind(UNUSED void *arg)
{
	atomic_store(&go_on, 0);
	atomic_store(&came_back, 0);
	for (int i = 0; i < 6; i++)
		CHECK_EQ(gmp_go(sleep_past_the_end, NULL), 0);
	WAIT_FOR(atomic_load(&go_on) == 6);
}

TEST_PROCS(the_end_of_a_run_waits_for_blocking_code)
{
	run_procs(procs, leave_behind, NULL);
	CHECK_EQ(atomic_load(&came_back), 6);
}

/* Its thread is counted by nobody else, and nothing else can run: yet this is no deadlock. */
static void only_one(UNUSED void *arg)
{
	gmp_wg wg = GMP_WG_INIT;

	gmp_wg_add(&wg, 1);
	gmp_block_enter();
	kernel_sleep(1500 * MS);
	gmp_block_leave();
	gmp_wg_done(&wg);
	CHECK_EQ(gmp_wg_wait(&wg), 0);
}

TEST_PROCS(somebody_in_blocking_code_is_no_deadlock)
{
	run_procs(procs, only_one, NULL);
}

static void done_later(void *arg)
{
	gmp_block_enter();
	kernel_sleep(1200 * MS);
	gmp_block_leave();
	gmp_wg_done(arg);
}

static void wait_for_blocked(UNUSED void *arg)
{
	gmp_wg wg = GMP_WG_INIT;

	gmp_wg_add(&wg, 1);
	CHECK_EQ(gmp_go(done_later, &wg), 0);
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

/* The watcher takes Ps while the run ends, and makes no thread for them that nobody joins: a sanitizer
 * would tell. */
TEST_PROCS(ps_are_taken_while_the_run_ends)
{
	for (int i = 0; i < 30; i++)
		run_procs(procs, block_all, NULL);
}

TEST_PROCS(who_waits_for_one_in_blocking_code_is_no_deadlock)
{
	run_procs(procs, wait_for_blocked, NULL);
}

/* --- without saying so --- */

static void read_undeclared(void *arg)
{
	atomic_fetch_add((atomic_int *)arg, 1);
	kernel_read(ends[0]);
	atomic_fetch_sub((atomic_int *)arg, 1);
}

RT(others_run_though_every_thread_sleeps_in_undeclared_calls)
{
	atomic_int inside = 0;
	gmp_g *g[8];

	for (int round = 0; round < 3; round++) {
		CHECK_EQ(pipe(ends), 0);
		for (int i = 0; i < procs; i++)
			g[i] = spawn(read_undeclared, &inside);
		WAIT_FOR(atomic_load(&inside) == procs); /* not before there is one more P */
		CHECK(stats().spares >= (uint64_t)round + 1);
		CHECK_EQ(stats().procs_spare, 1);
		CHECK_EQ(gmp_procs(), procs);
		for (int i = 0; i < procs; i++)
			CHECK_EQ(write(ends[1], "x", 1), 1);
		for (int i = 0; i < procs; i++)
			join(g[i]);
		WAIT_FOR(stats().procs_spare == 0);
		close(ends[0]);
		close(ends[1]);
	}
	CHECK_EQ(atomic_load(&inside), 0);
}

static void read_twice(void *arg)
{
	read_undeclared(arg);
	read_undeclared(arg);
}

/* The spare one gets stuck, too. */
RT(there_are_as_many_spare_ps_as_it_takes)
{
	enum { MORE = 3 };
	atomic_int inside = 0;
	gmp_g *g[8];
	int n = procs + MORE;

	CHECK_EQ(pipe(ends), 0);
	for (int i = 0; i < n; i++)
		g[i] = spawn(i % 2 ? read_undeclared : read_twice, &inside);
	WAIT_FOR(atomic_load(&inside) == n);
	CHECK(stats().spares >= MORE + 1);
	for (int i = 0; i < n + n; i++)
		CHECK_EQ(write(ends[1], "x", 1), 1);
	for (int i = 0; i < n; i++)
		join(g[i]);
	WAIT_FOR(stats().procs_spare == 0);
	close(ends[0]);
	close(ends[1]);
}

static void compute(void *arg)
{
	while (!atomic_load((atomic_int *)arg))
		;
}

static void end_computation(void *arg)
{
	kernel_sleep(100 * MS);
	atomic_store((atomic_int *)arg, 1);
}

/* They run: it is the program's wish that nobody else does. */
RT(those_that_compute_get_no_spare_p)
{
	atomic_int stop = 0;
	struct ext_thread f;
	gmp_g *g[4];

	for (int i = 0; i < procs; i++)
		g[i] = spawn(compute, &stop);
	ext_thread_start(&f, end_computation, &stop);
	gmp_yield();
	for (int i = 0; i < procs; i++)
		join(g[i]);
	ext_thread_join(&f);
	CHECK_EQ(stats().spares, 0);
}

/* --- sections as long as a look at the disk, one after the other --- */

enum { MILLISECONDS = 4000, ENOUGH = 100, PARTS = 4 };

static atomic_int sections;

static void sleep_a_millisecond_often(void *arg)
{
	uint64_t before = *(uint64_t *)arg;
	struct timespec t = { 0, 1000000 };

	while (atomic_fetch_add(&sections, 1) < MILLISECONDS && stats().handoffs - before < ENOUGH)
		gmp_blocking(nanosleep(&t, NULL));
}

/* Another part only after one without any: the watcher may have had no CPU for seconds. */
RT(sections_of_a_millisecond_do_not_stand_in_line)
{
	uint64_t those = 0;

	for (int part = 0; part < PARTS && those == 0; part++) {
		uint64_t before = stats().handoffs;
		gmp_g *g[16];

		atomic_store(&sections, 0);
		for (int i = 0; i < 16; i++)
			g[i] = spawn(sleep_a_millisecond_often, &before);
		for (int i = 0; i < 16; i++)
			join(g[i]);
		those = stats().handoffs - before;
	}
	CHECK(those >= ENOUGH);
}
