/* SPDX-License-Identifier: MIT */
/* The program that the debuggers inspect: at at_rest() each G is in a different state. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gmp.h>

static gmp_mutex mutex;
static volatile int in_blocking_code;

/* A function that keeps its own frame and symbol: neither inlined nor cloned. */
#ifdef __clang__
#define CALL __attribute__((noinline))
#else
#define CALL __attribute__((noipa))
#endif

/* Prevents a tail call before it. */
#define NO_JUMP() __asm__ volatile("" ::: "memory")

/* The debugger stops here, or the core file is written here. */
CALL void at_rest(void)
{
	__asm__ volatile("");
	if (getenv("TARGET_ABORTS"))
		abort();
}

CALL int take_one(gmp_chan *jobs, volatile int depth)
{
	int job = depth * 100, result;

	if (depth > 0)
		result = take_one(jobs, depth - 1);
	else
		result = gmp_chan_recv(jobs, &job);
	NO_JUMP();
	return result + 1;
}

static void receiver(void *jobs)
{
	take_one(jobs, 2);
	NO_JUMP();
}

static void sleeper(void *arg)
{
	(void)arg;
	gmp_sleep_until(GMP_FOREVER);
	NO_JUMP();
}

static void locker(void *arg)
{
	(void)arg;
	gmp_mutex_lock(&mutex);
	NO_JUMP();
}

static void blocker(void *pipe)
{
	char c;
	int end = *(int *)pipe;

	gmp_block_enter();
	in_blocking_code = 1;
	while (read(end, &c, 1) < 0)
		;
	gmp_block_leave();
	NO_JUMP();
}

/* Sleeps in the kernel without a declaration, so sysmon takes the P. */
static void stuck(void *pipe)
{
	char c;

	while (read(*(int *)pipe, &c, 1) < 0)
		;
	NO_JUMP();
}

static void ready_to_go(void *arg)
{
	(void)arg;
	gmp_yield();
	NO_JUMP();
}

static gmp_g *spawn(gmp_fn fn, void *arg, const char *name)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g = NULL;

	a.name = name;
	if (gmp_spawn(&g, fn, arg, &a) != 0)
		exit(3);
	return g;
}

static gmp_stats stats(void)
{
	gmp_stats s = GMP_STATS_INIT;

	gmp_stats_get(&s);
	return s;
}

static void app(void *arg)
{
	static int ends[2];

	if (pipe(ends) != 0)
		exit(3);
	gmp_mutex_lock(&mutex);
	spawn(receiver, gmp_chan_new(sizeof(int), 0), "clerk");
	spawn(sleeper, NULL, "");
	spawn(locker, NULL, "locker");
	spawn(blocker, &ends[0], "blocker");
	spawn(stuck, &ends[0], "stuck");
	while (!in_blocking_code || stats().greens_waiting < 3 || stats().preempted < 1)
		gmp_sleep(1000000);
	spawn(ready_to_go, NULL, "begun");
	gmp_yield();
	spawn(sleeper, NULL, "fresh");
	at_rest();
	(void)arg;
	exit(0);
}

int main(void)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.procs = 1;
	return gmp_run(app, NULL, &cfg) != 0;
}
