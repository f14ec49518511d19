/* SPDX-License-Identifier: MIT */
/*
 * Tests that stacks are guarded as well as the system allows.
 *
 * floors 0..1
 * wrap: os_reserve os_reserve_unlocked os_release os_guard_light os_guard_protect os_max_maps
 */
#define _GNU_SOURCE 1
#include "stack_util.h"

#include <errno.h>
#include <sys/mman.h>

/* Redirect stderr to a file whose lines are counted. */
static int catch_stderr(void)
{
	int fd = memfd_create("stderr", 0);

	CHECK(fd >= 0);
	CHECK_EQ(dup2(fd, 2), 2);
	return fd;
}

static unsigned lines_written(int fd)
{
	char text[4096];
	ssize_t n = pread(fd, text, sizeof(text), 0);
	unsigned lines = 0;

	CHECK(n >= 0);
	for (ssize_t i = 0; i < n; i++)
		lines += text[i] == '\n';
	if (lines)
		CHECK(strncmp(text, "gmp: stacks are made without guard", 34) == 0);
	return lines;
}

TEST(stack_guard_is_64_kib_in_every_class)
{
	CHECK(STACK_GUARD >= 64 << 10);
	for (unsigned k = STACK_CLASS_MIN; k <= STACK_CLASS_MAX; k++) {
		begin();
		CHECK_EQ(stack_reserve(k, 2), 0);
		char *lo[2] = { get(k), get(k) };

		check_guarded_class(lo[0], k);
		check_guarded_class(lo[1], k);
		check_apart(lo, 2, ((size_t)1 << k) + STACK_GUARD);
		CHECK_EQ(stack_counts().unguarded, 0);
		end();
	}
}

TEST(stack_guard_is_installed_once)
{
	begin();
	CHECK_EQ(stack_reserve(KLASS, 2), 0);
	char *lo = get(KLASS);

	check_guarded(lo);
	stack_put(lo, KLASS);
	check_guarded(get(KLASS));
	CHECK_EQ(stack_counts().unguarded, 0);
	CHECK_EQ(guarded, 1);
	end();
}

TEST(stackcache_new_stack_gets_guard_when_taken)
{
	enum { TOGETHER = (2 << 20) / ((1 << KLASS) + STACK_GUARD) };
	struct stackcache c = { .most = STACK_CACHE };
	char *lo[TOGETHER];

	begin();
	CHECK_EQ(stack_reserve(KLASS, STACK_CACHE), 0);
	for (unsigned i = 0; i < TOGETHER; i++) {
		lo[i] = stackcache_take(&c);
		CHECK_EQ(stack_counts().made, TOGETHER);
		CHECK_EQ(c.n, TOGETHER - 1 - i);
		CHECK_EQ(guarded, i + 1);
		CHECK_EQ(killed_by(lo[i] - 1), SIGSEGV);
	}
	check_apart(lo, TOGETHER, SIZE + STACK_GUARD);
	c.lo[c.n++] = lo[0]; /* a used stack has its guard */
	CHECK(stackcache_take(&c) == lo[0]);
	CHECK_EQ(guarded, TOGETHER);
	CHECK(stackcache_take(&c) != NULL);
	CHECK_EQ(stack_counts().made, 2 * TOGETHER);
	end();
}

TEST(stackcache_spill_installs_guards)
{
	struct stackcache c = { .most = STACK_CACHE };
	char *first;
	unsigned made;

	begin();
	CHECK_EQ(stack_reserve(KLASS, 2 * STACK_CACHE), 0);
	first = stackcache_take(&c);
	made = (unsigned)stack_counts().made;
	while (c.n < STACK_CACHE)
		c.lo[c.n++] = get(KLASS);
	stackcache_spill(&c); /* the coldest half, including the unused stacks */
	CHECK_EQ(guarded, stack_counts().made);
	for (unsigned i = 1; i < made; i++)
		CHECK_EQ(killed_by(get(KLASS) - 1), SIGSEGV);
	CHECK_EQ(killed_by(first - 1), SIGSEGV);
	stackcache_flush(&c);
	CHECK(stackcache_take(&c) != NULL); /* takes unused stacks into an empty cache */
	stackcache_flush(&c);
	CHECK_EQ(guarded, stack_counts().made);
	end();
}

