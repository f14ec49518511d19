/* SPDX-License-Identifier: MIT */
/* A failed spawn or lock_thread reports its error; all other green threads run and end. */
#include "faults.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

static atomic_int ran;

static void count(void *arg)
{
	(void)arg;
	atomic_fetch_add(&ran, 1);
}

static gmp_g *spawn_sized(size_t stack_size)
{
	gmp_attr attr = GMP_ATTR_INIT;
	gmp_g *g = NULL;

	attr.name = "counted";
	attr.stack_size = stack_size;
	return ASK(gmp_spawn(&g, count, NULL, &attr)) < 0 ? NULL : g;
}

/* More Gs than a batch of g structs, with stacks of five size classes. */
static void spawn_many(void *arg)
{
	enum { N = 70 };
	gmp_g *g[N];
	int want = atomic_load(&ran), n = 0;

	(void)arg;
	for (int i = 0; i < N; i++) {
		g[n] = spawn_sized((size_t)16384 << i % 5);
		n += g[n] != NULL;
	}
	for (int i = 0; i < n; i++)
		CHECK_EQ(gmp_join(g[i]), 0);
	CHECK_EQ(atomic_load(&ran), want + n);
}

SWEEP(spawn_with_any_stack_size_is_joined_or_reports_error)
{
	in_run(procs, spawn_many, NULL);
}

/* The first green thread ends before most of them have begun. */
static void leave_many(void *arg)
{
	(void)arg;
	for (int i = 0; i < 40; i++)
		ASK(gmp_go(count, NULL));
	gmp_yield();
}

SWEEP(detached_green_threads_are_killed_at_shutdown)
{
	in_run(procs, leave_many, NULL);
}

static gmp_key key;

static void with_local(void *arg)
{
	void *v = malloc(8);

	(void)arg;
	if (v && ASK(gmp_key_set(key, v)) < 0)
		free(v);
	gmp_yield();
}

static void use_locals(void *arg)
{
	gmp_g *g[4] = { NULL };

	(void)arg;
	if (ASK(gmp_key_create(&key, free)) < 0)
		return;
	for (int i = 0; i < 4; i++)
		ASK(gmp_spawn(&g[i], with_local, NULL, NULL));
	for (int i = 0; i < 4; i++)
		if (g[i])
			CHECK_EQ(gmp_join(g[i]), 0);
	CHECK_EQ(gmp_key_delete(key), 0);
}

SWEEP(local_values_reach_destructor)
{
	in_run(procs, use_locals, NULL);
}

static void in_blocking_code(void *arg)
{
	gmp_wg *wg = arg;

	gmp_block_enter();
	usleep(3000);
	gmp_block_leave();
	gmp_wg_done(wg);
}

/* Each G in blocking code hands off its P, which needs another M. */
static void block_many(void *arg)
{
	gmp_wg wg = GMP_WG_INIT;

	(void)arg;
	for (int i = 0; i < 4; i++)
		if (ASK(gmp_go(in_blocking_code, &wg)) == 0)
			gmp_wg_add(&wg, 1);
	gmp_sleep(1000000);
	CHECK_EQ(gmp_wg_wait(&wg), 0);
}

SWEEP(blocking_code_without_new_m_continues)
{
	in_run(procs, block_many, NULL);
}

static void locked(void *arg)
{
	(void)arg;
	if (ASK_OR(gmp_lock_thread(), -EAGAIN) < 0)
		return;
	gmp_sleep(1000);
	gmp_yield();
	CHECK_EQ(gmp_unlock_thread(), 0);
}

static void lock_some(void *arg)
{
	gmp_g *g[3] = { NULL };

	(void)arg;
	for (int i = 0; i < 3; i++)
		ASK(gmp_spawn(&g[i], locked, NULL, NULL));
	for (int i = 0; i < 3; i++)
		if (g[i])
			CHECK_EQ(gmp_join(g[i]), 0);
}

SWEEP(lock_thread_succeeds_or_reports_error)
{
	in_run(procs, lock_some, NULL);
}
