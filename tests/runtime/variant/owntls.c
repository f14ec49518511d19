/* SPDX-License-Identifier: MIT */
/*
 * Tests own thread-locals (GMP_OWN_TLS): values and addresses stay with the green thread, each
 * begins with initial values, and libc and pthread calls work in its block.
 */
#define _GNU_SOURCE 1
#include <ctype.h>
#include <langinfo.h>
#include <netdb.h>
#include <resolv.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>
#include <wchar.h>

#include "owntls_util.h"

/* --- values and addresses --- */

OWN(values_and_addresses_stay_with_green_thread)
{
	for (int i = 0; i < 3; i++)
		crowd(keep_values, MANY);
	CHECK(procs == 1 || atomic_load(&moved) > 0);
}

static void count_up(void *arg)
{
	long *sum = arg;

	/* a compiler keeps the address of `zero` in a register */
	for (int i = 0; i < 100; i++) {
		zero++;
		gmp_yield();
	}
	*sum = zero;
}

OWN(counter_with_kept_address_counts_all)
{
	long sums[MANY];
	gmp_g *g[MANY];

	for (int i = 0; i < MANY; i++)
		g[i] = spawn_own(count_up, &sums[i]);
	for (int i = 0; i < MANY; i++) {
		join(g[i]);
		CHECK_EQ(sums[i], 100);
	}
}

static void write_shared(UNUSED void *arg)
{
	for (int i = 0; i < 200; i++) {
		number = -1; /* that of the OS thread */
		errno = 1;
		gmp_yield();
	}
}

OWN(green_threads_without_flag_do_not_disturb)
{
	gmp_g *plain[8];

	for (int i = 0; i < 8; i++)
		plain[i] = spawn(write_shared, NULL);
	crowd(keep_values, MANY);
	for (int i = 0; i < 8; i++)
		join(plain[i]);
}

static void change_all(UNUSED void *arg)
{
	number = zero = 1;
	memset(text, 'x', sizeof(text));
	self_pointer = &zero;
	errno = 5;
}

OWN(reused_block_has_initial_values)
{
	for (int i = 0; i < 100; i++) {
		join(spawn_own(change_all, NULL));
		join(spawn_own(expect_fresh, NULL));
	}
}

static void leave_traces(UNUSED void *arg)
{
	locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);

	uselocale(c);
	CHECK(dlopen("/no/such/library.so", RTLD_NOW) == NULL);
	h_errno = HOST_NOT_FOUND;
	/* c is not freed: the locale is in use */
}

OWN(locale_and_dlerror_do_not_pass_to_next_green_thread)
{
	for (int i = 0; i < 20; i++) {
		join(spawn_own(leave_traces, NULL));
		join(spawn_own(expect_fresh, NULL));
	}
}

/* --- libc --- */

static void use_malloc(void *arg)
{
	long n = (long)(intptr_t)arg;
	char *kept[16] = { NULL };

	for (long i = 0; i < 200; i++) {
		size_t bytes = (size_t)(16 + (n * 31 + i * 17) % 2000);
		char **slot = &kept[i % 16];

		if (*slot)
			CHECK_EQ((*slot)[0], (char)n);
		free(*slot);
		*slot = malloc(bytes);
		CHECK(*slot != NULL);
		memset(*slot, (int)n, bytes);
		if (i % 3 == 0)
			wait_somehow(n + i);
	}
	for (int i = 0; i < 16; i++)
		free(kept[i]);
}

OWN(malloc_and_free_work_across_moves)
{
	crowd(use_malloc, MANY);
}

static void send_memory(void *arg)
{
	gmp_chan *c = arg;

	for (int i = 0; i < 100; i++) {
		char *p = malloc(64 + (size_t)i);

		memset(p, i, 64);
		CHECK_EQ(gmp_chan_send(c, &p), 0);
	}
}

static void free_memory(void *arg)
{
	gmp_chan *c = arg;
	char *p;

	for (int i = 0; i < 100; i++) {
		CHECK_EQ(gmp_chan_recv(c, &p), 0);
		free(p);
	}
}

