/* SPDX-License-Identifier: MIT */
/*
 * Does gmp_set report that there is no memory, and leave the values as they are?  That there is none
 * is said here.
 *
 * floors 0..6, wrap: calloc pthread_setspecific
 */
#include "check.h"

#include <errno.h>
#include <pthread.h>

#include "base/atomic.h"
#include "rt.h"

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
	CHECK_EQ(gmp_set(keys[0], &x), -ENOMEM);
	CHECK(gmp_get(keys[0]) == NULL);
	st_seq(&no_memory, 0);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(gmp_set(keys[i], &x), 0);
	st_seq(&no_memory, 1);
	CHECK_EQ(gmp_set(keys[4], &x), -ENOMEM);
	for (int i = 0; i < 10; i++)
		CHECK(gmp_get(keys[i]) == (i < 4 ? &x : NULL));
	CHECK_EQ(gmp_set(keys[3], NULL), 0);
	st_seq(&no_memory, 0);
}

static void *thread(void *arg)
{
	/* the table is there, but libc cannot tell of the end */
	st_seq(&no_specific, 1);
	CHECK_EQ(gmp_set(keys[0], &x), -ENOMEM);
	CHECK(gmp_get(keys[0]) == NULL);
	st_seq(&no_specific, 0);
	set_without_memory(arg);
	return NULL;
}

static void make_keys(void)
{
	for (int i = 0; i < 10; i++)
		CHECK_EQ(gmp_key_create(&keys[i], destroy), 0);
}

TEST(a_set_without_memory_is_reported_and_leaves_the_values)
{
	make_keys();
	run_procs(1, set_without_memory, NULL);
	CHECK_EQ(destroyed, 3);
}

TEST(a_set_without_memory_is_reported_on_a_plain_thread)
{
	pthread_t t;

	make_keys();
	CHECK_EQ(pthread_create(&t, NULL, thread, NULL), 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK_EQ(destroyed, 3);
}
