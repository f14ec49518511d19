/* SPDX-License-Identifier: MIT */
/* Tests virtual time: the clock jumps if, and only if, no G can run. */
#include <time.h>

#include "io/io_util.h"

#define HOUR (3600 * SEC)

static int64_t machine_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * SEC + t.tv_nsec;
}

static void kernel_sleep(int64_t ns)
{
	struct timespec t = { ns / SEC, ns % SEC };

	nanosleep(&t, NULL);
}

static void run_virtual(int procs, gmp_fn fn, void *arg)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = procs;
	c.flags = GMP_VIRTUAL_TIME;
	CHECK_EQ(gmp_run(fn, arg, &c), 0);
}

/* Like RT of util.h, in virtual time. */
#define VT(name)                                                                                   \
	static void name##_app(void *arg);                                                         \
	TEST_PROCS(name)                                                                           \
	{                                                                                          \
		run_virtual(procs, name##_app, &procs);                                            \
	}                                                                                          \
	static void name##_app(UNUSED void *arg)

VT(virtual_time_sleep_of_an_hour_is_exact)
{
	int64_t machine = machine_now(), began = gmp_now();

	for (int i = 1; i <= 100; i++) {
		CHECK_EQ(gmp_sleep(HOUR), 0);
		CHECK_EQ(gmp_now() - began, i * HOUR);
	}
	CHECK(machine_now() - machine < PATIENCE);
}

VT(virtual_time_is_stopped_while_green_thread_runs)
{
	int64_t began = gmp_now();

	kernel_sleep(20 * MS);
	for (int i = 0; i < 1000; i++)
		gmp_yield();
	CHECK_EQ(gmp_now(), began);
	CHECK_EQ(gmp_deadline(5), began + 5);
}

struct sleepers {
	atomic_int order;
	gmp_wg done;
};

struct sleeper {
	struct sleepers *all;
	int64_t ns;
	int place;
};

static void sleep_one(void *arg)
{
	struct sleeper *s = arg;
	int64_t began = gmp_now();

	CHECK_EQ(gmp_sleep(s->ns), 0);
	CHECK_EQ(gmp_now() - began, s->ns);
	s->place = atomic_fetch_add(&s->all->order, 1);
	gmp_wg_done(&s->all->done);
}

VT(virtual_time_sleepers_wake_in_order_of_deadlines)
{
	enum { N = 200 };
	static struct sleeper s[N];
	struct sleepers all = { 0 };

	gmp_wg_add(&all.done, N);
	for (int i = 0; i < N; i++) {
		s[i] = (struct sleeper){ &all, (i * 7919 % N + 1) * SEC, 0 };
		CHECK_EQ(gmp_go(sleep_one, &s[i]), 0);
	}
	CHECK_EQ(gmp_wg_wait(&all.done), 0);
	for (int i = 0; i < N; i++)
		CHECK_EQ(s[i].place, s[i].ns / SEC - 1);
}

VT(virtual_time_deadlines_are_exact)
{
	gmp_chan *c = gmp_chan_new(sizeof(int), 0);
	gmp_mutex m = GMP_MUTEX_INIT;
	gmp_case cases[] = { GMP_RECV_CASE(c, NULL), GMP_SEND_CASE(NULL, NULL) };
	int64_t began = gmp_now();

	gmp_mutex_lock(&m);
	CHECK_EQ(gmp_chan_recv_until(c, NULL, gmp_deadline(HOUR)), -ETIMEDOUT);
	CHECK_EQ(gmp_now() - began, HOUR);
	CHECK_EQ(gmp_select_until(cases, 2, gmp_deadline(HOUR)), -ETIMEDOUT);
	CHECK_EQ(gmp_now() - began, 2 * HOUR);
	CHECK_EQ(gmp_mutex_lock_until(&m, gmp_deadline(HOUR)), -ETIMEDOUT);
	CHECK_EQ(gmp_now() - began, 3 * HOUR);
	gmp_mutex_unlock(&m);
	gmp_chan_free(c);
}

struct answer {
	gmp_chan *c;
	int64_t after;
};

static void answer(void *arg)
{
	struct answer *a = arg;

	CHECK_EQ(gmp_sleep(a->after), 0);
	CHECK_EQ(gmp_chan_send(a->c, &a->after), 0);
}

VT(virtual_time_event_1_ns_before_deadline_wins)
{
	struct answer a = { gmp_chan_new(sizeof(int64_t), 0), 0 };
	int64_t got;

	for (int i = 0; i < 50; i++) {
		a.after = HOUR - 1;
		gmp_g *g = spawn(answer, &a);

		CHECK_EQ(gmp_chan_recv_until(a.c, &got, gmp_deadline(HOUR)), 0);
		join(g);
		a.after = HOUR + 1;
		g = spawn(answer, &a);
		CHECK_EQ(gmp_chan_recv_until(a.c, &got, gmp_deadline(HOUR)), -ETIMEDOUT);
		CHECK_EQ(gmp_chan_recv(a.c, &got), 0);
		join(g);
	}
	gmp_chan_free(a.c);
}

static void count(void *arg)
{
	atomic_fetch_add((atomic_int *)arg, 1);
}

VT(virtual_time_ticks_and_timers_miss_no_period)
{
	gmp_chan *tick = gmp_tick_new(gmp_deadline(60 * SEC), 60 * SEC);
	atomic_int runs = 0;
	gmp_timer *t = gmp_timer_new(count, &runs);
	int64_t began = gmp_now(), at;

	CHECK_EQ(gmp_timer_set(t, gmp_deadline(SEC), SEC), 0);
	for (int i = 1; i <= 60; i++) {
		CHECK_EQ(gmp_chan_recv(tick, &at), 0);
		CHECK_EQ(at - began, i * 60 * SEC);
		CHECK_EQ(gmp_now(), at);
	}
	CHECK_EQ(gmp_sleep(SEC / 2), 0);
	CHECK_EQ(atomic_load(&runs), 3600);
	gmp_timer_free(t);
	gmp_tick_free(tick);
}

static void jump_to_clock_end(UNUSED void *arg)
{
	gmp_chan *tick = gmp_tick_new(gmp_deadline(SEC), INT64_MAX);
	atomic_int runs = 0;
	gmp_timer *t = gmp_timer_new(count, &runs);
	int64_t began = gmp_now(), at;

	CHECK_EQ(gmp_timer_set(t, gmp_deadline(SEC), INT64_MAX - 10), 0);
	CHECK_EQ(gmp_sleep(HOUR), 0);
	CHECK_EQ(gmp_chan_recv(tick, &at), 0);
	CHECK_EQ(at, began + SEC);
	CHECK_EQ(gmp_sleep_until(GMP_FOREVER - 1), 0);
	CHECK_EQ(gmp_now(), GMP_FOREVER - 1);
	CHECK_EQ(atomic_load(&runs), 1);
	CHECK_EQ(gmp_chan_try_recv(tick, &at), -EAGAIN);
	gmp_timer_free(t);
	gmp_tick_free(tick);
}

/* One P, so that the timers are in the heap of the sleeper's P. */
TEST(virtual_time_period_beyond_clock_end_never_comes)
{
	run_virtual(1, jump_to_clock_end, NULL);
}

VT(virtual_time_past_timer_runs_without_jump)
{
	atomic_int runs = 0;
	gmp_timer *t = gmp_timer_new(count, &runs);
	int64_t began = gmp_now();

	CHECK_EQ(gmp_timer_set(t, began - HOUR, 0), 0);
	WAIT_FOR(atomic_load(&runs) == 1);
	CHECK_EQ(gmp_now(), began);
	gmp_timer_free(t);
}

static void sleep_in_kernel(void *arg)
{
	int64_t before = gmp_now();

	gmp_block_enter();
	kernel_sleep(30 * MS);
	gmp_block_leave();
	*(int64_t *)arg = gmp_now() - before;
}

VT(virtual_time_does_not_jump_during_blocking_code)
{
	int64_t passed = -1, machine = machine_now(), began = gmp_now();
	gmp_g *g = spawn(sleep_in_kernel, &passed);

	CHECK_EQ(gmp_join_until(g, gmp_deadline(HOUR)), 0);
	CHECK(passed >= 0 && gmp_now() - began <= machine_now() - machine);
}

static void write_later(void *arg)
{
	int fd = *(int *)arg;

	gmp_block_enter();
	kernel_sleep(30 * MS);
	gmp_block_leave();
	CHECK_EQ(gmp_write_all(fd, "x", 1), 1);
}

VT(virtual_time_is_real_time_while_g_waits_for_fd)
{
	int64_t machine, began;
	int p[2];
	char b;

	CHECK_EQ(pipe(p), 0);
	CHECK_EQ(gmp_fd_adopt(p[0]), p[0]);
	CHECK_EQ(gmp_fd_adopt(p[1]), p[1]);
	CHECK_EQ(gmp_fd_set_deadline(p[0], GMP_READ, gmp_deadline(20 * MS)), 0);
	machine = machine_now();
	began = gmp_now();
	CHECK_EQ(gmp_read(p[0], &b, 1), -ETIMEDOUT);
	CHECK_EQ(gmp_now() - began, 20 * MS);
	CHECK(machine_now() - machine >= 20 * MS);

	CHECK_EQ(gmp_fd_set_deadline(p[0], GMP_READ, gmp_deadline(HOUR)), 0);
	gmp_g *g = spawn(write_later, &p[1]);

	CHECK_EQ(gmp_read(p[0], &b, 1), 1);
	join(g);
	CHECK(gmp_now() - began <= machine_now() - machine);
	CHECK_EQ(gmp_close(p[0]), 0);
	CHECK_EQ(gmp_close(p[1]), 0);
}

static void write_one(void *arg)
{
	CHECK_EQ(gmp_write_all(*(int *)arg, "x", 1), 1);
}

static void set_to_past(void *t)
{
	WAIT_FOR(stats().threads_idle == stats().threads);
	CHECK_EQ(gmp_timer_set(t, gmp_now() - HOUR, 0), 0);
}

VT(virtual_time_past_timer_does_not_turn_clock_back)
{
	struct ext_thread f;
	int p[2];
	char b;

	CHECK_EQ(pipe(p), 0);
	CHECK_EQ(gmp_fd_adopt(p[0]), p[0]);
	CHECK_EQ(gmp_fd_adopt(p[1]), p[1]);
	CHECK_EQ(gmp_fd_set_deadline(p[0], GMP_READ, gmp_deadline(HOUR)), 0);
	gmp_timer *t = gmp_timer_new(write_one, &p[1]);
	int64_t began = gmp_now();

	ext_thread_start(&f, set_to_past, t);
	CHECK_EQ(gmp_read(p[0], &b, 1), 1);
	CHECK(gmp_now() >= began);
	ext_thread_join(&f);
	gmp_timer_free(t);
	CHECK_EQ(gmp_close(p[0]), 0);
	CHECK_EQ(gmp_close(p[1]), 0);
}

static void wait_externally(void *arg)
{
	gmp_chan *c = arg;
	int v = 7;

	CHECK_EQ(gmp_sleep(MS), 0);
	CHECK_EQ(gmp_chan_recv_until(c, NULL, gmp_deadline(5 * MS)), -ETIMEDOUT);
	CHECK_EQ(gmp_chan_send_until(c, &v, gmp_deadline(PATIENCE)), 0);
}

VT(virtual_time_external_threads_wait_in_real_time)
{
	gmp_chan *c = gmp_chan_new(sizeof(int), 0);
	struct ext_thread f;
	int64_t began = gmp_now();
	int v;

	ext_thread_start(&f, wait_externally, c);
	kernel_sleep(20 * MS);
	CHECK_EQ(gmp_chan_recv(c, &v), 0);
	CHECK_EQ(v, 7);
	ext_thread_join(&f);
	CHECK_EQ(gmp_now(), began);
	gmp_chan_free(c);
}

/* A mutex held for a virtual second is handed over to its starved waiter. */
static atomic_int was_locked;

static void lock_it(void *arg)
{
	gmp_mutex_lock(arg);
	atomic_store(&was_locked, 1);
	gmp_mutex_unlock(arg);
}

VT(virtual_time_counts_for_mutex_handover)
{
	gmp_mutex m = GMP_MUTEX_INIT;
	int64_t began = gmp_now();

	gmp_mutex_lock(&m);
	gmp_g *g = spawn(lock_it, &m);

	CHECK_EQ(gmp_sleep(SEC), 0);
	gmp_mutex_unlock(&m);
	/* the waiter comes first */
	CHECK(gmp_mutex_try_lock(&m) == -EAGAIN || atomic_load(&was_locked));
	join(g);
	CHECK_EQ(gmp_now() - began, SEC);
}

static void lose_race_once(UNUSED void *arg)
{
	gmp_mutex m = GMP_MUTEX_INIT;

	gmp_mutex_lock(&m);
	gmp_g *g = spawn(lock_it, &m);

	CHECK_EQ(gmp_sleep(6 * MS / 10), 0);
	gmp_mutex_unlock(&m);
	/* The waiter is not starved yet: it is only woken, and comes too late. */
	CHECK_EQ(gmp_mutex_try_lock(&m), 0);
	CHECK_EQ(gmp_sleep(6 * MS / 10), 0);
	gmp_mutex_unlock(&m);
	CHECK_EQ(gmp_mutex_try_lock(&m), -EAGAIN);
	join(g);
}

TEST(virtual_time_woken_mutex_waiter_keeps_wait_time)
{
	run_virtual(1, lose_race_once, NULL);
}

static void resize(void *arg)
{
	gmp_wg *w = arg;
	int64_t began = gmp_now();

	for (int i = 1; i <= 100; i++) {
		CHECK(gmp_set_procs(1 + i % 4) > 0);
		CHECK_EQ(gmp_sleep(HOUR), 0);
		CHECK_EQ(gmp_now() - began, i * HOUR);
	}
	gmp_wg_done(w);
}

VT(virtual_time_jumps_during_set_procs)
{
	gmp_wg w = GMP_WG_INIT;

	gmp_wg_add(&w, 2);
	CHECK_EQ(gmp_go(resize, &w), 0);
	CHECK_EQ(gmp_go(resize, &w), 0);
	CHECK_EQ(gmp_wg_wait(&w), 0);
}

static void note_time(void *arg)
{
	*(int64_t *)arg = gmp_now();
}

TEST(virtual_time_starts_equal_in_each_run)
{
	int64_t first = 0, second = 0, before = gmp_now();
	FOR_PROCS(n) {
		run_virtual(n, note_time, &first);
		run_virtual(n, note_time, &second);
		CHECK_EQ(first, second);
	}
	run_procs(1, note_time, &second);
	CHECK(second >= before);
	CHECK(gmp_now() >= second);
}

TEST(virtual_time_is_enabled_by_environment)
{
	int64_t first = 0, second = 0;

	CHECK_EQ(setenv("GMP_DEBUG", "virtual", 1), 0);
	run_procs(2, note_time, &first);
	unsetenv("GMP_DEBUG");
	run_virtual(2, note_time, &second);
	CHECK_EQ(first, second);
}

static void answer_external_caller(void *arg)
{
	answer(arg);
}

TEST_PROCS(virtual_time_in_started_runtime_jumps)
{
	struct answer a = { gmp_chan_new(sizeof(int64_t), 0), HOUR };
	gmp_config c = GMP_CONFIG_INIT;
	int64_t machine = machine_now(), got;

	c.procs = procs;
	c.flags = GMP_VIRTUAL_TIME;
	CHECK_EQ(gmp_start(&c), 0);
	CHECK_EQ(gmp_go(answer_external_caller, &a), 0);
	CHECK_EQ(gmp_chan_recv(a.c, &got), 0);
	CHECK_EQ(gmp_stop(), 0);
	CHECK(machine_now() - machine < PATIENCE);
	gmp_chan_free(a.c);
}
