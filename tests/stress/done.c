/* SPDX-License-Identifier: MIT */
/*
 * Thousands of done objects, each with racing setters and many watchers.
 *
 * Green threads and external threads watch an object by select and by wait, with and without a
 * deadline; some are cancelled; the number of Ps changes.  Checks that exactly one setter succeeds,
 * that every watcher observes it, that the set happens-before the observation, that a watcher may
 * free the object at once, and that nothing leaks.  Some runs end early; the next run continues.
 */
#include "stress.h"

#include <stdbool.h>

enum { WATCHERS = 60, SETTERS = 3, EXTERNAL = 2 };

static struct event {
	gmp_done *done;
	gmp_chan *jobs; /* the other case of each select */
	long written;   /* written before the set; not atomic */
	atomic_int set, watching;
} event;

static atomic_bool cut; /* the run will end early */
static atomic_llong seen, gave_up, sets, dropped;

static void is_set(void)
{
	CHECK_EQ(gmp_done_get(event.done), 1);
	CHECK_EQ(gmp_done_wait_until(event.done, 0), 0);
	CHECK_EQ(event.written, 42);
	atomic_fetch_add(&seen, 1);
}

/* Checks the error of a wait.  Returns true after a timeout: the caller retries. */
static bool may_retry(int err)
{
	if (err == -ECANCELED)
		CHECK_EQ(gmp_cancelled(), 1);
	else
		CHECK(err == -ETIMEDOUT || (err == -ESRCH && atomic_load(&cut)));
	atomic_fetch_add(&gave_up, 1);
	return err == -ETIMEDOUT;
}

/* Waits once by select, together with the jobs.  Returns false if the caller gives up. */
static bool select_once(struct rng *r, bool *over)
{
	int job, which;
	gmp_case cs[] = { GMP_RECV_CASE(event.jobs, &job),
			  GMP_RECV_CASE(gmp_done_chan(event.done), NULL) };

	if (draw(r, 2))
		which = gmp_select(cs, 2);
	else
		which = gmp_select_until(cs, 2, gmp_deadline(draw(r, 300) * US));
	if (which == 1)
		CHECK_EQ(cs[1].status, -EPIPE);
	*over = which == 1;
	return which >= 0 || may_retry(which);
}

static bool wait_once(struct rng *r, bool *over)
{
	int err = draw(r, 2) ? gmp_done_wait(event.done)
			     : gmp_done_wait_until(event.done, gmp_deadline(draw(r, 300) * US));

	*over = err == 0;
	return *over || may_retry(err);
}

static void watcher(void *arg)
{
	struct rng r = rng_for((uintptr_t)arg);
	bool over = false, on = true;

	while (on && !over) {
		switch (draw(&r, 4)) {
		case 0: on = wait_once(&r, &over); break;
		case 1:
			over = gmp_done_get(event.done);
			gmp_yield();
			break;
		default: on = select_once(&r, &over);
		}
	}
	if (over)
		is_set();
	atomic_fetch_sub(&event.watching, 1);
}

static void setter(void *arg)
{
	struct rng r = rng_for((uintptr_t)arg);
	int err;

	gmp_sleep(draw(&r, 500) * US);
	err = gmp_done_set(event.done);
	CHECK(err == 0 || err == -EALREADY);
	CHECK_EQ(gmp_done_get(event.done), 1);
	if (!err)
		atomic_fetch_add(&event.set, 1);
	atomic_fetch_sub(&event.watching, 1);
}

/* A single waiter frees the object at once, also if the setter is still in its call. */
static void set_alone(void *arg)
{
	gmp_done_set(arg);
}

