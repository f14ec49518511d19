/* SPDX-License-Identifier: MIT */
/*
 * Hash table of kvserver: uses extendible hashing, with linear probing in each segment.
 *
 * The upper eight bits of a key's hash choose the shard. The `depth` bits below them choose an
 * entry of the shard's directory, which points to a segment. The lowest bits choose the home slot.
 * A segment is an array of slots; a search runs from the home slot to the first empty slot. A slot
 * holds the whole hash beside the pointer, so a search reads an entry only if its hash is that of
 * the key, and growing reads no entry.
 *
 * A segment grows up to KV_SEGMENT slots. If it is full then, it is split in two by the next bit of
 * the hash. The work of one insertion is therefore bounded: it moves KV_SEGMENT slots at most. Only
 * the directory grows with the table. It is copied when it doubles: eight bytes for about 700 keys
 * of the shard.
 *
 * Rejected: one array for each shard that doubles. Its copy holds the lock for a time in proportion
 * to the table.
 *
 * Security: clients choose the keys, so the hash is SipHash-1-3 under a key that each table draws
 * at random (siphash.h).
 *
 * Invariants, for each shard:
 *
 *   KV-1. Between the home slot of an entry and the slot that holds it, no slot is empty. Removing
 *         an entry therefore moves up the entries behind it.
 *   KV-2. At least a quarter of the slots of a segment is empty, so every search ends.
 *   KV-3. `mortals` counts the entries with `expires` set, of the segment and of the shard.
 *   KV-4. An expired entry is not found, whether or not it has been removed yet. A reader has only
 *         the read lock, so the next writer of the key or the sweep removes the entry.
 *   KV-5. 2^(depth - d) adjacent entries of the directory point to a segment of depth d.
 *   KV-6. An entry with a long value is not changed in place, except for `expires`.
 */
#include "kvtable.h"

#include "siphash.h"

#include <gmp.h>

#include <errno.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/random.h>

#define SLOTS_FIRST 16
#define DEPTH_MOST 24  /* a directory of 128 MB; full segments at that depth double */
#define CLEAR_STEPS 64 /* segments that one step of clearing passes at most */
#define SWEEP_STEP 64  /* slots or segments checked under one write lock */
#define SWEEP_STEPS 16 /* steps per shard at most, while they find much to remove */

struct slot {
	uint64_t hash;
	struct kv_entry *entry; /* NULL: the slot is empty */
};

struct segment {
	struct slot *slots; /* NULL: size is 0 */
	size_t size;        /* a power of two, or 0 */
	size_t count;
	size_t mortals;
	size_t sweep_at;
	unsigned depth; /* bits of the hash that its keys have in common, below the shard's */
};

struct shard {
	alignas(64) gmp_rwmutex lock; /* guards the rest */
	struct segment **directory;   /* of 2^depth entries; NULL: the shard is empty */
	unsigned depth;
	size_t count;
	size_t mortals;
	size_t sweep_at; /* an entry of the directory */
};

