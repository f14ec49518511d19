/* SPDX-License-Identifier: MIT */
/*
 * Tests thread-local blocks without the runtime: whatever the probe does not find as it expects
 * makes it fail with a text, and a block is what an OS thread's is.
 *
 * floors 0..1
 * wrap: dlsym getauxval
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/san.h"
#include "base/tls.h"
#include "child.h"
#include "machine/tlsblock.h"
#include "machine/tlslayout.h"

/* --- a libc with something else in it --- */

static const char *missing, *other_size, *moved;
static bool no_fsgsbase, uses_up_heap;

enum { HEAP_ROOM = 4 << 20, NO_LIMIT = 77 };

/* Allocates until malloc fails for each size. */
static void use_up_heap(void)
{
	size_t sum = 0;

	for (size_t bytes = HEAP_ROOM; bytes >= sizeof(void *); bytes /= 2)
		for (void *volatile block = malloc(bytes); block; block = malloc(bytes)) {
			sum += bytes;
			if (sum > 4 * (size_t)HEAP_ROOM)
				_exit(NO_LIMIT);
		}
}

void *__real_dlsym(void *handle, const char *name);
unsigned long __real_getauxval(unsigned long type);

void *__wrap_dlsym(void *handle, const char *name)
{
	static uint32_t field[3];
	const uint32_t *found = __real_dlsym(handle, name);

	if (missing && strcmp(name, missing) == 0)
		return NULL;
	if (uses_up_heap && strcmp(name, "__cxa_thread_atexit_impl") == 0)
		use_up_heap();
	for (int i = 0; i < 2; i++) {
		const char *changed = i ? moved : other_size;

		if (!found || !changed || strcmp(name, changed) != 0)
			continue;
		memcpy(field, found, sizeof(field));
		field[i ? 2 : 0] += 8;
		return field;
	}
	return (void *)(uintptr_t)found;
}

unsigned long __wrap_getauxval(unsigned long type)
{
	return type == AT_HWCAP2 && no_fsgsbase ? 0 : __real_getauxval(type);
}

static const char *why;

static void need_blocks(void)
{
	int err = tlsblock_probe(&why);

	if (err == -ENOTSUP)
		check_skip(why);
	CHECK_EQ(err, 0);
}

/* Each in a process of its own, since the first result stays. */
static void expect_refusal(const char *what)
{
	int status = 0;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		int err = tlsblock_probe(&why);

		_exit(err == -ENOTSUP && why && strlen(why) > 10 ? 0 : 1);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	if (status)
		check_failed("accepted: %s", what);
}

static void need_blocks_in_child(void)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(tlsblock_probe(&why) == 0 ? 0 : 77);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		check_skip("no thread-local blocks here");
}

TEST(tlsblock_probe_refuses_missing_symbols)
{
	static const char *const names[] = {
		"_dl_allocate_tls",
		"_dl_deallocate_tls",
		"__ctype_init",
		"__call_tls_dtors",
		"__pthread_keys",
		"_rtld_global",
		"__resp",
		"_thread_db_sizeof_pthread",
		"_thread_db_pthread_list",
		"_thread_db_pthread_tid",
		"_thread_db_pthread_cancelhandling",
		"_thread_db_pthread_dtvp",
		"_thread_db_pthread_specific",
		"_thread_db_pthread_report_events",
		"_thread_db_dtv_slotinfo_gen",
		"_thread_db_rtld_global__dl_stack_user",
		"_thread_db_rtld_global__dl_tls_dtv_slotinfo_list",
		"_thread_db_link_map_l_tls_offset",
	};

	need_blocks_in_child();
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		missing = names[i];
		expect_refusal(names[i]);
	}
}

TEST(tlsblock_probe_refuses_other_fields)
{
	static const char *const sizes[] = {
		"_thread_db_pthread_list",
		"_thread_db_pthread_tid",
		"_thread_db_pthread_cancelhandling",
		"_thread_db_pthread_specific",
		"_thread_db_pthread_key_data_data",
		"_thread_db_dtv_slotinfo_map",
		"_thread_db_rtld_global__dl_stack_used",
	};
	static const char *const offsets[] = {
		"_thread_db_pthread_tid",
		"_thread_db_pthread_cancelhandling",
		"_thread_db_pthread_specific",
		"_thread_db_pthread_report_events",
		"_thread_db_pthread_key_struct_destr",
		"_thread_db_dtv_slotinfo_list_next",
		"_thread_db_rtld_global__dl_stack_used",
	};

	need_blocks_in_child();
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		other_size = sizes[i];
		expect_refusal(sizes[i]);
	}
	other_size = NULL;
	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		moved = offsets[i];
		expect_refusal(offsets[i]);
	}
}

TEST(tlsblock_probe_refuses_cpu_without_fsgsbase)
{
#if defined(__x86_64__)
	need_blocks_in_child();
	no_fsgsbase = true;
	expect_refusal("no FSGSBASE");
#else
	(void)no_fsgsbase;
	check_skip("each program may write the thread pointer here");
#endif
}

