/* SPDX-License-Identifier: MIT */
/*
 * Tests that the constants of base/policy.def are trade-offs, not conditions of correctness: with
 * half and with twice of each, a mixed load ends with the right results, and no G starves.
 *
 * The load: Gs that yield, spawn and join, exchange messages, meet at barriers (so the event lane
 * is never empty), lock a mutex, sleep, wait for a pipe and for an external thread, are in blocking
 * code, compute without a checkpoint, and overflow a ring.  An OS thread of the test judges them,
 * so that a fault of the scheduler cannot stop it.
 *
 * The floors that use the table are compiled with variables in place of the constants
 * (GMP_POLICY_TUNABLE).  floors 0..6
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "base/policy.h"
#include "rt.h"

#define POLICY(name, ...) int name;
#include "base/policy.def"
#undef POLICY

enum {
#define POLICY(name, ...) OF_##name,
#include "base/policy.def"
#undef POLICY
	CONSTANTS
};

/* Set all constants, the number `which` to `times` / 2 of its value, and at least to 1.  The values
 * that derive from it follow. */
static void set_policy(int which, int times)
{
#define POLICY(name, value, ...)                                                                   \
	name = (int)(value);                                                                       \
	if (which == OF_##name)                                                                    \
		name = times > 2 ? name * (times / 2) : max_of(name / 2, 1);
#include "base/policy.def"
#undef POLICY
}

/* --- the load --- */

enum { SHORTEST = 30, LONGEST = 20000 }; /* ms of a run */

/* What a kind of G has done: each of its Gs must have made some progress. */
enum kind { YIELD, JOIN, MESSAGE, LOCK, SLEEP, PIPE, EXTERNAL, BLOCK, COMPUTE, KINDS };

static const char *const names[KINDS] = {
	"yields",
	"joins",
	"sends messages",
	"locks",
	"sleeps",
	"waits for a pipe",
	"waits for an external thread",
	"is in blocking code",
	"computes",
};
enum { GS_OF_KIND = 3, ROUNDS = 2, BURST = 2500 };

static atomic_long done[KINDS][GS_OF_KIND];
static atomic_bool stop;
static atomic_int passed;
static gmp_wg all;
static gmp_mutex mutex;
static long locked; /* under mutex */
static gmp_sem external;
static gmp_barrier barriers[2];
static gmp_chan *there, *back;
static int fds[2];

static bool goes_on(enum kind kind, void *number)
{
	atomic_fetch_add(&done[kind][(intptr_t)number], 1);
	return !atomic_load(&stop);
}

static void yields(void *number)
{
	while (goes_on(YIELD, number))
		gmp_yield();
	gmp_wg_done(&all);
}

static void square(void *n)
{
	*(long *)n *= *(long *)n;
}

static void joins(void *number)
{
	for (long i = 1; goes_on(JOIN, number); i++) {
		long n[4] = { i, i + 1, i + 2, i + 3 };
		gmp_g *g[4];

		for (int k = 0; k < 4; k++)
			CHECK_EQ(gmp_spawn(&g[k], square, &n[k], NULL), 0);
		for (int k = 0; k < 4; k++) {
			CHECK_EQ(gmp_join(g[k]), 0);
			CHECK_EQ(n[k], (i + k) * (i + k));
		}
	}
	gmp_wg_done(&all);
}

static void answers(__attribute__((unused)) void *arg)
{
	long n;

	while (gmp_chan_recv(there, &n) == 0) {
		n++;
		CHECK_EQ(gmp_chan_send(back, &n), 0);
	}
	gmp_wg_done(&all);
}

static void sends(void *number)
{
	for (long i = 0, n; goes_on(MESSAGE, number); i++) {
		CHECK_EQ(gmp_chan_send(there, &i), 0);
		CHECK_EQ(gmp_chan_recv(back, &n), 0);
		CHECK_EQ(n, i + 1);
	}
	gmp_chan_close(there);
	gmp_wg_done(&all);
}

/* Killed at the end of the run. */
static void meets(void *barrier)
{
	while (gmp_barrier_wait(barrier) >= 0)
		;
}

static void locks(void *number)
{
	do {
		gmp_mutex_lock(&mutex);
		locked++;
		if (locked % 16 == 0)
			gmp_yield();
		gmp_mutex_unlock(&mutex);
		gmp_yield();
	} while (goes_on(LOCK, number));
	gmp_wg_done(&all);
}

static void sleeps(void *number)
{
	while (goes_on(SLEEP, number)) {
		int64_t until = gmp_now() + 100 * US * (1 + (intptr_t)number);

		CHECK_EQ(gmp_sleep(until - gmp_now()), 0);
		CHECK(gmp_now() >= until - US);
	}
	gmp_wg_done(&all);
}

static void reads(__attribute__((unused)) void *arg)
{
	ssize_t got;

	for (long i = 0, n; (got = gmp_read(fds[0], &n, sizeof(n))) > 0; i++) {
		CHECK_EQ(got, sizeof(n));
		CHECK_EQ(n, i);
	}
	CHECK_EQ(got, 0);
	gmp_wg_done(&all);
}

static void writes(void *number)
{
	for (long i = 0; goes_on(PIPE, number); i++) {
		CHECK_EQ(gmp_write(fds[1], &i, sizeof(i)), sizeof(i));
		gmp_sleep(50 * US);
	}
	CHECK_EQ(gmp_close(fds[1]), 0);
	gmp_wg_done(&all);
}

static void acquires(void *number)
{
	while (goes_on(EXTERNAL, number))
		CHECK_EQ(gmp_sem_acquire(&external), 0);
	gmp_wg_done(&all);
}

static void blocks(void *number)
{
	while (goes_on(BLOCK, number)) {
		gmp_block_enter();
		usleep(100);
		gmp_block_leave();
	}
	gmp_wg_done(&all);
}

/* More of these than a ring holds: they pass through the lanes of the global queue. */
static void passes(__attribute__((unused)) void *arg)
{
	gmp_yield();
	atomic_fetch_add(&passed, 1);
	gmp_wg_done(&all);
}

/* For some ms at a time. */
static void computes(void *number)
{
	uint32_t first = 0;

	while (goes_on(COMPUTE, number)) {
		uint32_t x = 1;

		for (int i = 0; i < 4000000; i++)
			x = x * 1664525 + 1013904223;
		CHECK(!first || first == x);
		first = x;
		gmp_yield();
	}
	gmp_wg_done(&all);
}

static void start(gmp_fn fn, intptr_t number)
{
	gmp_wg_add(&all, 1);
	CHECK_EQ(gmp_go(fn, (void *)number), 0);
}

static void load(__attribute__((unused)) void *arg)
{
	CHECK_EQ(pipe(fds), 0);
	CHECK_EQ(gmp_fd_adopt(fds[0]), fds[0]);
	CHECK_EQ(gmp_fd_adopt(fds[1]), fds[1]);
	there = gmp_chan_new(sizeof(long), 0);
	back = gmp_chan_new(sizeof(long), 0);
	CHECK(there && back);
	start(computes, 0);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(gmp_go(meets, &barriers[0]), 0);
		CHECK_EQ(gmp_go(meets, &barriers[1]), 0);
	}
	for (int i = 0; i < GS_OF_KIND; i++) {
		start(yields, i);
		start(locks, i);
		start(sleeps, i);
	}
	start(joins, 0);
	start(answers, 0);
	start(sends, 0);
	start(reads, 0);
	start(writes, 0);
	start(acquires, 0);
	start(blocks, 0);
	for (int i = 0; i < BURST; i++)
		start(passes, i);
	CHECK_EQ(gmp_wg_wait(&all), 0);
	CHECK_EQ(gmp_close(fds[0]), 0);
	gmp_chan_free(there);
	gmp_chan_free(back);
}

