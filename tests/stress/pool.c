/* SPDX-License-Identifier: MIT */
/*
 * Pools and multipools under load while they are resized, released and rebooted.
 *
 * Green threads and external threads submit, with and without deadlines and delays.  Tasks wait,
 * exit, are cancelled, and submit more tasks.  Checks that each accepted task runs once or is
 * reported as dropped once, and that nothing leaks.
 */
#include "stress.h"

#include <stdbool.h>

enum { SUBMITTERS = 8, EXTERNAL = 2, POOLS = 3, ROUND = 300 };

/* Exactly one is not NULL. */
static gmp_pool *pool;
static gmp_multipool *many;
static atomic_llong accepted, refused, ran, dropped;
static atomic_int stop, working;

static void task(void *arg);

/* --- the same calls for a pool and a multipool --- */

/* For the calls that only single pools have. */
static gmp_pool *one_of(struct rng *r)
{
	return pool ? pool : gmp_multipool_at(many, (int)draw(r, POOLS));
}

static int invoke(void *arg)
{
	return pool ? gmp_pool_invoke(pool, arg) : gmp_multipool_invoke(many, arg);
}

static int submit(void *arg)
{
	return pool ? gmp_pool_submit(pool, task, arg) : gmp_multipool_submit(many, task, arg);
}

static int resize(int capacity)
{
	return pool ? gmp_pool_resize(pool, capacity) : gmp_multipool_resize(many, capacity);
}

static int release(int64_t deadline)
{
	return pool ? gmp_pool_release(pool, deadline) : gmp_multipool_release(many, deadline);
}

static int reboot(void)
{
	return pool ? gmp_pool_reboot(pool) : gmp_multipool_reboot(many);
}

static int running(void)
{
	return pool ? gmp_pool_running(pool) : gmp_multipool_running(many);
}

static int idle(void)
{
	return pool ? gmp_pool_idle(pool) : gmp_multipool_idle(many);
}

static int waiting(void)
{
	return pool ? gmp_pool_waiting(pool) : gmp_multipool_waiting(many);
}

static int64_t delayed(void)
{
	int64_t n = pool ? gmp_pool_delayed(pool) : 0;

	for (int i = 0; !pool && i < POOLS; i++)
		n += gmp_pool_delayed(gmp_multipool_at(many, i));
	return n;
}

/* --- the load --- */

static void delay(struct rng *r)
{
	int err = gmp_pool_submit_at(one_of(r), gmp_deadline(draw(r, 2000) * US), task,
				     (void *)(uintptr_t)draw(r, 64));

	CHECK(err == 0 || err == -EPIPE);
	atomic_fetch_add(err ? &refused : &accepted, 1);
}

static void submit_one(struct rng *r)
{
	void *arg = (void *)(uintptr_t)draw(r, 64);
	int err;

	switch (draw(r, 4)) {
	case 0: err = gmp_pool_try_submit(one_of(r), task, arg); break;
	case 1:
		err = gmp_pool_submit_until(one_of(r), task, arg, gmp_deadline(draw(r, 200) * US));
		break;
	case 2: err = invoke(arg); break;
	default: err = submit(arg);
	}
	CHECK(err == 0 || err == -EPIPE || err == -EAGAIN || err == -ETIMEDOUT ||
	      err == -ECANCELED);
	atomic_fetch_add(err ? &refused : &accepted, 1);
	if (err)
		gmp_yield(); /* a released pool refuses without waiting */
}

static void task(void *arg)
{
	uintptr_t what = (uintptr_t)arg;
	struct rng r = rng_for((uint64_t)atomic_fetch_add(&ran, 1));

	if (what < 8) {
		gmp_sleep(draw(&r, 100) * US);
	} else if (what < 16) {
		gmp_yield();
	} else if (what == 16) {
		gmp_exit();
	} else if (what == 17) {
		gmp_cancel(gmp_self());
		CHECK_EQ(gmp_sleep(SEC), -ECANCELED);
	} else if (what == 18) {
		in_blocking_code(draw(&r, 50));
	} else if (what == 19) {
		delay(&r);
	} else if (what == 20) {
		int err = gmp_pool_try_submit(one_of(&r), task, NULL);

		CHECK(err == 0 || err == -EAGAIN || err == -EPIPE);
		atomic_fetch_add(err ? &refused : &accepted, 1);
	}
}

