/* SPDX-License-Identifier: MIT */
/*
 * Where are the keys and their values kept, so that many connections can use them at once?
 *
 * The upper eight bits of a key's hash choose the shard, the lower ones the slot.  A shard is an
 * array of slots that is searched from the key's own slot on to the first empty one.  A slot has
 * the whole hash beside the pointer, so a search reads an entry only if it is almost certainly the
 * right one, and growing reads none at all.
 *
 * Invariants, for each shard:
 *
 *   1. Between the slot that an entry's hash names and the slot where it stands none is empty.
 *      Removing an entry therefore moves up those behind it.
 *   2. At least a quarter of the slots is empty, so every search ends.
 *   3. `mortals` counts the entries with `expires` set.
 *   4. An entry whose time is over is not found, whether or not it has been removed yet.  A reader
 *      only has the read lock, so it leaves the removal to the next writer of the key or the sweep.
 */
#include "kvtable.h"

#include <gmp.h>

#include <stdalign.h>
#include <stdlib.h>
#include <sys/random.h>

#define SLOTS_FIRST 16
#define SWEEP_STEP 64  /* slots looked at under one write lock */
#define SWEEP_STEPS 16 /* most steps in a shard, while they find much to remove */

struct slot {
	uint64_t hash;
	struct kv_entry *entry; /* NULL: the slot is empty */
};

struct shard {
	alignas(64) gmp_rwmutex lock; /* guards the rest */
	struct slot *slots;
	size_t size; /* a power of two, or 0 */
	size_t count;
	size_t mortals;
	size_t sweep_at;
};

struct kv_table {
	struct shard shards[KV_SHARDS];
	uint64_t seed;
};

static struct shard *shard_of(const struct kv_table *t, uint64_t hash)
{
	return (struct shard *)&t->shards[hash >> 56];
}

int64_t kv_now(void)
{
	return gmp_now() / 1000000 + 1;
}

/* -------------------------------------------------------------------- Hashing */

__extension__ typedef unsigned __int128 u128;

/* Two odd numbers with as many ones as zeros, in no order. */
#define SALT_A 0x9e3779b97f4a7c15u
#define SALT_B 0xd6e8feb86659fd93u