/* --- the judge --- */

static atomic_bool ended;
static const char *about; /* the constant and its value, for messages */

static bool is_used(enum kind kind, int number)
{
	return number == 0 || kind == YIELD || kind == LOCK || kind == SLEEP;
}

/* The first kind with a G that has made fewer than ROUNDS rounds; KINDS: there is none. */
static enum kind lagging(void)
{
	for (enum kind kind = 0; kind < KINDS; kind++)
		for (int i = 0; i < GS_OF_KIND; i++)
			if (is_used(kind, i) && atomic_load(&done[kind][i]) < ROUNDS)
				return kind;
	return KINDS;
}

/* Ends the run once each G has made progress, or the process if one makes none. */
static void *judge(__attribute__((unused)) void *arg)
{
	for (int ms = 0; !atomic_load(&ended); ms++) {
		enum kind kind = lagging();

		if (ms >= LONGEST)
			check_failed("%s: %s", about,
				     kind == KINDS ? "the run does not end" : names[kind]);
		if (ms >= SHORTEST && kind == KINDS)
			atomic_store(&stop, true);
		gmp_sem_release(&external, 1);
		nanosleep(&(struct timespec){ .tv_nsec = MS }, NULL);
	}
	return NULL;
}

static void run_load(int procs)
{
	pthread_t thread;
	long locks_of_gs = 0;

	memset(done, 0, sizeof(done));
	atomic_store(&stop, false);
	atomic_store(&ended, false);
	atomic_store(&passed, 0);
	locked = 0;
	external = (gmp_sem)GMP_SEM_INIT(0);
	for (int i = 0; i < 2; i++)
		barriers[i] = (gmp_barrier)GMP_BARRIER_INIT(2);
	CHECK_EQ(pthread_create(&thread, NULL, judge, NULL), 0);
	run_procs(procs, load, NULL);
	atomic_store(&ended, true);
	pthread_join(thread, NULL);
	for (int i = 0; i < GS_OF_KIND; i++)
		locks_of_gs += atomic_load(&done[LOCK][i]);
	CHECK_EQ(locked, locks_of_gs);
	CHECK_EQ(atomic_load(&passed), BURST);
}

/* With half and with twice of the constant, 1 and 2 Ps. */
static void run_varied(int which, const char *name)
{
	about = name;
	for (int times = 1; times <= 4; times += 3) {
		set_policy(which, times);
		for (int procs = 1; procs <= 2; procs++)
			run_load(procs);
	}
}

#define POLICY(name, ...)                                                                          \
	TEST(name##_by_two_starves_no_g)                                                           \
	{                                                                                          \
		run_varied(OF_##name, #name);                                                      \
	}
#include "base/policy.def"
#undef POLICY