/* --- blocks --- */

static __thread int number = 7;
static __thread char big[5000];
static char stack[65536];
static ptrdiff_t self_at; /* pthread_self() from the thread pointer */

/* What is loaded is b; number and errno are changed in it. */
static noinline void change_in_block(struct tlsblock *b)
{
	CHECK(arch_tp() == b);
	CHECK((char *)pthread_self() - (char *)b == self_at);
	CHECK_EQ(number, 7);
	CHECK_EQ(errno, 0);
	CHECK_EQ(big[4999], 0);
	number = 8;
	big[4999] = 1;
	errno = 5;
	free(malloc(100));
}

static noinline int number_here(void)
{
	__asm__ volatile("");
	return number;
}

TEST(tlsblock_has_initial_values_until_changed)
{
	struct m *m = (struct m *)(void *)stack;
	void *host = arch_tp();

	need_blocks();
	self_at = (char *)pthread_self() - (char *)host;
	struct tlsblock *b = tlsblock_new();

	CHECK(b != NULL);
	for (int i = 0; i < 3; i++) {
		tlsblock_prepare(b, stack, sizeof(stack));
		tlsblock_load(b, m, host);
		tlsblock_first();
		CHECK(getm() == m);
		CHECK(gmp__tls_host() == host);
		change_in_block(b);
		CHECK_EQ(number_here(), 8);
		tlsblock_last();
		arch_set_tp(host);
		CHECK(gmp__tls_host() == NULL);
		CHECK(getm() == NULL);
		CHECK_EQ(number_here(), 7);
		tlsblock_reset(b);
	}
	tlsblock_free(b);
}

static noinline void leave_in_block(pthread_key_t key)
{
	CHECK(pthread_getspecific(key) == NULL);
	change_in_block(arch_tp());
	CHECK_EQ(pthread_setspecific(key, &why), 0);
}

static pthread_mutex_t held;

static noinline void lock_held(void)
{
	pthread_mutexattr_t attr;

	CHECK_EQ(pthread_mutexattr_init(&attr), 0);
	CHECK_EQ(pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK), 0);
	CHECK_EQ(pthread_mutex_init(&held, &attr), 0);
	CHECK_EQ(pthread_mutex_lock(&held), 0);
}

static noinline void expect_held_by_other(void)
{
	CHECK_EQ(pthread_mutex_unlock(&held), EPERM);
}

/* Without tlsblock_last. */
TEST(tlsblock_renewed_has_initial_values_and_is_other_owner)
{
	void *host = arch_tp();
	pthread_key_t key;

	need_blocks();
	self_at = (char *)pthread_self() - (char *)host;
	CHECK_EQ(pthread_key_create(&key, NULL), 0);
	struct tlsblock *b = tlsblock_new();

	CHECK(b != NULL);
	for (int i = 0; i < 3; i++) {
		tlsblock_prepare(b, stack, sizeof(stack));
		tlsblock_load(b, NULL, host);
		tlsblock_first();
		leave_in_block(key);
		if (i == 0)
			lock_held();
		else
			expect_held_by_other();
		arch_set_tp(host);
		CHECK(tlsblock_renew(b));
		CHECK(arch_tp() == host);
	}
	tlsblock_free(b);
}

/* --- malloc's cache: TLSBLOCK-6 --- */

static void *cache_of(void *block)
{
	return *(void **)(void *)((char *)block + gmp__tlsblock_at.cache);
}

/* malloc keeps the block for this size, of which there is no other. */
static noinline void *free_one(void)
{
	void *volatile p = malloc(888);

	free(p);
	return p;
}

TEST(tlsblocks_use_malloc_cache_of_their_host)
{
	void *host = arch_tp();

	need_blocks();
	CHECK(gmp__tlsblock_at.cache != 0);
	void *freed = free_one();

	for (int i = 0; i < 3; i++) {
		struct tlsblock *b = tlsblock_new();

		CHECK(b != NULL);
		tlsblock_prepare(b, stack, sizeof(stack));
		tlsblock_load(b, NULL, host);
		CHECK(free_one() == freed);
		arch_set_tp(host);
		CHECK(free_one() == freed);
		CHECK(cache_of(b) == cache_of(host));
		tlsblock_free(b);
	}
}

static struct tlsblock *moved_block;

/* The first malloc of this thread is that of the load. */
static void *load_moved(void *seen)
{
	void *host = arch_tp();

	CHECK(cache_of(host) == gmp__tlsblock_at.no_cache);
	tlsblock_load(moved_block, NULL, host);
	CHECK(cache_of(moved_block) == cache_of(host));
	*(void **)seen = free_one();
	CHECK(cache_of(moved_block) == cache_of(host));
	arch_set_tp(host);
	CHECK(free_one() == *(void **)seen);
	return NULL;
}