static void freed_at_once(struct rng *r)
{
	gmp_done *d = gmp_done_new();
	struct ext_thread f;
	bool external = draw(r, 4) == 0;

	CHECK(d != NULL);
	for (unsigned i = draw(r, 3); i > 0; i--)
		CHECK(gmp_done_chan(d) != NULL);
	if (external)
		ext_thread_start(&f, set_alone, d);
	else
		CHECK_EQ(gmp_go(set_alone, d), 0);
	if (draw(r, 2))
		CHECK_EQ(gmp_done_wait(d), 0);
	else
		WAIT_FOR(gmp_done_get(d));
	gmp_done_free(d);
	if (external)
		ext_thread_join(&f);
}

static struct ext_thread external[EXTERNAL];

static void event_new(void)
{
	event.done = gmp_done_new();
	event.jobs = gmp_chan_new(sizeof(int), 4);
	CHECK(event.done != NULL && event.jobs != NULL);
	event.written = 0;
	atomic_store(&event.set, 0);
	atomic_store(&event.watching, WATCHERS + EXTERNAL + SETTERS);
}

static void event_free(void)
{
	gmp_done_free(event.done);
	gmp_chan_free(event.jobs);
	event.done = NULL;
}

static void start_all(struct rng *r, gmp_g **g)
{
	for (int i = 0; i < WATCHERS; i++)
		g[i] = spawn(watcher, (void *)(uintptr_t)draw(r, 1 << 30));
	for (int i = 0; i < EXTERNAL; i++)
		ext_thread_start(&external[i], watcher, (void *)(uintptr_t)draw(r, 1 << 30));
	if (draw(r, 2))
		gmp_sleep(draw(r, 200) * US);
	event.written = 42;
	for (int i = 0; i < SETTERS; i++)
		CHECK_EQ(gmp_go(setter, (void *)(uintptr_t)draw(r, 1 << 30)), 0);
}

static void one_event(struct rng *r)
{
	gmp_g *g[WATCHERS];

	event_new();
	start_all(r, g);
	for (int i = (int)draw(r, 20), job = 0; i > 0; i--) {
		int err = gmp_chan_try_send(event.jobs, &job);

		CHECK(err == 0 || err == -EAGAIN);
		if (draw(r, 4) == 0)
			gmp_sleep(draw(r, 50) * US);
	}
	if (atomic_load(&cut))
		return;
	for (int i = (int)draw(r, 8); i > 0; i--)
		gmp_cancel(g[draw(r, WATCHERS)]);
	if (draw(r, 8) == 0)
		gmp_set_procs(1 + (int)draw(r, 4));
	for (int i = 0; i < WATCHERS; i++)
		join(g[i]);
	for (int i = 0; i < EXTERNAL; i++)
		ext_thread_join(&external[i]);
	WAIT_FOR(atomic_load(&event.watching) == 0);
	CHECK_EQ(atomic_load(&event.set), 1);
	atomic_fetch_add(&sets, 1);
	event_free();
	WAIT_FOR(stats().greens == 1);
	WAIT_FOR(stats().timers == 0);
	WAIT_FOR(stats().stacks_used == 1);
}

static void events(void *arg)
{
	do {
		atomic_store(&cut, draw(arg, 32) == 0);
		freed_at_once(arg);
		one_event(arg);
	} while (!atomic_load(&cut) && !stress_over());
}

/* External threads may still wait for the event after the run has ended. */
static void clear_up(void)
{
	gmp_done_set(event.done);
	for (int i = 0; i < EXTERNAL; i++)
		CHECK_EQ(pthread_join(external[i].thread, NULL), 0);
	event_free();
	atomic_fetch_add(&dropped, 1);
}

TEST_PROCS(done_with_racing_setters_is_set_once_and_wakes_all)
{
	stress_begin();
	struct rng r = rng_for((uint64_t)procs);

	while (!stress_over()) {
		run_procs(procs, events, &r);
		if (atomic_load(&cut))
			clear_up();
	}
	fprintf(stderr, "set %lld seen %lld gave up %lld cut %lld\n", atomic_load(&sets),
		atomic_load(&seen), atomic_load(&gave_up), atomic_load(&dropped));
}
