/* SPDX-License-Identifier: MIT */
/*
 * SipHash: hashes byte strings under a secret key, for hash tables whose keys clients choose.
 *
 * Without the key, two strings that collide can be found only by chance (Aumasson and Bernstein,
 * "SipHash: a fast short-input PRF", 2012). A hash that only mixes a seed into the first block
 * gives no such guarantee: for many such hashes, strings are known that collide under every seed.
 *
 * SipHash-c-d does c rounds for each eight bytes and d rounds at the end. SipHash-2-4 is the
 * conservative choice; SipHash-1-3 is what hash tables commonly use (Rust, CPython), at about two
 * thirds of the cost for short keys.
 */
#ifndef EXAMPLES_SIPHASH_H
#define EXAMPLES_SIPHASH_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct siphash_key {
	uint64_t words[2]; /* the 16 bytes of the key as two little-endian numbers */
};

struct siphash_state {
	uint64_t v0, v1, v2, v3;
};

static inline uint64_t siphash_rotate(uint64_t x, int bits)
{
	return x << bits | x >> (64 - bits);
}

static inline uint64_t siphash_load(const char *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return le64toh(word);
}

static inline void siphash_rounds(struct siphash_state *s, int rounds)
{
	for (int i = 0; i < rounds; i++) {
		s->v0 += s->v1;
		s->v2 += s->v3;
		s->v1 = siphash_rotate(s->v1, 13) ^ s->v0;
		s->v3 = siphash_rotate(s->v3, 16) ^ s->v2;
		s->v0 = siphash_rotate(s->v0, 32);
		s->v2 += s->v1;
		s->v0 += s->v3;
		s->v1 = siphash_rotate(s->v1, 17) ^ s->v2;
		s->v3 = siphash_rotate(s->v3, 21) ^ s->v0;
		s->v2 = siphash_rotate(s->v2, 32);
	}
}

static inline void siphash_word(struct siphash_state *s, uint64_t word, int rounds)
{
	s->v3 ^= word;
	siphash_rounds(s, rounds);
	s->v0 ^= word;
}

/* The last one to seven bytes, and the length in the topmost byte. */
static inline uint64_t siphash_last_word(const char *at, size_t left, size_t n)
{
	uint64_t word = (uint64_t)n << 56;

	for (size_t i = 0; i < left; i++)
		word |= (uint64_t)(unsigned char)at[i] << (8 * i);
	return word;
}

/* SipHash-c-d of the n bytes at `at`.  Inlined: c and d are constants in each caller. */
static inline uint64_t siphash(int c, int d, const struct siphash_key *key, const char *at,
			       size_t n)
{
	struct siphash_state s = {
		key->words[0] ^ UINT64_C(0x736f6d6570736575),
		key->words[1] ^ UINT64_C(0x646f72616e646f6d),
		key->words[0] ^ UINT64_C(0x6c7967656e657261),
		key->words[1] ^ UINT64_C(0x7465646279746573),
	};
	size_t left = n;

	for (; left >= 8; left -= 8, at += 8)
		siphash_word(&s, siphash_load(at), c);
	siphash_word(&s, siphash_last_word(at, left, n), c);
	s.v2 ^= 0xff;
	siphash_rounds(&s, d);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

static inline uint64_t siphash13(const struct siphash_key *key, const char *at, size_t n)
{
	return siphash(1, 3, key, at, n);
}

static inline uint64_t siphash24(const struct siphash_key *key, const char *at, size_t n)
{
	return siphash(2, 4, key, at, n);
}

#endif