static void drop(gmp_fn fn, UNUSED void *arg)
{
	CHECK(fn == task);
	atomic_fetch_add(&dropped, 1);
}

static void submitter(void *arg)
{
	struct rng r = rng_for((uintptr_t)arg);

	while (!atomic_load(&stop)) {
		if (draw(&r, 8) == 0)
			delay(&r);
		else
			submit_one(&r);
		if (draw(&r, 64) == 0)
			gmp_sleep(draw(&r, 100) * US);
	}
	atomic_fetch_sub(&working, 1);
}

/* Submits until it is cancelled, often while it waits. */
static void short_lived(UNUSED void *arg)
{
	struct rng r = rng_for(77);

	while (!gmp_cancelled())
		submit_one(&r);
}

static void pool_begin(struct rng *r, bool single)
{
	gmp_pool_opts o = GMP_POOL_OPTS_INIT;

	o.fn = task;
	o.dropped = drop;
	o.idle_ns = draw(r, 2) ? MS : 0;
	o.max_waiting = draw(r, 2) ? 4 : 0;
	o.prealloc = (int)draw(r, 2);
	pool = single ? gmp_pool_new(8, &o) : NULL;
	many = single ? NULL
		      : gmp_multipool_new(POOLS, 3, draw(r, 2) ? GMP_ROUND_ROBIN : GMP_LEAST_BUSY,
					  &o);
	CHECK(pool || many);
}

static void pool_end(void)
{
	if (pool)
		gmp_pool_free(pool);
	else
		gmp_multipool_free(many);
	CHECK_EQ(atomic_load(&accepted), atomic_load(&ran) + atomic_load(&dropped));
	WAIT_FOR(stats().greens == 1);
	WAIT_FOR(stats().timers == 0);
	WAIT_FOR(stats().stacks_used == 1);
}

static void change(struct rng *r)
{
	int err;

	switch (draw(r, 3)) {
	case 0: CHECK_EQ(resize(1 + (int)draw(r, 40)), 0); break;
	case 1: CHECK_EQ(resize(1 + (int)draw(r, 4)), 0); break;
	default:
		err = release(draw(r, 3) ? GMP_FOREVER : gmp_deadline(draw(r, 300) * US));
		CHECK(err == 0 || err == -ETIMEDOUT);
		if (!err)
			CHECK_EQ(running(), 0);
		CHECK_EQ(idle(), 0);
		CHECK_EQ(delayed(), 0);
		CHECK_EQ(reboot(), 0);
	}
}

static void one_pool(struct rng *r, bool single)
{
	struct ext_thread f[EXTERNAL];
	int64_t end = gmp_deadline(ROUND * MS);

	atomic_store(&stop, 0);
	atomic_store(&working, SUBMITTERS + EXTERNAL);
	pool_begin(r, single);
	for (int i = 0; i < SUBMITTERS; i++)
		CHECK_EQ(gmp_go(submitter, (void *)(uintptr_t)(draw(r, 1 << 20))), 0);
	for (int i = 0; i < EXTERNAL; i++)
		ext_thread_start(&f[i], submitter, (void *)(uintptr_t)draw(r, 1 << 20));
	while (gmp_now() < end) {
		gmp_g *g = spawn(short_lived, NULL);

		change(r);
		gmp_sleep(draw(r, 500) * US);
		/*
		 * gmp_multipool_waiting reads one pool after another: a waiter may be counted twice
		 */
		CHECK(waiting() <= (SUBMITTERS + EXTERNAL + 1) * (pool ? 1 : POOLS));
		gmp_cancel(g);
		join(g);
	}
	atomic_store(&stop, 1);
	WAIT_FOR(atomic_load(&working) == 0);
	for (int i = 0; i < EXTERNAL; i++)
		ext_thread_join(&f[i]);
	pool_end();
}

RT(pool_resized_released_and_rebooted_loses_no_task)
{
	stress_begin();
	struct rng r = rng_for((uint64_t)procs);

	for (bool single = true; !stress_over(); single = !single)
		one_pool(&r, single);
	fprintf(stderr, "accepted %lld refused %lld dropped %lld\n", atomic_load(&accepted),
		atomic_load(&refused), atomic_load(&dropped));
}
