/* SPDX-License-Identifier: MIT */
/*
 * Tests that stacks are reused, refused without address space, and released if unused.
 *
 * wrap: os_reserve os_reserve_unlocked os_release os_guard_light os_guard_protect os_max_maps
 */
#define _GNU_SOURCE 1
#include "stack_util.h"

#include <errno.h>
#include <fcntl.h>

#include "base/san.h"

static unsigned resident(char *from, char *to)
{
	unsigned n = 0;
	unsigned char one;

	for (char *p = from; p < to; p += PAGE) {
		CHECK(os_resident(p, PAGE, &one));
		n += one & 1;
	}
	return n;
}

/* --- get and put --- */

TEST(stack_get_returns_last_put_first)
{
	begin();
	CHECK_EQ(stack_reserve(KLASS, 3), 0);
	char *a = get(KLASS), *b = get(KLASS), *c = get(KLASS);

	stack_put(b, KLASS);
	stack_put(a, KLASS);
	stack_put(c, KLASS);
	CHECK(get(KLASS) == c);
	CHECK(get(KLASS) == a);
	CHECK(get(KLASS) == b);
	CHECK_EQ(stack_counts().made, 3);
	end();
}

TEST(stack_get_after_reserve_needs_no_address_space)
{
	enum { N = 1000 };
	static char *lo[N];

	begin();
	for (int i = 0; i < N; i += 40)
		CHECK_EQ(stack_reserve(KLASS, 40), 0);
	pieces = 0; /* every further reservation fails */
	for (int i = 0; i < N; i++)
		lo[i] = get(KLASS);
	check_apart(lo, N, SIZE);
	for (int i = 0; i < N; i++)
		stack_put(lo[i], KLASS);
	for (int i = 0; i < N; i++)
		lo[i] = get(KLASS);
	check_apart(lo, N, SIZE);
	CHECK_EQ(stack_counts().made, N);
	end();
}

TEST(stack_get_after_reserve_succeeds_while_caches_are_full)
{
	enum { N = 300, CACHES = 4 };
	static struct stackcache cache[CACHES];
	static char *lo[N];

	begin();
	CHECK_EQ(stack_reserve(KLASS, N + CACHES * STACK_CACHE), 0);
	pieces = 0;
	for (int k = 0; k < CACHES; k++)
		for (cache[k].n = 0; cache[k].n < STACK_CACHE; cache[k].n++)
			cache[k].lo[cache[k].n] = get(KLASS);
	for (int i = 0; i < N; i++)
		lo[i] = get(KLASS);
	check_apart(lo, N, SIZE);
	end();
}

TEST(stack_unreserve_lets_next_reserve_reuse_stacks)
{
	char *lo[16];

	begin();
	CHECK_EQ(stack_reserve(KLASS, 16), 0);
	pieces = 0;
	for (int round = 0; round < 100; round++) {
		for (int i = 0; i < 16; i++)
			lo[i] = get(KLASS);
		for (int i = 0; i < 16; i++)
			stack_put(lo[i], KLASS);
		stack_unreserve(KLASS, 16);
		CHECK_EQ(stack_reserve(KLASS, 16), 0);
	}
	CHECK_EQ(stack_counts().made, 16);
	end();
}

TEST(stack_class_determines_size)
{
	for (unsigned k = STACK_CLASS_MIN; k <= STACK_CLASS_MAX; k++) {
		size_t size = (size_t)1 << k;
		char *lo[2];

		begin();
		CHECK_EQ(stack_reserve(k, 2), 0);
		lo[0] = get(k);
		lo[1] = get(k);
		for (int i = 0; i < 2; i++) {
			lo[i][0] = 1; /* the whole stack is usable */
			lo[i][size - 1] = 1;
		}
		check_apart(lo, 2, size + STACK_GUARD);
		stack_put(lo[0], k);
		stack_put(lo[1], k);
		CHECK_EQ(stack_counts().made, 2);
		end();
	}
}