TEST(stack_guard_light_refused_uses_mprotect)
{
	light_err = -EINVAL;
	begin();
	CHECK_EQ(stack_reserve(KLASS, 2), 0);
	check_guarded(get(KLASS));
	check_guarded(get(KLASS));
	CHECK_EQ(guarded, 2);
	CHECK_EQ(stack_counts().unguarded, 0);
	end();
}

TEST(stack_guard_light_without_effect_uses_mprotect)
{
	check_skip_on_valgrind("Valgrind is not asked for the effect");
	light_ignored = true;
	begin();
	CHECK_EQ(stack_reserve(KLASS, 2), 0);
	check_guarded(get(KLASS));
	check_guarded(get(KLASS));
	CHECK_EQ(guarded, 2); /* none of them light */
	CHECK_EQ(stack_counts().unguarded, 0);
	end();
}

TEST(stack_guards_above_map_limit_are_skipped_with_one_warning)
{
	int err_fd;

	light_err = -EINVAL;
	max_maps = 16; /* three quarters of 16: six guards, which split two mappings each */
	begin();
	CHECK_EQ(stack_reserve(KLASS, 20), 0);
	err_fd = catch_stderr();
	for (int i = 0; i < 6; i++)
		get(KLASS);
	CHECK_EQ(stack_counts().unguarded, 0);
	CHECK_EQ(lines_written(err_fd), 0);
	CHECK_EQ(killed_by(get(KLASS) - 1), 0);
	CHECK_EQ(stack_counts().unguarded, 1);
	CHECK_EQ(lines_written(err_fd), 1);
	for (int i = 0; i < 5; i++)
		get(KLASS);
	CHECK_EQ(stack_counts().unguarded, 6);
	CHECK_EQ(stack_counts().made, 12);
	CHECK_EQ(guarded, 6);
	CHECK_EQ(lines_written(err_fd), 1);
	end();
}

TEST(stack_guards_refused_are_skipped_with_one_warning)
{
	int err_fd;

	light_err = -EINVAL;
	protect_err = -ENOMEM;
	begin();
	CHECK_EQ(stack_reserve(KLASS, 3), 0);
	err_fd = catch_stderr();
	for (int i = 0; i < 3; i++)
		CHECK_EQ(killed_by(get(KLASS) - 1), 0);
	CHECK_EQ(stack_counts().unguarded, 3);
	CHECK_EQ(lines_written(err_fd), 1);
	end();
}

TEST(stack_guard_light_refused_later_uses_mprotect)
{
	int err_fd;

	begin();
	CHECK_EQ(stack_reserve(KLASS, 4), 0);
	char *lo = get(KLASS);

	if (os_guard_light(lo, PAGE) != 0)
		check_skip("no light guards before Linux 6.13");
	check_guarded(get(KLASS));
	err_fd = catch_stderr();
	light_err = -ENOMEM;
	check_guarded(get(KLASS));
	CHECK_EQ(stack_counts().unguarded, 0);
	CHECK_EQ(lines_written(err_fd), 0);
	protect_err = -ENOMEM;
	CHECK_EQ(killed_by(get(KLASS) - 1), 0);
	CHECK_EQ(stack_counts().unguarded, 1);
	CHECK_EQ(lines_written(err_fd), 1);
	end();
}

TEST(stack_guard_overlaps_checks_every_byte_of_block)
{
	char *lo = (char *)0x10000000, *begin = lo - STACK_GUARD;

	CHECK(!stack_guard_overlaps(lo, lo, SIZE_MAX));
	CHECK(stack_guard_overlaps(lo, lo - 1, 1));
	CHECK(stack_guard_overlaps(lo, lo - 1, SIZE_MAX));
	CHECK(!stack_guard_overlaps(lo, lo - 1, 0));
	CHECK(stack_guard_overlaps(lo, begin, 1));
	CHECK(!stack_guard_overlaps(lo, begin - 1, 1));
	CHECK(stack_guard_overlaps(lo, begin - 1, 2));
	CHECK(!stack_guard_overlaps(lo, begin - 256, 256));
	CHECK(stack_guard_overlaps(lo, begin - 256, 257));
	CHECK(stack_guard_overlaps(lo, (char *)8, SIZE_MAX));
	CHECK(!stack_guard_overlaps(NULL, (char *)8, SIZE_MAX));
}
