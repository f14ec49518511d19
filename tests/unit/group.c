/* SPDX-License-Identifier: MIT */
/*
 * Tests that a group without memory reports -ENOMEM and keeps working, and that a cancellation
 * reaches a child that has not registered yet. The wrapped functions fail, or cancel the group.
 *
 * floors 0..6, wrap: calloc aligned_alloc gmp_timer_new gmp_go gmp_key_create gmp_self
 */
#include "check.h"

#include <errno.h>
#include <stdbool.h>

#include "base/atomic.h"
#include "rt.h"

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
gmp_timer *__real_gmp_timer_new(gmp_fn fn, void *arg);
gmp_timer *__wrap_gmp_timer_new(gmp_fn fn, void *arg);
int __real_gmp_go(gmp_fn fn, void *arg);
int __wrap_gmp_go(gmp_fn fn, void *arg);
int __real_gmp_key_create(gmp_key *k, void (*destroy)(void *));
int __wrap_gmp_key_create(gmp_key *k, void (*destroy)(void *));
gmp_g *__real_gmp_self(void);
gmp_g *__wrap_gmp_self(void);

enum { NO_CALLOC = 1, NO_ALIGNED = 2, NO_TIMER = 4, NO_GO = 8, NO_KEY = 16 };

static unsigned lacking; /* (a) */
static int ran;          /* (a) */

static bool lacks(unsigned what)
{
	return ld_seq(&lacking) & what;
}

void *__wrap_calloc(size_t n, size_t size)
{
	return lacks(NO_CALLOC) ? NULL : __real_calloc(n, size);
}

void *__wrap_aligned_alloc(size_t align, size_t size)
{
	return lacks(NO_ALIGNED) ? NULL : __real_aligned_alloc(align, size);
}

gmp_timer *__wrap_gmp_timer_new(gmp_fn fn, void *arg)
{
	return lacks(NO_TIMER) ? NULL : __real_gmp_timer_new(fn, arg);
}

int __wrap_gmp_go(gmp_fn fn, void *arg)
{
	return lacks(NO_GO) ? -ENOMEM : __real_gmp_go(fn, arg);
}

int __wrap_gmp_key_create(gmp_key *k, void (*destroy)(void *))
{
	return lacks(NO_KEY) ? -EAGAIN : __real_gmp_key_create(k, destroy);
}

static int child(void *arg)
{
	(void)arg;
	add_seq(&ran, 1);
	return 0;
}

static void no_group(void *arg)
{
	(void)arg;
	st_seq(&lacking, NO_CALLOC);
	CHECK(gmp_group_new(0, GMP_FOREVER) == NULL);
	st_seq(&lacking, NO_TIMER);
	CHECK(gmp_group_new(0, GMP_FOREVER) == NULL);
	st_seq(&lacking, 0);
}

TEST(group_new_without_memory_returns_null)
{
	run_procs(1, no_group, NULL);
}

static void no_key(void *arg)
{
	(void)arg;
	st_seq(&lacking, NO_KEY);
	CHECK(gmp_group_new(0, GMP_FOREVER) == NULL);
	st_seq(&lacking, 0);
}

TEST(group_new_without_key_returns_null)
{
	run_procs(1, no_key, NULL);
}

static void no_child(void *arg)
{
	gmp_group *g = gmp_group_new(*(int *)arg, GMP_FOREVER);

	CHECK(g != NULL);
	for (unsigned what = NO_ALIGNED; what <= NO_GO; what *= 4) {
		st_seq(&lacking, what);
		for (int i = 0; i < 10; i++) /* the failures do not use up the limit */
			CHECK_EQ(gmp_group_go(g, child, NULL), -ENOMEM);
		CHECK_EQ(gmp_group_try_go(g, child, NULL), -ENOMEM);
		st_seq(&lacking, 0);
		CHECK_EQ(gmp_group_wait(g), 0);
		CHECK_EQ(gmp_group_go(g, child, NULL), 0);
		CHECK_EQ(gmp_group_wait(g), 0);
	}
	CHECK_EQ(ran, 2);
	gmp_group_free(g);
}

TEST(group_go_without_memory_returns_enomem_and_keeps_limit)
{
	int limit = 2;

	run_procs(1, no_child, &limit);
}

TEST(group_go_without_memory_and_limit_returns_enomem)
{
	int limit = 0;

	run_procs(1, no_child, &limit);
}

static void no_local(void *arg)
{
	gmp_group *g = gmp_group_new(0, GMP_FOREVER);

	(void)arg;
	CHECK(g != NULL);
	CHECK_EQ(gmp_group_go(g, child, NULL), 0);
	st_seq(&lacking, NO_CALLOC);
	CHECK_EQ(gmp_group_wait(g), -ENOMEM);
	st_seq(&lacking, 0);
	CHECK_EQ(ran, 0);
	gmp_group_free(g);
}

TEST(group_child_without_memory_for_local_fails_and_does_not_run)
{
	run_procs(1, no_local, NULL);
}

/* (a) cancelled by the next gmp_self(), which a child calls at its start */
static gmp_group *to_cancel;

gmp_g *__wrap_gmp_self(void)
{
	gmp_group *g = ld_seq(&to_cancel);

	if (g) {
		st_seq(&to_cancel, NULL);
		gmp_group_cancel(g);
	}
	return __real_gmp_self();
}

static int expect_cancelled(void *arg)
{
	(void)arg;
	CHECK_EQ(gmp_cancelled(), 1);
	add_seq(&ran, 1);
	return 0;
}

static void cancel_at_start(void *arg)
{
	gmp_group *g = gmp_group_new(0, GMP_FOREVER);

	(void)arg;
	CHECK(g != NULL);
	CHECK_EQ(gmp_group_go(g, expect_cancelled, NULL), 0);
	st_seq(&to_cancel, g);
	gmp_yield();
	CHECK(ld_seq(&to_cancel) == NULL);
	CHECK_EQ(gmp_group_wait(g), 0);
	CHECK_EQ(ran, 1);
	gmp_group_free(g);
}

TEST(group_cancel_before_child_registers_reaches_child)
{
	run_procs(1, cancel_at_start, NULL);
}