TEST(stack_get_returns_stack_of_own_class)
{
	begin();
	CHECK_EQ(stack_reserve(14, 2), 0);
	CHECK_EQ(stack_reserve(16, 1), 0);
	char *small = get(14), *large = get(16);

	stack_put(small, 14);
	stack_put(large, 16);
	CHECK(get(14) == small);
	CHECK(get(14) != large);
	CHECK(get(16) == large);
	end();
}

TEST(stack_top_is_aligned_and_coloured)
{
	enum { N = 256 };
	bool seen[STACK_COLOURS] = { false };
	unsigned colours = 0;

	begin();
	CHECK_EQ(stack_reserve(14, N), 0);
	for (int i = 0; i < N; i++) {
		char *lo = get(14), *top = stack_top(lo, 14);
		size_t off = (size_t)(lo + (1 << 14) - top);

		CHECK_EQ((uintptr_t)top % 16, 0);
		CHECK_EQ(off % CACHE_LINE, 0);
		CHECK(off < STACK_COLOURS * CACHE_LINE);
		CHECK(top == stack_top(lo, 14));
		colours += !seen[off / CACHE_LINE];
		seen[off / CACHE_LINE] = true;
	}
	CHECK(colours >= STACK_COLOURS / 2);
	end();
}

/* --- caches --- */

TEST(stackcache_spill_returns_coldest_half_to_pool)
{
	struct stackcache c = { .most = STACK_CACHE };
	char *was[STACK_CACHE];

	begin();
	CHECK_EQ(stack_reserve(KLASS, STACK_CACHE), 0);
	for (int i = 0; i < STACK_CACHE; i++)
		c.lo[c.n++] = was[i] = get(KLASS);
	stackcache_spill(&c);
	CHECK_EQ(c.n, STACK_CACHE / 2);
	for (int i = 0; i < STACK_CACHE / 2; i++)
		CHECK(c.lo[i] == was[STACK_CACHE / 2 + i]);
	stackcache_flush(&c);
	CHECK_EQ(c.n, 0);
	stackcache_flush(&c);
	/* refilled by a half, the warmest used first */
	CHECK(stackcache_take(&c) == was[STACK_CACHE - 1]);
	CHECK_EQ(c.n, STACK_CACHE / 2 - 1);
	CHECK(c.lo[c.n - 1] == was[STACK_CACHE - 2]);
	CHECK(c.lo[0] == was[STACK_CACHE / 2]);
	CHECK_EQ(stack_counts().made, STACK_CACHE);
	end();
}

/* --- without address space --- */

TEST(stack_init_without_address_space_returns_enomem)
{
	pieces = 0;
	CHECK_EQ(stack_init(LIMIT, KLASS), -ENOMEM);
	stack_fini();
	CHECK_EQ(held, 0);
}

TEST(stack_reserve_without_address_space_returns_enomem)
{
	begin();
	/* the allowed reservations: none; the list; a slab */
	for (long allowed = 0; allowed < 3; allowed++) {
		pieces = allowed;
		most = 8 << 20; /* enough for the list and for slabs of one stack */
		CHECK_EQ(stack_reserve(KLASS, 1), -ENOMEM);
		CHECK_EQ(stack_counts().made, 0);
		if (allowed < 2) { /* with 2 reservations there is a slab of one stack */
			CHECK(stack_get(KLASS) == NULL);
			CHECK(!stackcache_take(&(struct stackcache){ .most = STACK_CACHE }));
		}
	}
	pieces = LONG_MAX;
	most = SIZE_MAX;
	CHECK_EQ(stack_reserve(KLASS, 100), 0);
	pieces = 0;
	for (int i = 0; i < 100; i++)
		get(KLASS);
	end();
}

TEST(stack_reserve_with_small_pieces_makes_single_stacks)
{
	char *lo[5];

	most = 8 << 20; /* too little for a slab of the usual size */
	begin();
	CHECK_EQ(stack_reserve(KLASS, 5), 0);
	pieces = 0;
	for (int i = 0; i < 5; i++)
		lo[i] = get(KLASS);
	check_apart(lo, 5, SIZE);
	check_guarded(lo[4]);
	end();
}

/* --- releasing memory --- */

