/* SPDX-License-Identifier: MIT */
/* Unit test of examples/kvtable.c: lookups, expiry, growth, and concurrent use. */
#include "check.h"

#include "kvtable.h"

#include <gmp.h>

#include <pthread.h>
#include <stdlib.h>

static struct slice text(const char *s)
{
	return (struct slice){ s, strlen(s) };
}

static void put(struct kv_table *t, const char *key, const char *value, int64_t expires)
{
	uint64_t hash = kv_hash(t, text(key));
	struct kv_entry *old = NULL;

	kv_write_lock(t, hash);
	CHECK(kv_put_locked(t, hash, text(key), text(value), expires, &old));
	kv_write_unlock(t, hash);
	kv_entry_release(old);
}

static bool erase(struct kv_table *t, const char *key)
{
	uint64_t hash = kv_hash(t, text(key));
	struct kv_entry *old;
	bool was_there;

	kv_write_lock(t, hash);
	was_there = kv_erase_locked(t, hash, text(key), &old);
	kv_write_unlock(t, hash);
	kv_entry_release(old);
	return was_there;
}

/* value NULL: the key must not be there. */
static void check_value(struct kv_table *t, const char *key, const char *value)
{
	uint64_t hash = kv_hash(t, text(key));
	const struct kv_entry *e;

	kv_read_lock(t, hash);
	e = kv_find_locked(t, hash, text(key));
	CHECK((e != NULL) == (value != NULL));
	if (e) {
		CHECK_EQ(e->value_len, strlen(value));
		CHECK(memcmp(kv_value(e).at, value, e->value_len) == 0);
	}
	kv_read_unlock(t, hash);
}

TEST(value_is_found_until_replaced_or_erased)
{
	struct kv_table *t = kv_table_new();

	check_value(t, "k", NULL);
	put(t, "k", "one", 0);
	check_value(t, "k", "one");
	put(t, "k", "2", 0);
	check_value(t, "k", "2");
	put(t, "k", "a value that does not fit into the block of the first", 0);
	check_value(t, "k", "a value that does not fit into the block of the first");
	put(t, "k", "", 0);
	check_value(t, "k", "");
	CHECK_EQ(kv_count(t), 1);
	CHECK(erase(t, "k"));
	CHECK(!erase(t, "k"));
	check_value(t, "k", NULL);
	CHECK_EQ(kv_count(t), 0);
	kv_table_free(t);
}

/* Beside a plain array as the model, through growing and shrinking. */
TEST(random_operations_match_plain_array)
{
	enum { KEYS = 20000 };
	static bool there[KEYS];
	struct kv_table *t = kv_table_new();
	char key[32];
	long count = 0;

	srandom(1);
	for (long i = 0; i < check_scaled(400000); i++) {
		long k = random() % KEYS;
		/* Mostly puts in one half of the time, mostly erasures in the other. */
		bool putting = random() % 8 < (i / 50000 % 2 ? 1 : 7);

		snprintf(key, sizeof(key), "key:%ld", k);
		check_value(t, key, there[k] ? key : NULL);
		if (putting)
			put(t, key, key, 0);
		else
			CHECK_EQ(erase(t, key), there[k]);
		count += putting - there[k];
		there[k] = putting;
	}
	CHECK_EQ(kv_count(t), count);
	for (long k = 0; k < KEYS; k++) {
		snprintf(key, sizeof(key), "key:%ld", k);
		check_value(t, key, there[k] ? key : NULL);
	}
	kv_clear(t);
	CHECK_EQ(kv_count(t), 0);
	check_value(t, "key:1", NULL);
	kv_table_free(t);
}

TEST(expired_entry_is_not_found)
{
	struct kv_table *t = kv_table_new();

	put(t, "past", "v", 1);
	put(t, "future", "v", kv_now() + 1000000);
	check_value(t, "past", NULL);
	check_value(t, "future", "v");
	CHECK(!erase(t, "past"));
	put(t, "past", "v", 1);
	put(t, "past", "again", 0);
	check_value(t, "past", "again");
	kv_table_free(t);
}

