/* SPDX-License-Identifier: MIT */
/* A program for a debugger to look at: each green thread is somewhere else when it comes to at_rest(). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gmp.h>

static gmp_mutex mutex;
static volatile int in_blocking_code;

/* Where the debugger stops, or the core is made. */
__attribute__((noinline)) void at_rest(void)
{
	__asm__ volatile("");
	if (getenv("TARGET_ABORTS"))
		abort();
}

__attribute__((noinline)) int take_one(gmp_chan *jobs, int depth)
{
	int job = depth * 100;

	if (depth > 0)
		return take_one(jobs, depth - 1) + 1;
	return gmp_chan_recv(jobs, &job) + 1;
}

static void receiver(void *jobs)
{
	take_one(jobs, 2);
}

static void sleeper(void *arg)
{
	(void)arg;
	gmp_sleep_until(GMP_FOREVER);
}

static void locker(void *arg)
{
	(void)arg;
	gmp_mutex_lock(&mutex);
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
}

static void ready_to_go(void *arg)
{
	(void)arg;
	gmp_yield();
	gmp_yield();
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
	while (!in_blocking_code)
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