TEST(tlsblock_that_moves_to_another_thread_uses_the_cache_of_that)
{
	void *host = arch_tp(), *seen = NULL;
	pthread_t t;

	need_blocks();
	CHECK(gmp__tlsblock_at.cache != 0);
	moved_block = tlsblock_new();
	CHECK(moved_block != NULL);
	tlsblock_prepare(moved_block, stack, sizeof(stack));
	tlsblock_load(moved_block, NULL, host);
	void *freed = free_one();

	arch_set_tp(host);
	CHECK_EQ(pthread_create(&t, NULL, load_moved, &seen), 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK(seen != freed);
	CHECK(free_one() == freed);
	tlsblock_load(moved_block, NULL, host);
	CHECK(free_one() == freed); /* the cache of that thread does not exist any more */
	arch_set_tp(host);
	tlsblock_free(moved_block);
}

TEST(tlsblock_is_not_renewed_if_libc_hides_destructors)
{
	missing = "__cxa_thread_atexit_impl";
	need_blocks();
	struct tlsblock *b = tlsblock_new();

	CHECK(b != NULL);
	CHECK(!tlsblock_renew(b));
	tlsblock_free(b);
}

static void *make_and_load(void *arg)
{
	void *host = arch_tp();

	for (int i = 0; i < 500; i++) {
		struct tlsblock *b = tlsblock_new();

		CHECK(b != NULL);
		tlsblock_prepare(b, stack, sizeof(stack));
		tlsblock_load(b, arg, host);
		tlsblock_first();
		change_in_block(b);
		tlsblock_last();
		arch_set_tp(host);
		tlsblock_free(b);
	}
	return NULL;
}

static void *do_nothing(void *arg)
{
	return arg;
}

/* The list of threads, which glibc and blocks share, stays whole. */
TEST(tlsblocks_and_threads_are_made_at_once)
{
	pthread_t t[4], other;

	need_blocks();
	self_at = (char *)pthread_self() - (char *)arch_tp();
	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_create(&t[i], NULL, make_and_load, NULL), 0);
	for (int i = 0; i < 200; i++) {
		CHECK_EQ(pthread_create(&other, NULL, do_nothing, NULL), 0);
		CHECK_EQ(pthread_join(other, NULL), 0);
	}
	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_join(t[i], NULL), 0);
	CHECK_EQ(setuid(getuid()), 0);
}

#if defined(__GLIBC__) && !defined(SAN_ADDRESS) && !defined(SAN_THREAD)

/* --- without memory --- */

static size_t mapped_bytes(void)
{
	size_t pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	CHECK(f != NULL);
	CHECK_EQ(fscanf(f, "%zu", &pages), 1);
	fclose(f);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void probe_without_memory(void)
{
	size_t bytes = mapped_bytes() + HEAP_ROOM;
	struct rlimit limit = { bytes, bytes };

	CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
	uses_up_heap = true;
	_exit(tlsblock_probe(&why) == -EAGAIN ? 0 : 1);
}

TEST(tlsblock_probe_without_memory_returns_eagain)
{
	char text[512];

	need_blocks_in_child();
	int status = child_says(probe_without_memory, text, sizeof(text));

	if (WIFEXITED(status) && WEXITSTATUS(status) == NO_LIMIT)
		check_skip("RLIMIT_AS has no effect");
	if (status)
		check_failed("status %x: %s", (unsigned)status, text);
}

/* --- a child without libc's fork --- */

/* Is b the only thread in the list, and the list whole? */
static bool is_alone(const struct tlsblock *b)
{
	const struct tls_list *all = gmp__tls_layout.threads;
	const struct tls_list *its = (const void *)((const char *)b + gmp__tls_layout.list);

	return all->next == its && all->prev == its && its->next == all && its->prev == all;
}

static noinline void live_in_child(const struct tlsblock *b)
{
	alarm(10);
	tlsblock_forked();
	_exit(*gmp__tls_layout.lock == 0 && is_alone(b) ? 0 : 1);
}

/* Another thread of the parent was about to enter its block into the list. */
TEST(tlsblock_of_child_without_libcs_fork_needs_no_lock)
{
	void *host = arch_tp();
	int status = 0;

	need_blocks();
	struct tlsblock *b = tlsblock_new(), *other = tlsblock_new();
	struct tls_list *all = gmp__tls_layout.threads;

	CHECK(b != NULL && other != NULL);
	tlsblock_prepare(b, stack, sizeof(stack));
	tlsblock_load(b, NULL, host);
	tlslayout_lock(gmp__tls_layout.lock);
	struct tls_list *first = all->next;

	all->next = first->next; /* first->next still points back to it */
	pid_t pid = _Fork();

	if (pid == 0)
		live_in_child(b);
	all->next = first;
	tlslayout_unlock(gmp__tls_layout.lock);
	arch_set_tp(host);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	tlsblock_free(other);
	tlsblock_free(b);
}
#endif