TEST(sweep_removes_only_expired_entries)
{
	struct kv_table *t = kv_table_new();
	char key[32];

	for (int i = 0; i < 30000; i++) {
		snprintf(key, sizeof(key), "key:%d", i);
		put(t, key, "v", i % 3 == 0 ? 0 : i % 3 == 1 ? 1 : kv_now() + 1000000);
	}
	CHECK(kv_sweep(t));
	for (int i = 0; i < 1000 && kv_count(t) > 20000; i++)
		kv_sweep(t);
	CHECK_EQ(kv_count(t), 20000);
	for (int i = 0; i < 30000; i++) {
		snprintf(key, sizeof(key), "key:%d", i);
		check_value(t, key, i % 3 == 1 ? NULL : "v");
		if (i % 3 == 2)
			put(t, key, "v", 1);
	}
	for (int i = 0; i < 1000 && kv_sweep(t); i++)
		;
	CHECK(!kv_sweep(t));
	CHECK_EQ(kv_count(t), 10000);
	kv_table_free(t);
}

/* So many keys that the shards have several segments each: found, erased, swept and cleared. */
TEST(segment_split_keeps_all_keys)
{
	const long keys = 2L * KV_SHARDS * KV_SEGMENT;
	struct kv_table *t = kv_table_new();
	uint64_t cursor = 0;
	long steps = 1;
	char key[32];

	for (long i = 0; i < keys; i++) {
		snprintf(key, sizeof(key), "key:%ld", i);
		put(t, key, key, i % 4 == 0 ? 1 : 0);
	}
	CHECK_EQ(kv_count(t), keys);
	for (int i = 0; i < 1000 && kv_sweep(t); i++)
		;
	CHECK_EQ(kv_count(t), keys - keys / 4);
	for (long i = 0; i < keys; i++) {
		snprintf(key, sizeof(key), "key:%ld", i);
		if (i % 4 == 1)
			CHECK(erase(t, key));
		check_value(t, key, i % 4 < 2 ? NULL : key);
	}
	CHECK_EQ(kv_count(t), keys - keys / 2);
	while (kv_clear_some(t, &cursor)) {
		steps++;
		CHECK(kv_count(t) <= keys - keys / 2);
	}
	CHECK(steps > 256); /* bounded steps, not one for all */
	CHECK_EQ(kv_count(t), 0);
	put(t, "key:1", "again", 0);
	check_value(t, "key:1", "again");
	kv_table_free(t);
}

/* A value that is being sent stays the same when its key gets another one or is erased. */
TEST(held_entry_keeps_its_value)
{
	struct kv_table *t = kv_table_new();
	uint64_t hash = kv_hash(t, text("k"));
	char *value = calloc(KV_COPY + 2, 1);
	struct kv_entry *old, *held;

	memset(value, '1', KV_COPY + 1);
	old = kv_entry_new(text("k"), text(value), 0);
	kv_write_lock(t, hash);
	CHECK(kv_put_locked(t, hash, text("k"), text(value), 0, &old));
	CHECK(old == NULL);
	held = kv_entry_hold_locked(kv_find_locked(t, hash, text("k")));
	kv_write_unlock(t, hash);
	put(t, "k", "two", 0);
	check_value(t, "k", "two");
	CHECK(kv_value(held).len == KV_COPY + 1 && kv_value(held).at[KV_COPY] == '1');
	CHECK(erase(t, "k"));
	CHECK(memcmp(kv_value(held).at, value, KV_COPY + 1) == 0);
	kv_entry_release(held);
	free(value);
	kv_table_free(t);
}