struct kv_table {
	struct shard shards[KV_SHARDS];
	struct siphash_key key;
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

uint64_t kv_hash(const struct kv_table *t, struct slice key)
{
	return siphash13(&t->key, key.at, key.len);
}

/*
 * Without getrandom(2), as on a kernel before 3.17 or under a seccomp filter, the key is the 16
 * random bytes that the kernel gives each program (AT_RANDOM). Returns false if these are missing
 * too, because a predictable key gives no protection.
 */
static bool draw_key(struct siphash_key *key)
{
	const void *bytes;
	ssize_t n;

	do
		n = getrandom(key, sizeof(*key), 0);
	while (n < 0 && errno == EINTR);
	if (n == sizeof(*key))
		return true;
	bytes = (const void *)getauxval(AT_RANDOM); /* NOLINT(performance-no-int-to-ptr) */
	if (bytes)
		memcpy(key, bytes, sizeof(*key));
	return bytes != NULL;
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

/* ----------------------------------------------------- The slots of a segment */

static bool is_over(const struct kv_entry *e)
{
	return e->expires != 0 && e->expires <= kv_now();
}

/* Returns the key's slot, or NULL if the key is not in the segment. */
static struct slot *find_slot(const struct segment *seg, uint64_t hash, struct slice key)
{
	size_t mask;

	if (!seg || seg->size == 0)
		return NULL;
	mask = seg->size - 1;
	for (size_t i = hash & mask; seg->slots[i].entry; i = (i + 1) & mask) {
		const struct kv_entry *e = seg->slots[i].entry;

		if (seg->slots[i].hash == hash && e->key_len == key.len &&
		    memcmp(e->bytes, key.at, key.len) == 0)
			return &seg->slots[i];
	}
	return NULL;
}

/* Put an entry into a slot. The segment must not have the entry yet, and must have room for it. */
static void put_slot(struct segment *seg, struct slot added)
{
	size_t mask = seg->size - 1;
	size_t i = added.hash & mask;

	while (seg->slots[i].entry)
		i = (i + 1) & mask;
	seg->slots[i] = added;
	seg->count++;
	seg->mortals += added.entry->expires != 0;
}

/* Returns an empty segment; its slots are NULL if there is no memory. */
static struct segment empty_segment(size_t size, unsigned depth)
{
	struct slot *slots = calloc(size, sizeof(*slots));

	return (struct segment){ .slots = slots, .size = size, .depth = depth };
}

static bool resize(struct segment *seg, size_t size)
{
	struct segment resized = empty_segment(size, seg->depth);

	if (!resized.slots)
		return false;
	for (size_t i = 0; i < seg->size; i++)
		if (seg->slots[i].entry)
			put_slot(&resized, seg->slots[i]);
	free(seg->slots);
	*seg = resized;
	return true;
}

/* Remove the entry at `hole`. Returns it; the caller then owns it. */
static struct kv_entry *remove_slot(struct shard *sh, struct segment *seg, size_t hole)
{
	struct kv_entry *removed = seg->slots[hole].entry;
	size_t mask = seg->size - 1;

	seg->count--;
	sh->count--;
	seg->mortals -= removed->expires != 0;
	sh->mortals -= removed->expires != 0;
	for (size_t i = (hole + 1) & mask; seg->slots[i].entry; i = (i + 1) & mask) {
		size_t home = seg->slots[i].hash & mask;

		/* the entry may move up unless its home slot is behind the hole */
		if (((i - home) & mask) >= ((i - hole) & mask)) {
			seg->slots[hole] = seg->slots[i];
			hole = i;
		}
	}
	seg->slots[hole].entry = NULL;
	return removed;
}

static void shrink(struct segment *seg)
{
	if (seg->size > SLOTS_FIRST && seg->count * 8 < seg->size)
		resize(seg, seg->size / 2);
}

/* ---------------------------------------------------- The segments of a shard */

/* Returns the index of this hash in a directory with 2^depth entries. */
static size_t directory_index(uint64_t hash, unsigned depth)
{
	return (size_t)(hash << 8 >> 1 >> (63 - depth));
}

static struct segment *segment_of(const struct shard *sh, uint64_t hash)
{
	return sh->directory ? sh->directory[directory_index(hash, sh->depth)] : NULL;
}

static bool make_directory(struct shard *sh)
{
	struct segment **directory = malloc(sizeof(struct segment *));
	struct segment *seg = calloc(1, sizeof(*seg));

	if (!directory || !seg) {
		free(directory);
		free(seg);
		return false;
	}
	directory[0] = seg;
	sh->directory = directory;
	sh->depth = 0;
	sh->sweep_at = 0;
	return true;
}

static bool double_directory(struct shard *sh)
{
	size_t size = (size_t)1 << sh->depth;
	struct segment **directory = malloc(2 * size * sizeof(struct segment *));

	if (!directory)
		return false;
	for (size_t i = 0; i < 2 * size; i++)
		directory[i] = sh->directory[i / 2];
	free(sh->directory);
	sh->directory = directory;
	sh->depth++;
	sh->sweep_at *= 2;
	return true;
}

/* Split the segment of this hash by the next bit. Returns false if there is no memory. */
static bool split(struct shard *sh, uint64_t hash)
{
	struct segment *lower = segment_of(sh, hash);
	unsigned depth = lower->depth;
	struct segment *upper = malloc(sizeof(*upper));
	struct segment halves[2] = { empty_segment(lower->size, depth + 1),
				     empty_segment(lower->size, depth + 1) };
	size_t n;
	size_t first;

	if (!upper || !halves[0].slots || !halves[1].slots ||
	    (depth == sh->depth && !double_directory(sh))) {
		free(upper);
		free(halves[0].slots);
		free(halves[1].slots);
		return false;
	}
	for (size_t i = 0; i < lower->size; i++)
		if (lower->slots[i].entry)
			put_slot(&halves[lower->slots[i].hash >> (55 - depth) & 1],
				 lower->slots[i]);
	free(lower->slots);
	*lower = halves[0];
	*upper = halves[1];
	n = (size_t)1 << (sh->depth - depth);
	first = directory_index(hash, sh->depth) & ~(n - 1);
	for (size_t i = n / 2; i < n; i++)
		sh->directory[first + i] = upper;
	return true;
}

/* Returns the segment of this hash, with room for one more entry; NULL if there is no memory. */
static struct segment *segment_with_room(struct shard *sh, uint64_t hash)
{
	if (!sh->directory && !make_directory(sh))
		return NULL;
	for (;;) {
		struct segment *seg = segment_of(sh, hash);

		if ((seg->count + 1) * 4 <= seg->size * 3)
			return seg;
		if (seg->size < KV_SEGMENT || seg->depth == DEPTH_MOST) {
			if (!resize(seg, seg->size ? 2 * seg->size : SLOTS_FIRST))
				return NULL;
		} else if (!split(sh, hash)) {
			return NULL;
		}
	}
}

static bool insert(struct shard *sh, uint64_t hash, struct kv_entry *e)
{
	struct segment *seg = segment_with_room(sh, hash);

	if (!seg)
		return false;
	put_slot(seg, (struct slot){ hash, e });
	sh->count++;
	sh->mortals += e->expires != 0;
	return true;
}

/* -------------------------------------------------------------------- Entries */

static bool is_long(const struct kv_entry *e)
{
	return e->value_len > KV_COPY;
}

struct kv_entry *kv_entry_new(struct slice key, struct slice value, int64_t expires)
{
	size_t size = offsetof(struct kv_entry, bytes) + key.len + value.len;
	size_t rounded = (size + 7) & ~(size_t)7;
	struct kv_entry *e = malloc(rounded);

	if (!e)
		return NULL;
	e->expires = expires;
	e->key_len = (uint32_t)key.len;
	e->value_len = (uint32_t)value.len;
	if (is_long(e))
		atomic_init(&e->refs, 1);
	else
		e->value_room = (uint32_t)(value.len + (rounded - size));
	memcpy(e->bytes, key.at, key.len);
	memcpy(e->bytes + key.len, value.at, value.len);
	return e;
}

struct kv_entry *kv_entry_hold_locked(struct kv_entry *e)
{
	atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
	return e;
}

void kv_entry_release(struct kv_entry *e)
{
	if (e && (!is_long(e) || atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) == 1))
		free(e);
}

/* Returns whether the value fits, and would not leave most of a large block unused. */
static bool suits(const struct kv_entry *e, size_t value_len)
{
	return !is_long(e) && value_len <= e->value_room && e->value_room <= 2 * value_len + 64;
}

struct kv_entry *kv_find_locked(const struct kv_table *t, uint64_t hash, struct slice key)
{
	const struct slot *slot = find_slot(segment_of(shard_of(t, hash), hash), hash, key);

