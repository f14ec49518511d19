/* SPDX-License-Identifier: MIT */
/* Stacks on a simulated operating system that refuses reservations and guards, for tests of
 * src/stack.c. */
#ifndef TESTS_UNIT_STACK_UTIL_H
#define TESTS_UNIT_STACK_UTIL_H

#include "check.h"

#include "stack.h"

#include <limits.h>
#include <stdlib.h>

#include "base/os.h"

#include "killed_by.h"

enum { LIMIT = 100000, KLASS = 18 };

#define SIZE ((size_t)1 << KLASS)

/* --- simulated refusals of the operating system --- */

static size_t most = SIZE_MAX; /* the largest reservation that succeeds */
static long pieces = LONG_MAX; /* number of reservations that succeed */
static int light_err, protect_err;
static bool light_ignored; /* light guards are answered with success and have no effect */
static int max_maps;       /* 0: the true number */
static size_t held;        /* bytes reserved now */
static unsigned guarded;   /* guarded stacks, by both kinds */

void *__real_os_reserve(size_t bytes);
void *__real_os_reserve_unlocked(size_t bytes, bool *locks);
void __real_os_release(void *addr, size_t bytes);
int __real_os_guard_light(void *addr, size_t bytes);
int __real_os_guard_protect(void *addr, size_t bytes);
int __real_os_max_maps(void);
void *__wrap_os_reserve(size_t bytes);
void *__wrap_os_reserve_unlocked(size_t bytes, bool *locks);
void __wrap_os_release(void *addr, size_t bytes);
int __wrap_os_guard_light(void *addr, size_t bytes);
int __wrap_os_guard_protect(void *addr, size_t bytes);
int __wrap_os_max_maps(void);

void *__wrap_os_reserve_unlocked(size_t bytes, bool *locks)
{
	void *p = NULL;

	*locks = false;
	if (bytes <= most && pieces > 0)
		p = __real_os_reserve_unlocked(bytes, locks);
	if (p) {
		pieces--;
		held += bytes;
	}
	return p;
}

void *__wrap_os_reserve(size_t bytes)
{
	bool locks;

	return __wrap_os_reserve_unlocked(bytes, &locks);
}

void __wrap_os_release(void *addr, size_t bytes)
{
	held -= bytes;
	__real_os_release(addr, bytes);
}

int __wrap_os_guard_light(void *addr, size_t bytes)
{
	int err = light_err ? light_err : light_ignored ? 0 : __real_os_guard_light(addr, bytes);

	guarded += !err && bytes == STACK_GUARD;
	return err;
}

int __wrap_os_guard_protect(void *addr, size_t bytes)
{
	int err = protect_err ? protect_err : __real_os_guard_protect(addr, bytes);

	guarded += !err && bytes == STACK_GUARD; /* not the guard of a slab */
	return err;
}

int __wrap_os_max_maps(void)
{
	return max_maps ? max_maps : __real_os_max_maps();
}

/* --- */

__attribute__((unused)) static void begin(void)
{
	CHECK_EQ(stack_init(LIMIT, KLASS), 0);
	guarded = 0;
}

__attribute__((unused)) static void end(void)
{
	stack_fini();
	CHECK_EQ(held, 0);
}

__attribute__((unused)) static char *get(unsigned klass)
{
	char *lo = stack_get(klass);

	CHECK(lo != NULL);
	CHECK_EQ((uintptr_t)lo % PAGE, 0);
	return lo;
}

__attribute__((unused)) static int by_address(const void *a, const void *b)
{
	const char *x = *(char *const *)a, *y = *(char *const *)b;

	return (x > y) - (x < y);
}

__attribute__((unused)) static void check_apart(char **lo, unsigned n, size_t size)
{
	qsort(lo, n, sizeof(*lo), by_address);
	for (unsigned i = 1; i < n; i++)
		CHECK(lo[i] - lo[i - 1] >= (ptrdiff_t)size);
}

__attribute__((unused)) static void check_guarded_class(char *lo, unsigned klass)
{
	CHECK_EQ(killed_by(lo - STACK_GUARD), SIGSEGV);
	CHECK_EQ(killed_by(lo - STACK_GUARD / 2), SIGSEGV);
	CHECK_EQ(killed_by(lo - 1), SIGSEGV);
	CHECK_EQ(killed_by(lo), 0);
	CHECK_EQ(killed_by(lo + ((size_t)1 << klass) - 1), 0);
}

__attribute__((unused)) static void check_guarded(char *lo)
{
	check_guarded_class(lo, KLASS);
}

#endif