/* These collide for a hash that multiplies (word ^ constant) by the rest, whatever its seed. */
TEST(hash_of_keys_with_a_zero_factor_differs)
{
	const uint64_t factor = 0x9e3779b97f4a7c15u;
	struct kv_table *t = kv_table_new();
	uint64_t first = 0;
	char key[16];

	memcpy(key, &factor, 8);
	for (uint64_t i = 0; i < 1000; i++) {
		uint64_t hash;

		memcpy(key + 8, &i, 8);
		hash = kv_hash(t, (struct slice){ key, 16 });
		CHECK(i == 0 || hash != first);
		if (i == 0)
			first = hash;
	}
	kv_table_free(t);
}

/* Every byte of a key counts, wherever it is, and the shards are used evenly. */
TEST(hash_of_each_byte_position_spreads)
{
	struct kv_table *t = kv_table_new();
	int seen[KV_SHARDS] = { 0 };
	char key[100] = { 0 };

	for (size_t len = 1; len < sizeof(key); len++)
		for (size_t i = 0; i < len; i++) {
			uint64_t hash = kv_hash(t, (struct slice){ key, len });

			key[i] = 1;
			CHECK(kv_hash(t, (struct slice){ key, len }) != hash);
			key[i] = 0;
			CHECK(kv_hash(t, (struct slice){ key, len - 1 }) != hash);
		}
	for (int i = 0; i < 256000; i++) {
		snprintf(key, sizeof(key), "key:%012d", i);
		seen[kv_hash(t, text(key)) >> 56]++;
	}
	for (int i = 0; i < KV_SHARDS; i++)
		CHECK(seen[i] > 700 && seen[i] < 1300);
	kv_table_free(t);
}

enum { CROWD = 4, PAIRS = 64 };

/* Both keys of a pair always have the same value, and every reader must see it so. */
static void *change_pairs(void *table)
{
	struct kv_table *t = table;
	unsigned seed = (unsigned)(uintptr_t)&seed;

	for (long i = 0; i < check_scaled(20000); i++) {
		struct kv_shards shards = { 0 };
		char a[16], b[16], value[64];
		int pair = rand_r(&seed) % PAIRS;
		struct kv_entry *old[2] = { NULL, NULL };
		const struct kv_entry *ea, *eb;
		uint64_t ha, hb;

		snprintf(a, sizeof(a), "a%d", pair);
		snprintf(b, sizeof(b), "b%d", pair);
		snprintf(value, sizeof(value), "%*d", rand_r(&seed) % 40, rand_r(&seed));
		ha = kv_hash(t, text(a));
		hb = kv_hash(t, text(b));
		kv_shards_add(&shards, ha);
		kv_shards_add(&shards, hb);
		if (i % 3 == 0) {
			kv_shards_write_lock(t, &shards);
			CHECK(kv_put_locked(t, ha, text(a), text(value), 0, &old[0]));
			CHECK(kv_put_locked(t, hb, text(b), text(value), 0, &old[1]));
			kv_shards_write_unlock(t, &shards);
			kv_entry_release(old[0]);
			kv_entry_release(old[1]);
			continue;
		}
		kv_shards_read_lock(t, &shards);
		ea = kv_find_locked(t, ha, text(a));
		eb = kv_find_locked(t, hb, text(b));
		CHECK(!ea == !eb);
		if (ea) {
			CHECK_EQ(ea->value_len, eb->value_len);
			CHECK(memcmp(kv_value(ea).at, kv_value(eb).at, ea->value_len) == 0);
		}
		kv_shards_read_unlock(t, &shards);
	}
	return NULL;
}

TEST(command_of_several_keys_is_atomic_for_readers)
{
	struct kv_table *t = kv_table_new();
	pthread_t threads[CROWD];

	for (int i = 0; i < CROWD; i++)
		CHECK(pthread_create(&threads[i], NULL, change_pairs, t) == 0);
	for (int i = 0; i < CROWD; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(kv_count(t), 2 * PAIRS);
	kv_table_free(t);
}
