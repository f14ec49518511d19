/* SPDX-License-Identifier: MIT */
/* Definitions for every file: compiler hints, min_of and max_of, sizes, decimal numbers. */
#ifndef GMP_BASE_H
#define GMP_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arch.h"

/* SAN_ADDRESS, SAN_THREAD: the sanitizer that the file is compiled with (base/san.h). */
#if defined(__SANITIZE_ADDRESS__)
#define SAN_ADDRESS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SAN_ADDRESS 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define SAN_THREAD 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SAN_THREAD 1
#endif
#endif

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define noinline __attribute__((__noinline__))
#define always_inline inline __attribute__((__always_inline__))
#define aligned_to(n) __attribute__((aligned(n)))
#define countof(a) (sizeof(a) / sizeof((a)[0]))
#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
/* min_of and max_of evaluate each argument once. */
#define min_of(a, b)                                                                               \
	__extension__({                                                                            \
		__auto_type min_a = (a);                                                           \
		__auto_type min_b = (b);                                                           \
		min_a < min_b ? min_a : min_b;                                                     \
	})
#define max_of(a, b)                                                                               \
	__extension__({                                                                            \
		__auto_type max_a = (a);                                                           \
		__auto_type max_b = (b);                                                           \
		max_a > max_b ? max_a : max_b;                                                     \
	})

enum { CACHE_LINE = 64, PAGE = 4096 };

/* Durations in ns, of type int64_t. */
#define US INT64_C(1000)
#define MS INT64_C(1000000)
#define S INT64_C(1000000000)

/* No deadline; the public GMP_FOREVER. */
#define NEVER INT64_MAX

static inline size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) & ~(to - 1); /* `to` is a power of two */
}

static inline unsigned log2_ceil(uint64_t n)
{
	return n <= 1 ? 0 : 64 - (unsigned)__builtin_clzll(n - 1);
}

/* Set *out to the decimal number in the n bytes at s.  Returns false if they are not digits, or the
 * number is larger than `most`. */
static inline bool parse_decimal(const char *s, size_t n, uint64_t most, uint64_t *out)
{
	uint64_t v = 0;

	for (size_t i = 0; i < n; i++) {
		unsigned digit = (unsigned char)s[i] - (unsigned)'0';

		if (digit > 9 || v > most / 10 || digit > most - v * 10)
			return false;
		v = v * 10 + digit;
	}
	*out = v;
	return n > 0;
}

/* About 10 microseconds in cpu_ticks: 5 to 25 on machines between 5 and 1 GHz. */
enum { TICKS_10US = 25000 };

#endif