TEST(stack_trim_releases_pages_below_sp_only)
{
	/* within and beyond one mincore of 64 pages */
	static const unsigned depth[] = { 8, 70, 200 };

	begin();
	CHECK_EQ(stack_reserve(20, 1), 0);
	char *lo = get(20), *top = lo + (1 << 20);
	uint64_t given = 0;

	for (unsigned i = 0; i < countof(depth); i++) {
		char *from = top - (size_t)depth[i] * PAGE, *sp = top - 4 * PAGE + 300;

		memset(from, 7, (size_t)depth[i] * PAGE);
		CHECK_EQ(stack_trim_below(lo, sp), (depth[i] - 4) * PAGE);
		given += (uint64_t)(depth[i] - 4) * PAGE;
		CHECK_EQ(stack_counts().trimmed_bytes, given);
		CHECK_EQ(resident(lo, top - 4 * PAGE), 0);
		CHECK_EQ(resident(top - 4 * PAGE, top), 4);
		for (char *p = top - 4 * PAGE; p < top; p++)
			CHECK_EQ(*p, 7);
		CHECK_EQ(stack_trim_below(lo, sp), 0);
	}
	end();
}

TEST(stack_trim_keeps_red_zone_below_sp)
{
	begin();
	CHECK_EQ(stack_reserve(KLASS, 1), 0);
	char *lo = get(KLASS), *top = lo + SIZE;

	memset(top - 8 * PAGE, 7, 8 * PAGE);
	/* sp less 256 lies in the page below */
	CHECK_EQ(stack_trim_below(lo, top - 4 * PAGE + 255), 3 * PAGE);
	CHECK_EQ(resident(top - 5 * PAGE, top), 5);
	CHECK_EQ((top - 5 * PAGE)[0], 7);
	end();
}

TEST(stack_trim_of_whole_stack_stops_at_guard)
{
	begin();
	CHECK_EQ(stack_reserve(KLASS, 1), 0);
	char *lo = get(KLASS);

	memset(lo, 7, SIZE);
	CHECK_EQ(stack_trim_below(lo, lo + SIZE + 256), SIZE);
	CHECK_EQ(resident(lo, lo + SIZE), 0);
	CHECK_EQ(stack_trim_below(lo, lo + PAGE), 0);
	CHECK_EQ(stack_trim_below(lo, lo), 0);
	check_guarded(lo);
	end();
}

TEST(stack_trim_of_pooled_stack_releases_pages_below_gap)
{
	begin();
	CHECK_EQ(stack_reserve(22, 1), 0);
	char *lo = get(22), *top = lo + (4 << 20);

	memset(top - PAGE, 7, PAGE);
	memset(top - (2 << 20), 7, PAGE); /* below an array that was not written to */
	stack_put(lo, 22);
	for (int i = 0; i < 3; i++)
		stack_trim_pool(1000, true);
	CHECK_EQ(resident(lo, top), 0);
	CHECK_EQ(stack_counts().trimmed_bytes, 2 * PAGE);
	end();
}

enum { POOLED = 60 };

/* Pools `made` touched stacks, of which the last `warm` are reused in the second period. */
static void check_pool(unsigned made, unsigned warm, unsigned at_once)
{
	char *lo[POOLED], *now[POOLED];
	bool is_warm;

	begin();
	CHECK_EQ(stack_reserve(KLASS, made), 0);
	for (unsigned i = 0; i < made; i++)
		lo[i] = get(KLASS);
	for (unsigned i = 0; i < made; i++) {
		memset(lo[i] + SIZE - 2 * PAGE, 7, 2 * PAGE);
		stack_put(lo[i], KLASS);
	}
	CHECK(stack_trim_pool(1000, true));  /* all were in use in the first period */
	CHECK(stack_trim_pool(1000, false)); /* the second period has only begun */
	CHECK_EQ(stack_counts().trimmed_bytes, 0);
	for (unsigned i = 0; i < warm; i++)
		now[i] = get(KLASS);
	for (unsigned i = warm; i-- > 0;)
		stack_put(now[i], KLASS);
	CHECK(stack_trim_pool(1000, true));
	for (unsigned i = 0; i < made; i += at_once)
		stack_trim_pool(at_once, false);
	CHECK_EQ(stack_counts().trimmed_bytes, (made - warm) * 2 * PAGE);
	for (unsigned i = 0; i < made; i++) {
		is_warm = i >= made - warm;
		CHECK_EQ(resident(lo[i] + SIZE - 2 * PAGE, lo[i] + SIZE), is_warm ? 2 : 0);
	}
	/* the warm stacks are returned first */
	for (unsigned i = 0; i < warm; i++) {
		char *p = get(KLASS);

		CHECK_EQ(resident(p + SIZE - 2 * PAGE, p + SIZE), 2);
	}
	end();
}

