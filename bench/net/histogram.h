/* SPDX-License-Identifier: MIT */
/* Histogram of latencies: 32 buckets to each power of two, which are off by 3 % at most. */
#ifndef NET_HISTOGRAM_H
#define NET_HISTOGRAM_H

#include <stdint.h>

enum { SUB_BITS = 5, SUBS = 1 << SUB_BITS, BUCKETS = 64 * SUBS };

struct histogram {
	uint64_t count;
	uint64_t buckets[BUCKETS];
};

static inline unsigned bucket_of(uint64_t ns)
{
	if (ns < SUBS)
		return (unsigned)ns;
	unsigned shift = 63 - (unsigned)__builtin_clzll(ns) - SUB_BITS;

	return (shift + 1) * SUBS + (unsigned)(ns >> shift) - SUBS;
}

static inline uint64_t middle_of(unsigned bucket)
{
	if (bucket < SUBS)
		return bucket;
	unsigned shift = bucket / SUBS - 1;

	return ((uint64_t)(bucket % SUBS + SUBS) << shift) + (((uint64_t)1 << shift) / 2);
}

static inline void histogram_add(struct histogram *h, uint64_t ns)
{
	h->count++;
	h->buckets[bucket_of(ns)]++;
}

static inline uint64_t percentile(const struct histogram *h, double share)
{
	uint64_t want = (uint64_t)((double)h->count * share), seen = 0;

	for (unsigned i = 0; i < BUCKETS; i++) {
		seen += h->buckets[i];
		if (seen > want)
			return middle_of(i);
	}
	return 0;
}

#endif
