/* SPDX-License-Identifier: MIT */
/*
 * Where are the keys and their values kept, so that many connections can use them at once?
 *
 * In a table of 256 shards, each a hash table under a read-write lock of its own.  A command hashes
 * its key, locks the key's shard, uses the functions that end in _locked, and unlocks:
 *
 *   uint64_t hash = kv_hash(t, key);
 *   kv_read_lock(t, hash);
 *   const struct kv_entry *e = kv_find_locked(t, hash, key);
 *   ... what e holds stays as it is until ...
 *   kv_read_unlock(t, hash);
 *
 * A command of several keys locks all their shards in ascending order, so that two such commands
 * cannot wait for each other in a circle, and nobody sees one half done.
 */
#ifndef EXAMPLES_KVTABLE_H
#define EXAMPLES_KVTABLE_H

#include "resp.h"

#define KV_SHARDS 256

struct kv_table;

struct kv_entry {
	int64_t expires; /* a time of kv_now(); 0: never */
	uint32_t key_len;
	uint32_t value_len;
	uint32_t value_room; /* longest value that fits */
	char bytes[];        /* the key, then the value */
};

/* A set of shards, to be locked together. */
struct kv_shards {
	uint64_t bits[KV_SHARDS / 64];
};

struct kv_table *kv_table_new(void); /* NULL: no memory */
void kv_table_free(struct kv_table *t);

/* Milliseconds on the monotonic clock, the unit of `expires`; never 0. */
int64_t kv_now(void);

uint64_t kv_hash(const struct kv_table *t, struct slice key);

void kv_read_lock(struct kv_table *t, uint64_t hash);
void kv_read_unlock(struct kv_table *t, uint64_t hash);
void kv_write_lock(struct kv_table *t, uint64_t hash);
void kv_write_unlock(struct kv_table *t, uint64_t hash);

void kv_shards_add(struct kv_shards *s, uint64_t hash);
void kv_shards_read_lock(struct kv_table *t, const struct kv_shards *s);
void kv_shards_read_unlock(struct kv_table *t, const struct kv_shards *s);
void kv_shards_write_lock(struct kv_table *t, const struct kv_shards *s);
void kv_shards_write_unlock(struct kv_table *t, const struct kv_shards *s);

/* The key's entry, or NULL when there is none or its time is over. */
struct kv_entry *kv_find_locked(const struct kv_table *t, uint64_t hash, struct slice key);

static inline struct slice kv_value(const struct kv_entry *e)
{
	return (struct slice){ e->bytes + e->key_len, e->value_len };
}

/* Give the key a value and a time to end (0: none).  False without memory, and then nothing has
 * changed.  The shard is write-locked, here and below. */
bool kv_put_locked(struct kv_table *t, uint64_t hash, struct slice key, struct slice value,
		   int64_t expires);

/* Change when the key ends; its entry must exist. */
void kv_expire_locked(struct kv_table *t, uint64_t hash, struct kv_entry *e, int64_t expires);

/* True when the key was there. */
bool kv_erase_locked(struct kv_table *t, uint64_t hash, struct slice key);

/* The rest locks by itself. */

/* Keys in the table, those whose time is over but that nobody has removed yet among them. */
int64_t kv_count(struct kv_table *t);

void kv_clear(struct kv_table *t);

/* Remove some of the keys whose time is over; to be called every now and then.  Returns whether any
 * key in the table has a time to end. */
bool kv_sweep(struct kv_table *t);

#endif