OWN(memory_is_freed_in_another_green_thread)
{
	gmp_chan *c = gmp_chan_new(sizeof(char *), 4);
	gmp_g *g[32];

	for (int i = 0; i < 32; i++)
		g[i] = spawn_own(i % 2 ? free_memory : send_memory, c);
	for (int i = 0; i < 32; i++)
		join(g[i]);
	gmp_chan_free(c);
}

static void keep_strerror(void *arg)
{
	int n = 5000 + (int)(intptr_t)arg;
	char expected[64], *got;

	snprintf(expected, sizeof(expected), "Unknown error %d", n);
	for (int i = 0; i < ROUNDS; i++) {
		got = strerror(n); /* a buffer of the thread's */
		wait_somehow(n + i);
		CHECK_STR(got, expected);
	}
}

OWN(strerror_buffer_stays_with_green_thread)
{
	crowd(keep_strerror, MANY);
}

static void use_time(void *arg)
{
	time_t t = 86400 * (365 + (time_t)(intptr_t)arg);
	struct tm first, again;

	CHECK(localtime_r(&t, &first) != NULL);
	for (int i = 0; i < ROUNDS; i++) {
		char line[64];

		wait_somehow(i);
		CHECK(localtime_r(&t, &again) != NULL);
		CHECK_EQ(again.tm_yday, first.tm_yday);
		CHECK(strftime(line, sizeof(line), "%A %B %d", &again) > 0);
		CHECK(localtime(&t) != NULL);
		CHECK(rand() >= 0);
	}
}

OWN(localtime_and_rand_work)
{
	crowd(use_time, MANY);
}

/* C.UTF-8.  If it is not installed, a copy of the global locale, which differs by its handle. */
static locale_t other_locale;

/* Half of the green threads have the other locale; in C.UTF-8 two bytes are one character. */
static void use_locale(void *arg)
{
	bool has_other = (intptr_t)arg % 2;
	const char *codeset = nl_langinfo_l(CODESET, other_locale);
	bool utf8 = has_other && !strcmp(codeset, "UTF-8");

	if (has_other)
		uselocale(other_locale);
	for (int i = 0; i < ROUNDS; i++) {
		wchar_t c = 0;
		mbstate_t state;

		wait_somehow(i);
		memset(&state, 0, sizeof(state));
		CHECK(uselocale((locale_t)0) == (has_other ? other_locale : LC_GLOBAL_LOCALE));
		CHECK_STR(nl_langinfo(CODESET), has_other ? codeset : "ANSI_X3.4-1968");
		CHECK_EQ(MB_CUR_MAX > 1, utf8);
		CHECK_EQ(mbrtowc(&c, "\303\244", 2, &state) == 2, utf8);
		CHECK(!utf8 || c == 0xe4);
		CHECK(isalpha('a') && !isalpha('1') && toupper('b') == 'B');
	}
}

OWN(locale_stays_with_green_thread)
{
	other_locale = newlocale(LC_ALL_MASK, "C.UTF-8", (locale_t)0);
	if (!other_locale)
		other_locale = duplocale(LC_GLOBAL_LOCALE);
	CHECK(other_locale != (locale_t)0);
	crowd(use_locale, MANY);
	freelocale(other_locale);
}

static void use_ctype(UNUSED void *arg)
{
	locale_t c = newlocale(LC_ALL_MASK, "C.UTF-8", (locale_t)0);

	if (c)
		uselocale(c);
	for (int i = 0; i < ROUNDS; i++) {
		wait_somehow(i);
		CHECK(isalpha('z') && isdigit('0') && !isspace('x'));
		CHECK_EQ(tolower('Q'), 'q');
		CHECK(!c || uselocale((locale_t)0) == c);
	}
	uselocale(LC_GLOBAL_LOCALE);
	if (c)
		freelocale(c);
}

