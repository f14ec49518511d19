/* SPDX-License-Identifier: MIT */
/* Helpers for the pool tests: tasks that count themselves and wait at a gate. */
#ifndef TESTS_RUNTIME_POOL_UTIL_H
#define TESTS_RUNTIME_POOL_UTIL_H

#include "util.h"

static atomic_int begun, ended, inside, most_inside;
static gmp_sem gate; /* each permit lets one task through */

static inline void come_in(void)
{
	int n = atomic_fetch_add(&inside, 1) + 1, most = atomic_load(&most_inside);

	while (n > most && !atomic_compare_exchange_weak(&most_inside, &most, n))
		;
	atomic_fetch_add(&begun, 1);
}

static inline void go_out(void)
{
	atomic_fetch_sub(&inside, 1);
	atomic_fetch_add(&ended, 1);
}

static inline void count_task(UNUSED void *arg)
{
	come_in();
	go_out();
}

static inline void gate_task(UNUSED void *arg)
{
	come_in();
	gmp_sem_acquire(&gate);
	go_out();
}

static inline void yield_task(void *arg)
{
	come_in();
	for (intptr_t i = (intptr_t)arg; i > 0; i--)
		gmp_yield();
	go_out();
}

static inline void let_through(int n)
{
	CHECK_EQ(gmp_sem_release(&gate, n), 0);
}

/* A pool with default options, except that idle workers never end. */
static inline gmp_pool *pool_new(int capacity)
{
	gmp_pool_opts o = GMP_POOL_OPTS_INIT;

	o.idle_ns = GMP_FOREVER;
	gmp_pool *p = gmp_pool_new(capacity, &o);

	CHECK(p != NULL);
	return p;
}

static inline void submit(gmp_pool *p, gmp_fn fn, void *arg)
{
	CHECK_EQ(gmp_pool_submit(p, fn, arg), 0);
}

/* Submit n tasks that wait at the gate; returns once all have begun. */
static inline void fill_up(gmp_pool *p, int n)
{
	int before = atomic_load(&begun);

	for (int i = 0; i < n; i++)
		submit(p, gate_task, NULL);
	WAIT_FOR(atomic_load(&begun) == before + n);
}

/* A green thread that submits one task and keeps the result. */
struct submitter {
	gmp_pool *p;
	gmp_fn fn;
	void *arg;
	int64_t deadline;
	atomic_int result; /* 1: submit has not returned */
	gmp_g *g;
};

static inline void submitter_main(void *arg)
{
	struct submitter *s = arg;
	int result = s->deadline ? gmp_pool_submit_until(s->p, s->fn, s->arg, s->deadline)
				 : gmp_pool_submit(s->p, s->fn, s->arg);

	atomic_store(&s->result, result);
}

/* Start n submitters that wait in the order of s[]. */
static inline void submitters_start(struct submitter *s, int n, gmp_pool *p, gmp_fn fn)
{
	for (int i = 0; i < n; i++) {
		int waiting = gmp_pool_waiting(p);

		s[i] = (struct submitter){ .p = p, .fn = fn, .arg = &s[i], .result = 1 };
		s[i].g = spawn(submitter_main, &s[i]);
		WAIT_FOR(gmp_pool_waiting(p) == waiting + 1);
	}
}

static inline void release_and_free(gmp_pool *p)
{
	CHECK_EQ(gmp_pool_release(p, gmp_deadline(PATIENCE)), 0);
	CHECK_EQ(gmp_pool_running(p), 0);
	CHECK_EQ(gmp_pool_idle(p), 0);
	gmp_pool_free(p);
}

#endif
