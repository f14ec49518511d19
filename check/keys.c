/* SPDX-License-Identifier: MIT */
/*
 * Which pthread keys were set on this thread, and were they deleted since?
 *
 * Part of libgmprtcheck, for GMP_DEBUG=check: stands in front of pthread_setspecific and
 * pthread_key_delete. src/debug/keywatch.c takes what was set from here, and judges it.
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
	const void *where; /* in the caller of pthread_setspecific */
};

static unsigned
	generations[PTHREAD_KEYS_MAX]; /* atomic; how often a key of this number was deleted */

static _Thread_local struct {
	int n;
	struct gmp_check_key key[KEPT];
} set __attribute__((tls_model("initial-exec")));

EXPORT int gmp_check_keys(struct gmp_check_key *keys, int room);
EXPORT int gmp_check_key_value(const struct gmp_check_key *key, const void **value);

/* Take what was set on this thread since the last call, the last KEPT keys at most. */
EXPORT int gmp_check_keys(struct gmp_check_key *keys, int room)
{
	int n = set.n < room ? set.n : room;

	for (int i = 0; i < n; i++)
		keys[i] = set.key[i];
	set.n = 0;
	return n;
}

/* The present value on this thread; 0 if the key was deleted since it was set. */
EXPORT int gmp_check_key_value(const struct gmp_check_key *key, const void **value)
{
	if (__atomic_load_n(&generations[key->key], __ATOMIC_RELAXED) != key->generation)
		return 0;
	*value = pthread_getspecific(key->key);
	return 1;
}

static void note(unsigned key, const void *where)
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
	set.n += i == set.n;
}

EXPORT int pthread_setspecific(pthread_key_t key, const void *value)
{
	static __typeof__(&pthread_setspecific) real;

	if (!real)
		real = (__typeof__(&pthread_setspecific))dlsym(RTLD_NEXT, "pthread_setspecific");
	int err = real(key, value);

	if (!err)
		note(key, __builtin_extract_return_addr(__builtin_return_address(0)));
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
