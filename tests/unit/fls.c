/* SPDX-License-Identifier: MIT */
/*
 * Tests that gmp_key_set without memory returns -ENOMEM and keeps the values, and that the order of
 * destructors holds when the counter of values overflows. The wrapped calloc fails.
 *
 * floors 0..6, wrap: calloc pthread_setspecific
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <errno.h>
#include <pthread.h>

#include "base/atomic.h"
#include "rt.h"
#include "types.h"

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
int __real_pthread_setspecific(pthread_key_t key, const void *value);
int __wrap_pthread_setspecific(pthread_key_t key, const void *value);

static int no_memory, no_specific; /* (a) */

void *__wrap_calloc(size_t n, size_t size)
{
	return ld_seq(&no_memory) ? NULL : __real_calloc(n, size);
}

int __wrap_pthread_setspecific(pthread_key_t key, const void *value)
{
	return ld_seq(&no_specific) ? ENOMEM : __real_pthread_setspecific(key, value);
}

static gmp_key keys[10];
static int x, destroyed;

static void destroy(void *arg)
{
	CHECK(arg == &x);
	destroyed++;
}

static void set_without_memory(void *arg)
{
	(void)arg;
	st_seq(&no_memory, 1);
	CHECK_EQ(gmp_key_set(keys[0], &x), -ENOMEM);
	CHECK(gmp_key_get(keys[0]) == NULL);
	st_seq(&no_memory, 0);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(gmp_key_set(keys[i], &x), 0);
	st_seq(&no_memory, 1);
	CHECK_EQ(gmp_key_set(keys[4], &x), -ENOMEM);
	for (int i = 0; i < 10; i++)
		CHECK(gmp_key_get(keys[i]) == (i < 4 ? &x : NULL));
	CHECK_EQ(gmp_key_set(keys[3], NULL), 0);
	st_seq(&no_memory, 0);
}

static void *thread(void *arg)
{
	/* pthread_setspecific fails after the table was allocated */
	st_seq(&no_specific, 1);
	CHECK_EQ(gmp_key_set(keys[0], &x), -ENOMEM);
	CHECK(gmp_key_get(keys[0]) == NULL);
	st_seq(&no_specific, 0);
	set_without_memory(arg);
	return NULL;
}

static void make_keys(void)
{
	for (int i = 0; i < 10; i++)
		CHECK_EQ(gmp_key_create(&keys[i], destroy), 0);
}

TEST(key_set_without_memory_returns_enomem_and_keeps_values)
{
	make_keys();
	run_procs(1, set_without_memory, NULL);
	CHECK_EQ(destroyed, 3);
}

TEST(key_set_without_memory_on_external_thread_returns_enomem)
{
	pthread_t t;

	make_keys();
	CHECK_EQ(pthread_create(&t, NULL, thread, NULL), 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK_EQ(destroyed, 3);
}

/* --- order --- */

enum { LAST_ORDER = (1 << 28) - 1 };

static char destroyed_in_order[8];

static void note_order(void *name)
{
	destroyed_in_order[destroyed++] = *(char *)name;
}

static void set(int key, const char *name)
{
	CHECK_EQ(gmp_key_set(keys[key], (void *)(uintptr_t)name), 0);
}

/*
 * The order number of the next value, second word of the table: counting up to the overflow would
 * take a second.
 */
static uint32_t *next_order(void)
{
	return (uint32_t *)getm()->curg->locals + 1;
}

static void set_past_last_order(void *arg)
{
	(void)arg;
	set(0, "a");
	set(1, "b");
	set(2, "c");
	CHECK_EQ(*next_order(), 3);
	*next_order() = LAST_ORDER;
	set(0, NULL);
	set(0, "A"); /* the last order number */
	set(2, NULL);
	set(3, "d"); /* restarts at the first number, beside older values */
	set(2, "C");
}

static void set_two(void *arg)
{
	(void)arg;
	set(0, "e");
	set(1, "f");
}

static void set_in_order(void *arg)
{
	gmp_g *g;

	(void)arg;
	CHECK_EQ(gmp_spawn(&g, set_past_last_order, NULL, NULL), 0);
	CHECK_EQ(gmp_join(g), 0);
	CHECK_STR(destroyed_in_order, "CdAb");
	CHECK_EQ(gmp_spawn(&g, set_two, NULL, NULL), 0); /* reuses the table */
	CHECK_EQ(gmp_join(g), 0);
	CHECK_STR(destroyed_in_order, "CdAbfe");
}

TEST_PROCS(key_destructor_order_survives_counter_overflow)
{
	for (int i = 0; i < 10; i++)
		CHECK_EQ(gmp_key_create(&keys[i], note_order), 0);
	run_procs(procs, set_in_order, NULL);
}

static void set_at_last_order(void *arg)
{
	(void)arg;
	set(0, "a");
	set(0, NULL);
	*next_order() = LAST_ORDER; /* as earlier users of the table left it */
}

static void set_in_used_table(void *arg)
{
	gmp_g *g;

	(void)arg;
	CHECK_EQ(gmp_spawn(&g, set_at_last_order, NULL, NULL), 0);
	CHECK_EQ(gmp_join(g), 0);
	CHECK_EQ(gmp_spawn(&g, set_two, NULL, NULL), 0);
	CHECK_EQ(gmp_join(g), 0);
	CHECK_STR(destroyed_in_order, "fe");
}

TEST(key_destructor_order_restarts_in_reused_table)
{
	for (int i = 0; i < 10; i++)
		CHECK_EQ(gmp_key_create(&keys[i], note_order), 0);
	run_procs(1, set_in_used_table, NULL);
}
