/* SPDX-License-Identifier: MIT */
/*
 * Notes the pthread keys that are set on each OS thread, and whether they were deleted since.
 *
 * Part of libgmprtcheck, for GMP_DEBUG=check: interposes pthread_setspecific and
 * pthread_key_delete. src/observe/check/keywatch.c reads the notes and reports changed values.
 */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

enum { KEPT = 16 };

struct gmp_check_key {
	unsigned key, generation;
	const void *where; /* return address of pthread_setspecific */
};

/* (a) by key number: how often such a key was deleted */
static unsigned generations[PTHREAD_KEYS_MAX];

static _Thread_local struct {
	int n;
	struct gmp_check_key key[KEPT];
} set __attribute__((tls_model("initial-exec")));

EXPORT int gmp_check_keys(struct gmp_check_key *keys, int room);
EXPORT int gmp_check_key_value(const struct gmp_check_key *key, const void **value);

/* Move the keys that were set on this OS thread since the last call to keys, at most KEPT. Returns
 * their number. */
EXPORT int gmp_check_keys(struct gmp_check_key *keys, int room)
{
	int n = set.n < room ? set.n : room;

	for (int i = 0; i < n; i++)
		keys[i] = set.key[i];
	set.n = 0;
	return n;
}

/* Set *value to the key's present value on this OS thread. Returns 0 if the key was deleted since
 * it was set, otherwise 1. */
EXPORT int gmp_check_key_value(const struct gmp_check_key *key, const void **value)
{
	if (__atomic_load_n(&generations[key->key], __ATOMIC_RELAXED) != key->generation)
		return 0;
	*value = pthread_getspecific(key->key);
	return 1;
}

static void note_key(unsigned key, const void *where)
{
	int i = 0;

	if (key >= PTHREAD_KEYS_MAX)
		return;
	while (i < set.n && set.key[i].key != key)
		i++;
	if (i == KEPT)
		return;
	set.key[i].key = key;
	set.key[i].generation = __atomic_load_n(&generations[key], __ATOMIC_RELAXED);
	set.key[i].where = where;
	if (i == set.n)
		set.n++;
}

EXPORT int pthread_setspecific(pthread_key_t key, const void *value)
{
	static __typeof__(&pthread_setspecific) real;

	if (!real)
		real = (__typeof__(&pthread_setspecific))dlsym(RTLD_NEXT, "pthread_setspecific");
	int err = real(key, value);

	if (!err)
		note_key(key, __builtin_extract_return_addr(__builtin_return_address(0)));
	return err;
}

EXPORT int pthread_key_delete(pthread_key_t key)
{
	static __typeof__(&pthread_key_delete) real;

	if (!real)
		real = (__typeof__(&pthread_key_delete))dlsym(RTLD_NEXT, "pthread_key_delete");
	if (key < PTHREAD_KEYS_MAX)
		__atomic_fetch_add(&generations[key], 1, __ATOMIC_RELAXED);
	return real(key);
}
