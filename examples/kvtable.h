/* SPDX-License-Identifier: MIT */
/*
 * Hash table of kvserver: consists of 256 shards, each a hash table under its own read-write lock.
 *
 * A command hashes its key, locks the key's shard, uses the functions that end in _locked, and
 * unlocks:
 *
 *   uint64_t hash = kv_hash(t, key);
 *   kv_read_lock(t, hash);
 *   const struct kv_entry *e = kv_find_locked(t, hash, key);
 *   ... what e holds stays as it is until ...
 *   kv_read_unlock(t, hash);
 *
 * A command of several keys locks all their shards in ascending order, so that two such commands
 * cannot deadlock. The command is atomic for these keys.
 *
 * The time that a lock is held is bounded. Under a lock, no function here moves, compares or frees
 * more than KV_SEGMENT entries, whatever the size of the table, or copies more than KV_COPY bytes
 * of a value. Callers lock for KV_HOLD_KEYS keys at most.
 */
#ifndef EXAMPLES_KVTABLE_H
#define EXAMPLES_KVTABLE_H

#include "resp.h"

#define KV_SHARDS 256
#define KV_SEGMENT 1024 /* slots that are moved under one lock; not measured against others */
#define KV_HOLD_KEYS 64 /* keys of a command under one lock: tens of microseconds */
#define KV_HOLD_BYTES (64u << 10) /* bytes of these keys and their values, unless it is one key */
#define KV_COPY (64u << 10) /* longer values are copied without a lock, and sent without a copy */

struct kv_table;

/* Lifetime: a long value, of more than KV_COPY bytes, never changes in place, and may be read
 * without a lock while the reader holds a reference. The table alone owns an entry with a short
 * value. */
struct kv_entry {
	int64_t expires; /* a time of kv_now(); 0: never */
	uint32_t key_len;
	uint32_t value_len;
	union {
		uint32_t value_room;   /* short: longest value that fits */
		_Atomic uint32_t refs; /* long */
	};
	char bytes[]; /* the key, then the value */
};

/* A set of shards, to be locked together. */
struct kv_shards {
	uint64_t bits[KV_SHARDS / 64];
};

struct kv_table *kv_table_new(void); /* NULL: no memory, or no source of random bytes */
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

/* Returns the key's entry, or NULL if there is none or it has expired. */
struct kv_entry *kv_find_locked(const struct kv_table *t, uint64_t hash, struct slice key);

static inline struct slice kv_value(const struct kv_entry *e)
{
	return (struct slice){ e->bytes + e->key_len, e->value_len };
}

/* Returns an entry outside the table, with one reference; NULL: no memory. Takes no lock. */
struct kv_entry *kv_entry_new(struct slice key, struct slice value, int64_t expires);

/* Take another reference to an entry with a long value, under a lock of the shard. */
struct kv_entry *kv_entry_hold_locked(struct kv_entry *e);

/* Release a reference; the last release frees the entry. The entry may be NULL. Call it without a
 * lock, because freeing a large block may enter the kernel. */
void kv_entry_release(struct kv_entry *e);

/*
 * Set the key's value and the time at which it expires (0: never). *entry is NULL, or an entry that
 * kv_entry_new has made of the same arguments; if the value is longer than KV_COPY, it must be the
 * latter. Afterwards the caller must release *entry once the shard is unlocked. Returns false, with
 * nothing changed, if there is no memory. Precondition, here and below: the shard is write-locked.
 */
bool kv_put_locked(struct kv_table *t, uint64_t hash, struct slice key, struct slice value,
		   int64_t expires, struct kv_entry **entry);

/* Change the time at which the key expires; its entry must exist. */
void kv_expire_locked(struct kv_table *t, uint64_t hash, struct kv_entry *e, int64_t expires);

/* Returns whether the key was there. The caller releases *entry, which may be NULL, after
 * unlocking. */
bool kv_erase_locked(struct kv_table *t, uint64_t hash, struct slice key, struct kv_entry **entry);

/* The functions below take the locks themselves. */

/* Returns the number of keys in the table, with expired keys that are not removed yet. */
int64_t kv_count(struct kv_table *t);

/*
 * Remove the entries of the next segment that has any; passes up to 64 segments. *cursor is 0 at
 * first. Returns false once the whole table has been passed: every key that was there at the first
 * call, and has not been set since, is then removed.
 */
bool kv_clear_some(struct kv_table *t, uint64_t *cursor);

void kv_clear(struct kv_table *t);

/* Remove some of the expired keys; call it periodically. Returns whether any key in the table can
 * expire. */
bool kv_sweep(struct kv_table *t);

#endif