OWN(ctype_and_uselocale_work)
{
	crowd(use_ctype, MANY);
}

static void use_resolver(void *arg)
{
	struct __res_state *mine = &_res;

	mine->retrans = 100 + (int)(intptr_t)arg;
	for (int i = 0; i < 10; i++) {
		wait_somehow(i);
		CHECK(&_res == mine);
		CHECK_EQ(_res.retrans, 100 + (int)(intptr_t)arg);
	}
}

OWN(resolver_state_stays_with_green_thread)
{
	crowd(use_resolver, MANY);
}

/* --- mutexes, keys --- */

static pthread_mutex_t owned = PTHREAD_MUTEX_INITIALIZER;
static atomic_int is_locked, may_unlock;

static void hold_mutex(UNUSED void *arg)
{
	CHECK_EQ(pthread_mutex_lock(&owned), 0);
	CHECK_EQ(pthread_mutex_lock(&owned), 0); /* recursive */
	atomic_store(&is_locked, 1);
	while (!atomic_load(&may_unlock))
		wait_somehow(atomic_load(&is_locked));
	CHECK_EQ(pthread_mutex_lock(&owned), 0);
	for (int i = 0; i < 3; i++) {
		gmp_yield();
		CHECK_EQ(pthread_mutex_unlock(&owned), 0);
	}
	CHECK_EQ(pthread_mutex_unlock(&owned), EPERM);
}

static void try_mutex(UNUSED void *arg)
{
	WAIT_FOR(atomic_load(&is_locked));
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(pthread_mutex_trylock(&owned), EBUSY);
		CHECK_EQ(pthread_mutex_unlock(&owned), EPERM);
		gmp_yield();
	}
	atomic_fetch_add(&may_unlock, 1);
}

OWN(recursive_mutex_belongs_to_green_thread)
{
	pthread_mutexattr_t a;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE);
	CHECK_EQ(pthread_mutex_init(&owned, &a), 0);
	gmp_g *holder = spawn_own(hold_mutex, NULL), *other = spawn_own(try_mutex, NULL);

	join(other);
	join(holder);
	CHECK_EQ(pthread_mutex_trylock(&owned), 0);
	CHECK_EQ(pthread_mutex_unlock(&owned), 0);
}

static pthread_key_t key, again_key, many_keys[40];
static atomic_int destroyed, again_destroyed, many_destroyed;

static void on_destroy(void *v)
{
	CHECK(pthread_getspecific(key) == NULL);
	CHECK(v != NULL);
	gmp_yield(); /* a destructor may wait */
	CHECK_EQ(zero, (long)(intptr_t)v);
	atomic_fetch_add(&destroyed, 1);
}

static void on_destroy_again(void *v)
{
	int n = atomic_fetch_add(&again_destroyed, 1);

	if (n % 3 < 2)
		CHECK_EQ(pthread_setspecific(again_key, v), 0);
}

static void on_destroy_many(UNUSED void *v)
{
	atomic_fetch_add(&many_destroyed, 1);
}

static void use_keys(void *arg)
{
	void *v = (void *)((intptr_t)arg + 1);

	CHECK(pthread_getspecific(key) == NULL);
	zero = (long)(intptr_t)v;
	CHECK_EQ(pthread_setspecific(key, v), 0);
	for (int i = 0; i < ROUNDS; i++) {
		wait_somehow(i);
		CHECK(pthread_getspecific(key) == v);
	}
}

OWN(pthread_keys_stay_and_destructors_run)
{
	atomic_store(&destroyed, 0);
	CHECK_EQ(pthread_key_create(&key, on_destroy), 0);
	crowd(use_keys, MANY);
	CHECK_EQ(atomic_load(&destroyed), MANY);
	CHECK_EQ(pthread_key_delete(key), 0);
}