	return slot && !is_over(slot->entry) ? slot->entry : NULL;
}

static void change_mortals(struct shard *sh, struct segment *seg, int64_t before, int64_t after)
{
	size_t more = (size_t)(after != 0) - (size_t)(before != 0);

	seg->mortals += more;
	sh->mortals += more;
}

void kv_expire_locked(struct kv_table *t, uint64_t hash, struct kv_entry *e, int64_t expires)
{
	struct shard *sh = shard_of(t, hash);

	change_mortals(sh, segment_of(sh, hash), e->expires, expires);
	e->expires = expires;
}

bool kv_put_locked(struct kv_table *t, uint64_t hash, struct slice key, struct slice value,
		   int64_t expires, struct kv_entry **entry)
{
	struct shard *sh = shard_of(t, hash);
	struct segment *seg = segment_of(sh, hash);
	struct slot *slot = find_slot(seg, hash, key);
	struct kv_entry *e = *entry;

	if (!e && slot && suits(slot->entry, value.len)) {
		e = slot->entry;
		memcpy(e->bytes + e->key_len, value.at, value.len);
		e->value_len = (uint32_t)value.len;
		kv_expire_locked(t, hash, e, expires);
		return true;
	}
	if (!e)
		e = kv_entry_new(key, value, expires);
	*entry = e;
	if (!e)
		return false;
	if (slot) {
		change_mortals(sh, seg, slot->entry->expires, expires);
		*entry = slot->entry;
		slot->entry = e;
		return true;
	}
	if (!insert(sh, hash, e))
		return false;
	*entry = NULL;
	return true;
}

bool kv_erase_locked(struct kv_table *t, uint64_t hash, struct slice key, struct kv_entry **entry)
{
	struct shard *sh = shard_of(t, hash);
	struct segment *seg = segment_of(sh, hash);
	const struct slot *slot = find_slot(seg, hash, key);

	*entry = NULL;
	if (!slot)
		return false;
	*entry = remove_slot(sh, seg, (size_t)(slot - seg->slots));
	shrink(seg);
	return !is_over(*entry);
}

/* ------------------------------------------------------------ The whole table */

struct kv_table *kv_table_new(void)
{
	struct kv_table *t = aligned_alloc(alignof(struct kv_table), sizeof(*t));

