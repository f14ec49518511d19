/* SPDX-License-Identifier: MIT */
/* Helpers for the tests of own thread-locals: variables with initial values, and green threads that
 * have the flag GMP_OWN_TLS. */
#ifndef TESTS_RUNTIME_OWNTLS_UTIL_H
#define TESTS_RUNTIME_OWNTLS_UTIL_H

#include <dlfcn.h>
#include <locale.h>
#include <stdbool.h>

#include "run/runtime_util.h"

enum { MANY = 64, ROUNDS = 40, BIG = 3000 };

static __thread long number = 7, zero;
static __thread char text[BIG] = "initial";
static __thread long *self_pointer;

static atomic_int moved;

static int os_thread(void)
{
	return (int)syscall(SYS_gettid);
}

/* Wait in one of several ways. */
UNUSED static void wait_somehow(long i)
{
	switch (i % 4) {
	case 0: gmp_sleep(10 * US); break;
	case 1: gmp_blocking(usleep(30)); break; /* sysmon takes the P after 20 us */
	default: gmp_yield();
	}
}

UNUSED static gmp_g *spawn_own(gmp_fn fn, void *arg)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g = NULL;

	a.flags = GMP_OWN_TLS;
	CHECK_EQ(gmp_spawn(&g, fn, arg, &a), 0);
	return g;
}

UNUSED static void crowd(gmp_fn fn, int n)
{
	gmp_g *g[MANY];

	for (int i = 0; i < n; i++)
		g[i] = spawn_own(fn, (void *)(intptr_t)i);
	for (int i = 0; i < n; i++)
		join(g[i]);
}

UNUSED static void need_own_tls(void)
{
	static int asked;
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g = NULL;

	if (asked++)
		return;
	a.flags = GMP_OWN_TLS;
	int err = gmp_spawn(&g, nothing, NULL, &a);

	if (err == -ENOTSUP)
		check_skip("no own thread-locals here");
	CHECK_EQ(err, 0);
	join(g);
}

/* RT, skipped if own thread-locals are not supported. */
#define OWN(name)                                                                                  \
	static void name##_own(int procs);                                                         \
	RT(name)                                                                                   \
	{                                                                                          \
		need_own_tls();                                                                    \
		name##_own(procs);                                                                 \
	}                                                                                          \
	static void name##_own(__attribute__((unused)) int procs)

/* An entry function: the values and addresses of thread-locals stay over waits. */
UNUSED static void keep_values(void *arg)
{
	long n = (long)(intptr_t)arg + 100;
	long *at = &number;
	int *error = &errno, tid = os_thread();
	pthread_t self = pthread_self();

	CHECK_EQ(number, 7);
	CHECK_EQ(zero, 0);
	CHECK_STR(text, "initial");
	CHECK_EQ(text[BIG - 1], 0);
	CHECK_EQ(errno, 0);
	CHECK(self_pointer == NULL);
	number = zero = n;
	self_pointer = at;
	text[BIG - 1] = (char)n;
	snprintf(text, sizeof(text), "text %ld", n);
	for (long i = 0; i < ROUNDS; i++) {
		char expected[32];

		errno = (int)(n + i);
		wait_somehow(n + i);
		if ((n + i) % 4 != 1) /* a signal may end usleep */
			CHECK_EQ(errno, n + i);
		CHECK(&errno == error && &number == at && self_pointer == at);
		CHECK_EQ(number, n);
		CHECK_EQ(zero, n);
		snprintf(expected, sizeof(expected), "text %ld", n);
		CHECK_STR(text, expected);
		CHECK(pthread_equal(pthread_self(), self));
		if (os_thread() != tid)
			atomic_fetch_add(&moved, 1);
	}
}

/* An entry function: all have initial values. */
UNUSED static void expect_fresh(UNUSED void *arg)
{
	CHECK_EQ(number, 7);
	CHECK_EQ(zero, 0);
	CHECK_STR(text, "initial");
	for (size_t i = sizeof("initial"); i < sizeof(text); i++)
		CHECK_EQ(text[i], 0);
	CHECK(self_pointer == NULL);
	CHECK_EQ(errno, 0);
	CHECK(dlerror() == NULL);
	CHECK(uselocale((locale_t)0) == LC_GLOBAL_LOCALE);
}

/* Of an OS thread that a green thread makes. */
UNUSED static void *add_one(void *arg)
{
	++*(long *)arg;
	number = 99; /* of that thread */
	return arg;
}

#endif