static void use_key_again(UNUSED void *arg)
{
	CHECK(pthread_getspecific(again_key) == NULL);
	CHECK_EQ(pthread_setspecific(again_key, &key), 0);
	for (int i = 0; i < 40; i++) {
		CHECK(pthread_getspecific(many_keys[i]) == NULL);
		CHECK_EQ(pthread_setspecific(many_keys[i], &key), 0);
	}
}

OWN(destructors_that_set_values_run_again)
{
	CHECK_EQ(pthread_key_create(&again_key, on_destroy_again), 0);
	for (int i = 0; i < 40; i++) /* more than the first table holds */
		CHECK_EQ(pthread_key_create(&many_keys[i], on_destroy_many), 0);
	for (int i = 1; i <= 20; i++) {
		join(spawn_own(use_key_again, NULL));
		CHECK_EQ(atomic_load(&again_destroyed), 3 * i);
		CHECK_EQ(atomic_load(&many_destroyed), 40 * i);
	}
}

static void exit_early(UNUSED void *arg)
{
	CHECK_EQ(pthread_setspecific(key, (void *)9), 0);
	zero = 9;
	gmp_exit();
}

OWN(gmp_exit_runs_destructors)
{
	atomic_store(&destroyed, 0);
	CHECK_EQ(pthread_key_create(&key, on_destroy), 0);
	join(spawn_own(exit_early, NULL));
	CHECK_EQ(atomic_load(&destroyed), 1);
}

/* --- pthread calls on a green thread --- */

static void ask_about_self(UNUSED void *arg)
{
	pthread_t self = pthread_self();
	pthread_attr_t a;
	char name[16] = "", *lo = NULL;
	size_t bytes = 0;
	clockid_t clock;
	struct timespec t;
	int local = 0;

	/* it asks the kernel for the affinity of the thread, by the id */
	int err = pthread_getattr_np(self, &a);

	CHECK(err == ESRCH || err == 0);
	if (err == 0) {
		CHECK_EQ(pthread_attr_getstack(&a, (void **)&lo, &bytes), 0);
		CHECK((char *)&local > lo && (char *)&local < lo + bytes);
		pthread_attr_destroy(&a);
	}
	err = pthread_join(self, NULL);
	CHECK(err == EINVAL || err == EDEADLK); /* the latter since glibc 2.43 */
	CHECK_EQ(pthread_detach(self), EINVAL);
	CHECK_EQ(pthread_setname_np(self, "own"), 0);
	CHECK_EQ(prctl(PR_GET_NAME, name), 0);
	CHECK_STR(name, "own");
	/* no thread of the kernel has its id */
	CHECK(pthread_getcpuclockid(self, &clock) != 0 || clock_gettime(clock, &t) != 0);
	CHECK(sched_getcpu() >= 0);
}

OWN(pthread_calls_on_self_work_or_fail)
{
	crowd(ask_about_self, 8);
}

static pthread_t published;
static atomic_int is_published;

static void publish_self(UNUSED void *arg)
{
	published = pthread_self();
	atomic_store(&is_published, 1);
	while (atomic_load(&is_published) == 1)
		gmp_yield();
}

OWN(pthread_kill_of_green_thread_finds_no_thread)
{
	atomic_store(&is_published, 0);
	gmp_g *g = spawn_own(publish_self, NULL);

	WAIT_FOR(atomic_load(&is_published));
	CHECK(pthread_kill(published, SIGUSR1) != 0 || !"it would kill this process");
	CHECK_EQ(pthread_join(published, NULL), EINVAL);
	atomic_store(&is_published, 2);
	join(g);
}

static void make_thread(UNUSED void *arg)
{
	long n = 0;
	pthread_t t;
	void *result = NULL;

	for (int i = 0; i < 5; i++) {
		CHECK_EQ(pthread_create(&t, NULL, add_one, &n), 0);
		CHECK_EQ(gmp_blocking(pthread_join(t, &result)), 0);
		CHECK(result == &n);
	}
	CHECK_EQ(n, 5);
	CHECK_EQ(number, 7);
}

OWN(green_thread_makes_os_threads)
{
	crowd(make_thread, 16);
}