	if (!t)
		return NULL;
	memset(t, 0, sizeof(*t));
	if (!draw_key(&t->key)) {
		free(t);
		return NULL;
	}
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

/* Parts that a step of clearing has removed from the table; they are freed without a lock. */
struct removed {
	struct slot *slots;
	size_t size;
	struct segment **directory; /* of segments without slots; NULL: not removed */
	size_t directory_size;
};

/* Remove the slots of the segment at *cursor, and the directory if the shard is then empty. *cursor
 * moves behind the removed part; 0: behind the last shard. */
static struct removed take_slots(struct kv_table *t, uint64_t *cursor)
{
	struct shard *sh = shard_of(t, *cursor);
	struct segment *seg;
	struct removed r = { 0 };
	unsigned depth = 0;

	gmp_rwmutex_lock(&sh->lock);
	seg = segment_of(sh, *cursor);
	if (seg) {
		depth = seg->depth;
		r.slots = seg->slots;
		r.size = seg->size;
		sh->count -= seg->count;
		sh->mortals -= seg->mortals;
		*seg = (struct segment){ .depth = depth };
	}
	if (seg && sh->count == 0) {
		r.directory = sh->directory;
		r.directory_size = (size_t)1 << sh->depth;
		sh->directory = NULL;
		sh->depth = 0;
		depth = 0;
	}
	gmp_rwmutex_unlock(&sh->lock);
	*cursor = (*cursor >> (56 - depth)) + 1;
	*cursor = *cursor >> (8 + depth) ? 0 : *cursor << (56 - depth);
	return r;
}

/* Returns the number of entries that were freed. */
static size_t free_removed(const struct removed *r)
{
	size_t count = 0;

	for (size_t i = 0; i < r->size; i++) {
		count += r->slots[i].entry != NULL;
		kv_entry_release(r->slots[i].entry);
	}
	free(r->slots);
	for (size_t i = 0; i < r->directory_size; i++) {
		if (i + 1 == r->directory_size || r->directory[i] != r->directory[i + 1]) {
			free(r->directory[i]->slots); /* NULL, or slots without entries */
			free(r->directory[i]);
		}
	}
	free(r->directory);
	return count;
}

bool kv_clear_some(struct kv_table *t, uint64_t *cursor)
{
	for (int i = 0; i < CLEAR_STEPS; i++) {
		const struct removed r = take_slots(t, cursor);
		size_t count = free_removed(&r);

		if (*cursor == 0)
			return false;
		if (count > 0)
			return true;
	}
	return true;
}

void kv_clear(struct kv_table *t)
{
	uint64_t cursor = 0;

	while (kv_clear_some(t, &cursor))
		;
}

/* Move the sweep to the segment behind `seg`. */
static void sweep_next_segment(struct shard *sh, struct segment *seg)
{
	size_t n = (size_t)1 << (sh->depth - seg->depth);

	seg->sweep_at = 0;
	sh->sweep_at = ((sh->sweep_at & ~(n - 1)) + n) & (((size_t)1 << sh->depth) - 1);
}

/* Returns the next segment to sweep; NULL if the next SWEEP_STEP segments have nothing to
 * expire. */
static struct segment *segment_to_sweep(struct shard *sh)
{
	for (int i = 0; i < SWEEP_STEP; i++) {
		struct segment *seg = sh->directory[sh->sweep_at];

		if (seg->mortals > 0 && seg->sweep_at < seg->size)
			return seg;
		sweep_next_segment(sh, seg);
	}
	return NULL;
}

/* Check the next SWEEP_STEP slots, and move expired entries to `dead`. Returns whether another step
 * pays: more than a quarter of the entries that can expire had expired, or none can expire. */
static bool sweep_step(struct shard *sh, struct kv_entry **dead)
{
	struct segment *seg = segment_to_sweep(sh);
	size_t mortals = 0;
	size_t removed = 0;

	if (!seg)
		return true;
	for (size_t n = 0; n < SWEEP_STEP && seg->sweep_at < seg->size; n++) {
		size_t i = seg->sweep_at;
		const struct kv_entry *e = seg->slots[i].entry;

		mortals += e && e->expires != 0;
		if (e && is_over(e))
			dead[removed++] =
				remove_slot(sh, seg, i); /* the slot may have another entry now */
		else
			seg->sweep_at++;
	}
	shrink(seg);
	return removed * 4 > mortals;
}

bool kv_sweep(struct kv_table *t)
{
	bool any = false;

	for (struct shard *sh = t->shards; sh < t->shards + KV_SHARDS; sh++) {
		bool again = true;

		for (int step = 0; again && step < SWEEP_STEPS; step++) {
			struct kv_entry *dead[SWEEP_STEP] = { NULL };

			gmp_rwmutex_lock(&sh->lock);
			again = sh->mortals > 0 && sweep_step(sh, dead);
			any |= sh->mortals > 0;
			gmp_rwmutex_unlock(&sh->lock);
			for (int i = 0; i < SWEEP_STEP && dead[i]; i++)
				kv_entry_release(dead[i]);
		}
	}
	return any;
}