static uint64_t mix(uint64_t a, uint64_t b)
{
	u128 product = (u128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t load8(const char *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

/* Sixteen bytes a step; the last step ends where the key ends, and may overlap the one before. */
uint64_t kv_hash(const struct kv_table *t, struct slice key)
{
	uint64_t hash = t->seed ^ mix(key.len ^ SALT_A, SALT_B);
	const char *at = key.at;
	size_t left = key.len;
	char tail[16] = { 0 };

	for (; left > 16; left -= 16, at += 16)
		hash = mix(load8(at) ^ SALT_A, load8(at + 8) ^ hash);
	if (key.len >= 16) {
		at = key.at + key.len - 16;
	} else {
		memcpy(tail, at, left);
		at = tail;
	}
	hash = mix(load8(at) ^ SALT_A, load8(at + 8) ^ hash);
	return mix(hash ^ SALT_A, SALT_B);
}

/* -------------------------------------------------------------------- Locking */

void kv_read_lock(struct kv_table *t, uint64_t hash)
{
	gmp_rwmutex_rlock(&shard_of(t, hash)->lock);
}

void kv_read_unlock(struct kv_table *t, uint64_t hash)
{
	gmp_rwmutex_runlock(&shard_of(t, hash)->lock);
}

void kv_write_lock(struct kv_table *t, uint64_t hash)
{
	gmp_rwmutex_lock(&shard_of(t, hash)->lock);
}

void kv_write_unlock(struct kv_table *t, uint64_t hash)
{
	gmp_rwmutex_unlock(&shard_of(t, hash)->lock);
}

void kv_shards_add(struct kv_shards *s, uint64_t hash)
{
	s->bits[hash >> 62] |= UINT64_C(1) << (hash >> 56 & 63);
}

static void for_each_shard(struct kv_table *t, const struct kv_shards *s, int (*fn)(gmp_rwmutex *))
{
	for (int word = 0; word < KV_SHARDS / 64; word++)
		for (uint64_t bits = s->bits[word]; bits; bits &= bits - 1)
			fn(&t->shards[word * 64 + __builtin_ctzll(bits)].lock);
}

void kv_shards_read_lock(struct kv_table *t, const struct kv_shards *s)
{
	for_each_shard(t, s, gmp_rwmutex_rlock);
}

void kv_shards_read_unlock(struct kv_table *t, const struct kv_shards *s)
{
	for_each_shard(t, s, gmp_rwmutex_runlock);
}

void kv_shards_write_lock(struct kv_table *t, const struct kv_shards *s)
{
	for_each_shard(t, s, gmp_rwmutex_lock);
}

void kv_shards_write_unlock(struct kv_table *t, const struct kv_shards *s)
{
	for_each_shard(t, s, gmp_rwmutex_unlock);
}

/* ------------------------------------------------------- The slots of a shard */

static bool is_over(const struct kv_entry *e)
{
	return e->expires != 0 && e->expires <= kv_now();
}

/* The key's slot; NULL when it has none. */
static struct slot *find_slot(const struct shard *sh, uint64_t hash, struct slice key)
{
	size_t mask = sh->size - 1;

	if (sh->size == 0)
		return NULL;
	for (size_t i = hash & mask; sh->slots[i].entry; i = (i + 1) & mask) {
		const struct kv_entry *e = sh->slots[i].entry;

		if (sh->slots[i].hash == hash && e->key_len == key.len &&
		    memcmp(e->bytes, key.at, key.len) == 0)
			return &sh->slots[i];
	}
	return NULL;
}

/* For an entry that the array does not have yet. */
static void put_slot(struct slot *slots, size_t size, struct slot added)
{
	size_t i = added.hash & (size - 1);

	while (slots[i].entry)
		i = (i + 1) & (size - 1);
	slots[i] = added;
}

static bool resize(struct shard *sh, size_t size)
{
	struct slot *slots = calloc(size, sizeof(*slots));

	if (!slots)
		return false;
	for (size_t i = 0; i < sh->size; i++)
		if (sh->slots[i].entry)
			put_slot(slots, size, sh->slots[i]);
	free(sh->slots);
	sh->slots = slots;
	sh->size = size;
	return true;
}

static bool insert(struct shard *sh, uint64_t hash, struct kv_entry *e)
{
	if ((sh->count + 1) * 4 > sh->size * 3 &&
	    !resize(sh, sh->size ? 2 * sh->size : SLOTS_FIRST))
		return false;
	put_slot(sh->slots, sh->size, (struct slot){ hash, e });
	sh->count++;
	sh->mortals += e->expires != 0;
	return true;
}

static void remove_slot(struct shard *sh, size_t hole)
{
	size_t mask = sh->size - 1;

	sh->count--;
	sh->mortals -= sh->slots[hole].entry->expires != 0;
	free(sh->slots[hole].entry);
	for (size_t i = (hole + 1) & mask; sh->slots[i].entry; i = (i + 1) & mask) {
		size_t home = sh->slots[i].hash & mask;

		/* It may move up unless its own slot lies behind the hole. */
		if (((i - home) & mask) >= ((i - hole) & mask)) {
			sh->slots[hole] = sh->slots[i];
			hole = i;
		}
	}
	sh->slots[hole].entry = NULL;
}

static void shrink(struct shard *sh)
{
	if (sh->size > SLOTS_FIRST && sh->count * 8 < sh->size)
		resize(sh, sh->size / 2);
}

/* -------------------------------------------------------------------- Entries */

static struct kv_entry *new_entry(struct slice key, struct slice value, int64_t expires)
{
	size_t size = offsetof(struct kv_entry, bytes) + key.len + value.len;
	size_t rounded = (size + 7) & ~(size_t)7;
	struct kv_entry *e = malloc(rounded);

	if (!e)
		return NULL;
	e->expires = expires;
	e->key_len = (uint32_t)key.len;
	e->value_len = (uint32_t)value.len;
	e->value_room = (uint32_t)(value.len + (rounded - size));
	memcpy(e->bytes, key.at, key.len);
	memcpy(e->bytes + key.len, value.at, value.len);
	return e;
}

/* Whether the value fits, and would not leave most of a large block unused. */
static bool suits(const struct kv_entry *e, size_t value_len)
{
	return value_len <= e->value_room && e->value_room <= 2 * value_len + 64;
}

struct kv_entry *kv_find_locked(const struct kv_table *t, uint64_t hash, struct slice key)
{
	const struct slot *slot = find_slot(shard_of(t, hash), hash, key);

	return slot && !is_over(slot->entry) ? slot->entry : NULL;
}

void kv_expire_locked(struct kv_table *t, uint64_t hash, struct kv_entry *e, int64_t expires)
{
	struct shard *sh = shard_of(t, hash);

	sh->mortals -= e->expires != 0;
	e->expires = expires;
	sh->mortals += e->expires != 0;
}

bool kv_put_locked(struct kv_table *t, uint64_t hash, struct slice key, struct slice value,
		   int64_t expires)
{
	struct shard *sh = shard_of(t, hash);
	struct slot *slot = find_slot(sh, hash, key);
	struct kv_entry *e;

	if (slot && suits(slot->entry, value.len)) {
		e = slot->entry;
		memcpy(e->bytes + e->key_len, value.at, value.len);
		e->value_len = (uint32_t)value.len;
		kv_expire_locked(t, hash, e, expires);
		return true;
	}
	e = new_entry(key, value, expires);
	if (!e)
		return false;
	if (slot) {
		sh->mortals += (expires != 0) - (size_t)(slot->entry->expires != 0);
		free(slot->entry);
		slot->entry = e;
		return true;
	}
	if (insert(sh, hash, e))
		return true;
	free(e);
	return false;
}

bool kv_erase_locked(struct kv_table *t, uint64_t hash, struct slice key)
{
	struct shard *sh = shard_of(t, hash);
	const struct slot *slot = find_slot(sh, hash, key);
	bool was_there;

	if (!slot)
		return false;
	was_there = !is_over(slot->entry);
	remove_slot(sh, (size_t)(slot - sh->slots));
	shrink(sh);
	return was_there;
}

/* ------------------------------------------------------------ The whole table */

struct kv_table *kv_table_new(void)
{
	struct kv_table *t = aligned_alloc(alignof(struct kv_table), sizeof(*t));

	if (!t)
		return NULL;
	memset(t, 0, sizeof(*t));
	if (getrandom(&t->seed, sizeof(t->seed), 0) != sizeof(t->seed))
		t->seed = (uint64_t)gmp_now();
	return t;
}

void kv_table_free(struct kv_table *t)
{
	if (!t)
		return;
	kv_clear(t);
	free(t);
}

int64_t kv_count(struct kv_table *t)
{
	size_t count = 0;

	for (struct shard *sh = t->shards; sh < t->shards + KV_SHARDS; sh++) {
		gmp_rwmutex_rlock(&sh->lock);
		count += sh->count;
		gmp_rwmutex_runlock(&sh->lock);
	}
	return (int64_t)count;
}

static void clear_shard(struct shard *sh)
{
	struct slot *slots;
	size_t size;

	gmp_rwmutex_lock(&sh->lock);
	slots = sh->slots;
	size = sh->size;
	sh->slots = NULL;
	sh->size = 0;
	sh->count = 0;
	sh->mortals = 0;
	gmp_rwmutex_unlock(&sh->lock);

	for (size_t i = 0; i < size; i++)
		free(slots[i].entry);
	free(slots);
}

void kv_clear(struct kv_table *t)
{
	for (struct shard *sh = t->shards; sh < t->shards + KV_SHARDS; sh++)
		clear_shard(sh);
}

/* Look at the next few slots.  Returns whether much of what could end had ended. */
static bool sweep_step(struct shard *sh)
{
	size_t mortals = 0;
	size_t removed = 0;

	for (size_t n = 0; n < SWEEP_STEP && n < sh->size; n++) {
		size_t i = sh->sweep_at & (sh->size - 1);
		const struct kv_entry *e = sh->slots[i].entry;

		mortals += e && e->expires != 0;
		if (e && is_over(e)) {
			remove_slot(sh, i); /* another entry may stand there now */
			removed++;
		} else {
			sh->sweep_at = i + 1;
		}
	}
	shrink(sh);
	return removed * 4 > mortals;
}

bool kv_sweep(struct kv_table *t)
{
	bool any = false;

	for (struct shard *sh = t->shards; sh < t->shards + KV_SHARDS; sh++) {
		bool again = true;

		for (int step = 0; again && step < SWEEP_STEPS; step++) {
			gmp_rwmutex_lock(&sh->lock);
			again = sh->mortals > 0 && sweep_step(sh);
			any |= sh->mortals > 0;
			gmp_rwmutex_unlock(&sh->lock);
		}
	}
	return any;
}
