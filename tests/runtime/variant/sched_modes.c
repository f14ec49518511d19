/* SPDX-License-Identifier: MIT */
/* Tests that every scheduler mode (enum gmp_sched) runs the same programs, each in its order. */
#define _GNU_SOURCE 1
#include "util.h"

static gmp_sched mode;

static void run_mode(int procs, gmp_sched how, gmp_fn fn, void *arg)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	mode = how;
	cfg.procs = procs;
	cfg.sched = (int)how;
	CHECK_EQ(gmp_run(fn, arg, &cfg), 0);
}

/* A case at 1, 2 and 4 Ps for each mode; the body runs on the first green thread. */
#define MODES(name)                                                                                \
	static void name##_body(void *arg);                                                        \
	MODE(name, runnext, GMP_SCHED_RUNNEXT)                                                     \
	MODE(name, local, GMP_SCHED_LOCAL)                                                         \
	MODE(name, global, GMP_SCHED_GLOBAL)                                                       \
	MODE(name, thread, GMP_SCHED_THREAD)                                                       \
	static void name##_body(UNUSED void *arg)
#define MODE(name, word, how)                                                                      \
	TEST_PROCS(name##_##word)                                                                  \
	{                                                                                          \
		run_mode(procs, how, name##_body, NULL);                                           \
	}

static gmp_chan *make_ints(size_t capacity)
{
	gmp_chan *c = gmp_chan_new(sizeof(int), capacity);

	CHECK(c != NULL);
	return c;
}

/* --- ping-pong --- */

struct pair {
	gmp_chan *there, *back;
	int rounds;
};

static void echo(void *arg)
{
	struct pair *p = arg;

	for (int v; gmp_chan_recv(p->there, &v) == 0;)
		CHECK_EQ(gmp_chan_send(p->back, &v), 0);
}

MODES(sched_ping_pong_passes_messages)
{
	struct pair p = { make_ints(0), make_ints(0), (int)check_scaled(2000) };
	gmp_g *g = spawn(echo, &p);

	for (int i = 0, v; i < p.rounds; i++) {
		CHECK_EQ(gmp_chan_send(p.there, &i), 0);
		CHECK_EQ(gmp_chan_recv(p.back, &v), 0);
		CHECK_EQ(v, i);
	}
	CHECK_EQ(gmp_chan_close(p.there), 0);
	join(g);
	gmp_chan_free(p.there);
	gmp_chan_free(p.back);
}

/* --- a growing chain of channels --- */

enum { PRIMES = 30 };

struct link {
	gmp_chan *in, *out;
	int prime;
};

static void count_up(void *arg)
{
	for (int i = 2; gmp_chan_send(arg, &i) == 0; i++)
		;
}

static void sift(void *arg)
{
	struct link *l = arg;

	for (int v; gmp_chan_recv(l->in, &v) == 0;)
		if (v % l->prime && gmp_chan_send(l->out, &v))
			break;
}

MODES(sched_sieve_finds_primes_and_is_killed_at_shutdown)
{
	static struct link links[PRIMES];
	gmp_chan *c = make_ints(0);

	CHECK_EQ(gmp_go(count_up, c), 0);
	for (int i = 0; i < PRIMES; i++) {
		links[i] = (struct link){ c, make_ints(0), 0 };
		CHECK_EQ(gmp_chan_recv(c, &links[i].prime), 0);
		CHECK_EQ(gmp_go(sift, &links[i]), 0);
		c = links[i].out;
	}
	CHECK_EQ(links[PRIMES - 1].prime, 113);
}

/* --- many at once --- */

static _Atomic int sum;
static gmp_wg all;
static gmp_mutex mutex;
static int guarded;

static void add_and_yield(UNUSED void *arg)
{
	for (int i = 0; i < 5; i++) {
		gmp_yield();
		atomic_fetch_add(&sum, 1);
		CHECK_EQ(gmp_mutex_lock(&mutex), 0);
		guarded++;
		CHECK_EQ(gmp_mutex_unlock(&mutex), 0);
	}
	CHECK_EQ(gmp_wg_done(&all), 0);
}

MODES(sched_many_green_threads_all_run)
{
	int n = (int)check_scaled(600);

	CHECK_EQ(gmp_wg_add(&all, n), 0);
	for (int i = 0; i < n; i++)
		CHECK_EQ(gmp_go(add_and_yield, NULL), 0);
	CHECK_EQ(gmp_wg_wait(&all), 0);
	CHECK_EQ(sum, 5 * n);
	CHECK_EQ(guarded, 5 * n);
}

/* --- time, select, blocking code --- */

static void sleep_a_little(UNUSED void *arg)
{
	CHECK_EQ(gmp_sleep(MS), 0);
	atomic_fetch_add(&sum, 1);
	CHECK_EQ(gmp_wg_done(&all), 0);
}

MODES(sched_sleep_and_select_work)
{
	gmp_chan *never = make_ints(0), *full = make_ints(1);
	int v = 7, got = 0;
	gmp_case cs[] = { GMP_RECV_CASE(never, &got), GMP_RECV_CASE(full, &got) };

	CHECK_EQ(gmp_wg_add(&all, 20), 0);
	for (int i = 0; i < 20; i++)
		CHECK_EQ(gmp_go(sleep_a_little, NULL), 0);
	CHECK_EQ(gmp_wg_wait(&all), 0);
	CHECK_EQ(sum, 20);
	CHECK_EQ(gmp_chan_send(full, &v), 0);
	CHECK_EQ(gmp_select(cs, 2), 1);
	CHECK_EQ(got, 7);
	CHECK_EQ(gmp_select_until(cs, 1, gmp_deadline(MS)), -ETIMEDOUT);
	gmp_chan_free(never);
	gmp_chan_free(full);
}

static void compute(void *arg)
{
	while (!atomic_load((_Atomic int *)arg))
		;
}

static void set_flag(void *arg)
{
	atomic_store((_Atomic int *)arg, 1);
}

/* The other P, idle until then, runs the G that waits behind the computing G. */
static void compute_and_set(UNUSED void *arg)
{
	_Atomic int done = 0;
	gmp_g *a = spawn(compute, (void *)&done), *b = spawn(set_flag, (void *)&done);

	gmp_yield();
	join(a);
	join(b);
}

TEST(sched_computing_g_does_not_starve_others)
{
	run_mode(2, GMP_SCHED_RUNNEXT, compute_and_set, NULL);
	run_mode(2, GMP_SCHED_LOCAL, compute_and_set, NULL);
	run_mode(2, GMP_SCHED_GLOBAL, compute_and_set, NULL);
	run_mode(2, GMP_SCHED_THREAD, compute_and_set, NULL);
}

/* --- shutdown --- */

static void wait_forever(void *arg)
{
	(void)gmp_chan_recv(arg, NULL);
	CHECK(0 && "a killed green thread ran again");
}

static void yield_forever(UNUSED void *arg)
{
	for (;;)
		gmp_yield();
}

static gmp_chan *kept;

static void leave_gs(UNUSED void *arg)
{
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(gmp_go(wait_forever, kept), 0);
		CHECK_EQ(gmp_go(yield_forever, NULL), 0);
	}
	gmp_yield();
}

/* The runs leave no thread, and their channel stays usable. */
static void shut_down_twice(int procs, gmp_sched how)
{
	int threads = count_threads(), v = 3;

	kept = make_ints(1);
	run_mode(procs, how, leave_gs, NULL);
	run_mode(procs, how, leave_gs, NULL);
	WAIT_FOR(count_threads() == threads); /* the kernel lists a joined thread for a moment */
	CHECK_EQ(gmp_chan_try_send(kept, &v), 0);
	CHECK_EQ(gmp_chan_len(kept), 1);
	gmp_chan_free(kept);
}

#define END(word, how)                                                                             \
	TEST_PROCS(sched_shutdown_kills_remaining_gs_##word)                                       \
	{                                                                                          \
		shut_down_twice(procs, how);                                                       \
	}
END(runnext, GMP_SCHED_RUNNEXT)
END(local, GMP_SCHED_LOCAL)
END(global, GMP_SCHED_GLOBAL)
END(thread, GMP_SCHED_THREAD)

/* --- order --- */

static int order[8], norder;

static void note(void *arg)
{
	order[norder++] = *(int *)arg;
}

static void spawn_four(UNUSED void *arg)
{
	static int ids[] = { 0, 1, 2, 3 };
	gmp_g *g[4];

	norder = 0;
	for (int i = 0; i < 4; i++)
		g[i] = spawn(note, &ids[i]);
	for (int i = 0; i < 4; i++)
		join(g[i]);
}

static void check_order(gmp_sched how, int first)
{
	run_mode(1, how, spawn_four, NULL);
	CHECK_EQ(norder, 4);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(order[i], (first + i) % 4);
}

TEST(sched_runnext_alone_runs_last_spawned_first)
{
	check_order(GMP_SCHED_RUNNEXT, 3);
	check_order(GMP_SCHED_LOCAL, 0);
	check_order(GMP_SCHED_GLOBAL, 0);
}

TEST(sched_from_environment_and_bad_value_is_einval)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.procs = 1;
	setenv("GMP_SCHED", "global", 1);
	CHECK_EQ(gmp_run(spawn_four, NULL, &cfg), 0);
	CHECK_EQ(order[0], 0);
	setenv("GMP_SCHED", "runnext", 1);
	CHECK_EQ(gmp_run(spawn_four, NULL, &cfg), 0);
	CHECK_EQ(order[0], 3);
	setenv("GMP_SCHED", "Global", 1);
	CHECK_EQ(gmp_run(spawn_four, NULL, &cfg), -EINVAL);
	cfg.sched = -1;
	CHECK_EQ(gmp_run(spawn_four, NULL, &cfg), -EINVAL);
}