TEST(stack_pool_trim_releases_unused_stacks)
{
	check_pool(10, 4, 1000);
}

TEST(stack_pool_trim_keeps_warm_stacks)
{
	check_pool(POOLED, 10, 1000);
}

TEST(stack_pool_trim_in_steps_keeps_warm_stacks)
{
	check_pool(POOLED, 25, 16);
}

TEST(stack_pool_trim_of_unused_pool_releases_all)
{
	check_pool(POOLED, 0, 1000);
}

TEST(stack_pool_trim_keeps_each_stack_once)
{
	char *lo[POOLED], *now[POOLED];

	begin();
	CHECK_EQ(stack_reserve(KLASS, POOLED), 0);
	for (int i = 0; i < POOLED; i++)
		lo[i] = get(KLASS);
	for (int i = 0; i < POOLED; i++)
		stack_put(lo[i], KLASS);
	check_apart(lo, POOLED, SIZE);
	for (int round = 0; round < 50; round++) {
		int n = round * 7 % POOLED;

		for (int i = 0; i < n; i++) {
			now[i] = get(KLASS);
			now[i][SIZE - 1] = 1;
		}
		stack_trim_pool(1 + (unsigned)round % 20, round % 3 == 0);
		for (int i = 0; i < n; i++)
			stack_put(now[i], KLASS);
		stack_trim_pool(1 + (unsigned)round % 20, round % 2 == 0);
	}
	for (int i = 0; i < POOLED; i++)
		now[i] = get(KLASS);
	check_apart(now, POOLED, SIZE);
	CHECK(memcmp(lo, now, sizeof(lo)) == 0);
	CHECK_EQ(stack_counts().made, POOLED);
	end();
}

/* --- begin and end --- */

static unsigned mappings(void)
{
	static char text[1 << 16];
	int fd = open("/proc/self/maps", O_RDONLY);
	unsigned lines = 0;
	ssize_t n;

	CHECK(fd >= 0);
	while ((n = read(fd, text, sizeof(text))) > 0)
		for (ssize_t i = 0; i < n; i++)
			lines += text[i] == '\n';
	close(fd);
	return lines;
}

TEST(stack_fini_unmaps_everything)
{
	light_err = -EINVAL; /* mprotect guards, which split mappings */
	unsigned before = mappings();

	for (int round = 0; round < 3; round++) {
		begin();
		for (unsigned k = 14; k <= 20; k++) {
			CHECK_EQ(stack_reserve(k, 300), 0);
			for (int i = 0; i < 300; i++)
				get(k)[0] = 1;
		}
		CHECK(mappings() > before + 1000);
		CHECK_EQ(stack_counts().made, 7 * 300);
		end();
		CHECK_EQ(stack_counts().made, 0);
#if !defined(SAN_ADDRESS) && !defined(SAN_THREAD)
		CHECK_EQ(mappings(), before);
#endif
	}
}

TEST(stack_forget_allows_new_init)
{
	begin();
	CHECK_EQ(stack_reserve(KLASS, 1), 0);
	char *lo = get(KLASS);

	lo[0] = 7;
	stack_forget();
	CHECK_EQ(stack_counts().made, 0);
	held = 0;
	begin();
	CHECK_EQ(stack_reserve(KLASS, 1), 0);
	CHECK(get(KLASS) != lo);
	CHECK_EQ(lo[0], 7); /* still mapped */
	end();
}
