/* SPDX-License-Identifier: MIT */
/*
 * Tests own thread-locals (GMP_OWN_TLS): values and addresses stay with the green thread, each
 * begins with initial values, and libc works in its block.
 */
#define _GNU_SOURCE 1
#include <ctype.h>
#include <dlfcn.h>
#include <grp.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <netdb.h>
#include <resolv.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <time.h>
#include <wchar.h>

#include "runtime_util.h"

enum { MANY = 64, ROUNDS = 40, BIG = 3000 };

static __thread long number = 7, zero;
static __thread char text[BIG] = "initial";
static __thread long *self_pointer;

static atomic_int moved;

static int os_thread(void)
{
	return (int)syscall(SYS_gettid);
}

/* Wait in one of several ways. */
static void wait_somehow(long i)
{
	switch (i % 4) {
	case 0: gmp_sleep(10 * US); break;
	case 1: gmp_blocking(usleep(30)); break; /* sysmon takes the P after 20 us */
	default: gmp_yield();
	}
}

static gmp_g *spawn_own(gmp_fn fn, void *arg)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g = NULL;

	a.flags = GMP_OWN_TLS;
	CHECK_EQ(gmp_spawn(&g, fn, arg, &a), 0);
	return g;
}

static void crowd(gmp_fn fn, int n)
{
	gmp_g *g[MANY];

	for (int i = 0; i < n; i++)
		g[i] = spawn_own(fn, (void *)(intptr_t)i);
	for (int i = 0; i < n; i++)
		join(g[i]);
}

static void need_own_tls(void)
{
	static int asked;
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g = NULL;

	if (asked++)
		return;
	a.flags = GMP_OWN_TLS;
	int err = gmp_spawn(&g, nothing, NULL, &a);

	if (err == -ENOTSUP)
		check_skip("no own thread-locals here");
	CHECK_EQ(err, 0);
	join(g);
}

/* RT, where own thread-locals are supported. */
#define OWN(name)                                                                                  \
	static void name##_own(int procs);                                                         \
	RT(name)                                                                                   \
	{                                                                                          \
		need_own_tls();                                                                    \
		name##_own(procs);                                                                 \
	}                                                                                          \
	static void name##_own(__attribute__((unused)) int procs)

/* --- values and addresses --- */

static void keep_values(void *arg)
{
	long n = (long)(intptr_t)arg + 100;
	long *at = &number;
	int *error = &errno, tid = os_thread();
	pthread_t self = pthread_self();

	CHECK_EQ(number, 7);
	CHECK_EQ(zero, 0);
	CHECK_STR(text, "initial");
	CHECK_EQ(text[BIG - 1], 0);
	CHECK_EQ(errno, 0);
	CHECK(self_pointer == NULL);
	number = zero = n;
	self_pointer = at;
	text[BIG - 1] = (char)n;
	snprintf(text, sizeof(text), "text %ld", n);
	for (long i = 0; i < ROUNDS; i++) {
		char expected[32];

		errno = (int)(n + i);
		wait_somehow(n + i);
		if ((n + i) % 4 != 1) /* a signal may end usleep */
			CHECK_EQ(errno, n + i);
		CHECK(&errno == error && &number == at && self_pointer == at);
		CHECK_EQ(number, n);
		CHECK_EQ(zero, n);
		snprintf(expected, sizeof(expected), "text %ld", n);
		CHECK_STR(text, expected);
		CHECK(pthread_equal(pthread_self(), self));
		if (os_thread() != tid)
			atomic_fetch_add(&moved, 1);
	}
}

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

static void expect_fresh(UNUSED void *arg)
{
	CHECK_EQ(number, 7);
	CHECK_EQ(zero, 0);
	CHECK_STR(text, "initial");
	for (size_t i = sizeof("initial"); i < sizeof(text); i++)
		CHECK_EQ(text[i], 0);
	CHECK(self_pointer == NULL);
	CHECK_EQ(errno, 0);
	CHECK(dlerror() == NULL);
	CHECK(uselocale((locale_t)0) == LC_GLOBAL_LOCALE);
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

static locale_t utf8;

/* Half of the green threads have C.UTF-8, in which two bytes are one character. */
static void use_locale(void *arg)
{
	bool with_utf8 = (intptr_t)arg % 2;

	if (with_utf8)
		uselocale(utf8);
	for (int i = 0; i < ROUNDS; i++) {
		wchar_t c = 0;
		mbstate_t state;

		wait_somehow(i);
		memset(&state, 0, sizeof(state));
		CHECK_STR(nl_langinfo(CODESET), with_utf8 ? "UTF-8" : "ANSI_X3.4-1968");
		CHECK_EQ(mbrtowc(&c, "\303\244", 2, &state) == 2, with_utf8);
		CHECK(!with_utf8 || c == 0xe4);
		CHECK(isalpha('a') && !isalpha('1') && toupper('b') == 'B');
	}
}

OWN(locale_stays_with_green_thread)
{
	utf8 = newlocale(LC_ALL_MASK, "C.UTF-8", (locale_t)0);
	if (!utf8)
		check_skip("no locale C.UTF-8");
	crowd(use_locale, MANY);
	freelocale(utf8);
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

static void *add_one(void *arg)
{
	++*(long *)arg;
	number = 99; /* of that thread */
	return arg;
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

/* --- signals --- */

static atomic_int handled;

static void on_signal(UNUSED int sig)
{
	if (number == 42 && gmp_self())
		atomic_fetch_add(&handled, 1);
	errno = 77;
}

static void raise_signal(UNUSED void *arg)
{
	number = 42;
	for (int i = 0; i < 20; i++) {
		gmp_yield();
		CHECK_EQ(raise(SIGUSR1), 0);
		CHECK_EQ(number, 42);
	}
}

OWN(signal_handler_runs_on_block_of_green_thread)
{
	struct sigaction sa = { .sa_handler = on_signal };

	CHECK_EQ(sigaction(SIGUSR1, &sa, NULL), 0);
	atomic_store(&handled, 0);
	crowd(raise_signal, 8);
	CHECK_EQ(atomic_load(&handled), 8 * 20);
}

/* --- setuid: glibc signals all OS threads --- */

static atomic_int stop_switching;

static void switch_on(UNUSED void *arg)
{
	volatile int x = 0;

	number = 3;
	while (!atomic_load(&stop_switching)) {
		for (int i = 0; i < 2000; i++)
			x += i;
		gmp_yield();
		CHECK_EQ(number, 3);
	}
}

static void set_ids(UNUSED void *arg)
{
	for (int i = 0; i < 50; i++) {
		CHECK_EQ(setgid(getgid()), 0);
		CHECK_EQ(setuid(getuid()), 0);
		CHECK_EQ(setresuid(-1u, geteuid(), -1u), 0);
		gmp_yield();
	}
}

static void spin_and_set_ids(gmp_fn set)
{
	gmp_g *g[8], *setter;
	struct ext_thread f;

	atomic_store(&stop_switching, 0);
	for (int i = 0; i < 8; i++)
		g[i] = spawn_own(switch_on, NULL);
	setter = spawn_own(set, NULL); /* from a green thread with a block */
	join(setter);
	join(spawn(set, NULL)); /* from one without */
	ext_thread_start(&f, set, NULL);
	ext_thread_join(&f);
	atomic_store(&stop_switching, 1);
	for (int i = 0; i < 8; i++)
		join(g[i]);
}

OWN(setuid_does_not_hang)
{
	spin_and_set_ids(set_ids);
}

/* The credentials of all OS threads, as the kernel has them. */
static void expect_uid_everywhere(unsigned uid)
{
	DIR *d = opendir("/proc/self/task");
	int n = 0;

	CHECK(d != NULL);
	for (struct dirent *e; (e = readdir(d)) != NULL;) {
		char path[300], line[256];
		unsigned found = UINT_MAX;

		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%s/status", e->d_name);
		FILE *f = fopen(path, "re");

		if (!f)
			continue;
		while (fgets(line, sizeof(line), f))
			sscanf(line, "Uid: %u", &found);
		fclose(f);
		CHECK_EQ(found, uid);
		n++;
	}
	closedir(d);
	CHECK(n > 1);
}

static void drop_privileges(UNUSED void *arg)
{
	CHECK_EQ(setgroups(0, NULL), 0);
	CHECK_EQ(setgid(65534), 0);
	CHECK_EQ(setuid(65534), 0);
	expect_uid_everywhere(65534);
	CHECK_EQ(setuid(0), -1);
	CHECK_EQ(errno, EPERM);
}

OWN(green_thread_drops_privileges_of_all_os_threads)
{
	gmp_g *g[8];

	if (geteuid() != 0)
		check_skip("not root");
	atomic_store(&stop_switching, 0);
	for (int i = 0; i < 8; i++)
		g[i] = spawn_own(switch_on, NULL);
	join(spawn_own(drop_privileges, NULL));
	atomic_store(&stop_switching, 1);
	for (int i = 0; i < 8; i++)
		join(g[i]);
}

/* --- fork --- */

static void after_fork(void *arg)
{
	long n = 0;
	pthread_t t;
	void *p;

	CHECK(gmp_self() == NULL);
	CHECK_EQ(number, 42);
	CHECK_EQ(pthread_self() == *(pthread_t *)arg, 1);
	CHECK_EQ(sched_getcpu() >= 0, 1);
	p = malloc(1000);
	CHECK(p != NULL);
	free(p);
	for (int i = 0; i < 5; i++) {
		CHECK_EQ(pthread_create(&t, NULL, add_one, &n), 0);
		CHECK_EQ(pthread_join(t, NULL), 0);
	}
	CHECK_EQ(n, 5);
	CHECK_EQ(setuid(getuid()), 0);
	CHECK_EQ(number, 42);
	pid_t pid = fork(); /* of the only thread */

	if (pid == 0)
		_exit(number == 42 ? 3 : 4);
	int status = 0;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

static void run_again(UNUSED void *arg)
{
	crowd(keep_values, 16);
}

static void fork_off(UNUSED void *arg)
{
	pthread_t self = pthread_self();

	number = 42;
	pid_t pid = fork();

	if (pid == 0) {
		after_fork(&self);
		CHECK_EQ(gmp_run(run_again, NULL, NULL), 0);
		CHECK_EQ(number, 42);
		_exit(42);
	}
	int status = 0;

	CHECK(pid > 0);
	CHECK_EQ(gmp_waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 42);
	CHECK_EQ(number, 42);
}

OWN(fork_child_of_green_thread_keeps_its_block)
{
	gmp_g *g[4];

	atomic_store(&stop_switching, 0);
	for (int i = 0; i < 4; i++)
		g[i] = spawn_own(switch_on, NULL);
	for (int i = 0; i < 3; i++)
		join(spawn_own(fork_off, NULL));
	atomic_store(&stop_switching, 1);
	for (int i = 0; i < 4; i++)
		join(g[i]);
}

/* --- blocking code, preemption, pins --- */

static void compute(void *arg)
{
	volatile uint64_t x = 1;
	long n = (long)(intptr_t)arg;
	int64_t until = gmp_now() + 40 * MS;

	number = n;
	errno = (int)n;
	for (int i = 0; gmp_now() < until; i++) {
		x = x * 3 + 1;
		CHECK_EQ(number, n);
		CHECK_EQ(errno, n);
	}
	gmp_yield();
	CHECK_EQ(number, n);
	CHECK_EQ(errno, n);
}

OWN(values_survive_preemption)
{
	need_preemption();
	crowd(compute, 12);
}

static void block_for_long(void *arg)
{
	long n = (long)(intptr_t)arg;

	number = n;
	for (int i = 0; i < 5; i++) {
		gmp_block_enter();
		CHECK_EQ(number, n);
		errno = (int)n;
		usleep(3000);
		CHECK_EQ(errno, n);
		number = n;
		gmp_block_leave();
		CHECK_EQ(errno, n);
		CHECK_EQ(number, n);
	}
}

OWN(values_survive_blocking_code)
{
	crowd(block_for_long, 24);
}

static void stay(long n, bool locks)
{
	number = n;
	CHECK_EQ(locks ? gmp_lock_thread() : gmp_pin(), 0);
	int tid = os_thread();

	for (int i = 0; i < ROUNDS; i++) {
		gmp_yield();
		CHECK_EQ(number, n);
		CHECK_EQ(os_thread(), tid);
	}
	CHECK_EQ(locks ? gmp_unlock_thread() : gmp_unpin(), 0);
	wait_somehow(n);
	CHECK_EQ(number, n);
}

static void stay_locked(void *arg)
{
	stay((long)(intptr_t)arg, true);
}

static void stay_pinned(void *arg)
{
	stay((long)(intptr_t)arg, false);
}

OWN(locked_and_pinned_green_threads_keep_values)
{
	crowd(stay_locked, 8);
	crowd(stay_pinned, 8);
}

static void wait_in_many_ways(void *arg)
{
	long n = (long)(intptr_t)arg;
	gmp_chan *c = gmp_chan_new(sizeof(int), 0);
	int v;

	number = n;
	CHECK_EQ(gmp_chan_recv_until(c, &v, gmp_deadline(MS)), -ETIMEDOUT);
	CHECK_EQ(number, n);
	CHECK_EQ(gmp_sleep(MS), 0);
	CHECK_EQ(number, n);
	gmp_chan_free(c);
}

OWN(waits_with_timeout_keep_values)
{
	crowd(wait_in_many_ways, MANY);
}

static gmp_key local;
static atomic_int locals_ended;

static void local_ended(void *v)
{
	CHECK_EQ(number, (long)(intptr_t)v);
	atomic_fetch_add(&locals_ended, 1);
}

static void use_local(void *arg)
{
	number = (long)(intptr_t)arg + 1;
	CHECK_EQ(gmp_key_set(local, (void *)(intptr_t)number), 0);
	gmp_yield();
}

OWN(destructors_of_gmp_keys_find_thread_locals)
{
	CHECK_EQ(gmp_key_create(&local, local_ended), 0);
	crowd(use_local, 16);
	CHECK_EQ(atomic_load(&locals_ended), 16);
}

/* --- runs: flags, chaos, ends --- */

static int run_own(int procs, const char *debug, gmp_fn fn, void *arg)
{
	gmp_config c = GMP_CONFIG_INIT;

	if (debug)
		CHECK_EQ(setenv("GMP_DEBUG", debug, 1), 0);
	c.procs = procs;
	c.flags = GMP_OWN_TLS;
	int err = gmp_run(fn, arg, &c);

	unsetenv("GMP_DEBUG");
	if (err == -ENOTSUP)
		check_skip("no own thread-locals here");
	return err;
}

static atomic_int remaining;

static void keep_and_count(void *arg)
{
	keep_values(arg);
	atomic_fetch_sub(&remaining, 1);
}

static void all_are_own(UNUSED void *arg)
{
	CHECK_EQ(number, 7);
	number = 8;
	atomic_store(&remaining, MANY);
	for (int i = 0; i < MANY; i++)
		CHECK_EQ(gmp_go(keep_and_count, (void *)(intptr_t)i), 0);
	while (atomic_load(&remaining))
		gmp_yield();
	for (int i = 0; i < 8; i++)
		join(spawn(keep_values, NULL));
	CHECK_EQ(number, 8);
}

TEST_PROCS(config_flag_applies_to_all)
{
	number = 5;
	CHECK_EQ(run_own(procs, NULL, all_are_own, NULL), 0);
	CHECK_EQ(number, 5);
	CHECK_EQ(run_own(procs, NULL, all_are_own, NULL), 0);
}

TEST_PROCS(chaos_keeps_values)
{
	CHECK_EQ(run_own(procs, "chaos", all_are_own, NULL), 0);
}

TEST_PROCS(check_mode_works)
{
	CHECK_EQ(run_own(procs, "check", all_are_own, NULL), 0);
}

TEST(environment_sets_flag)
{
	CHECK_EQ(setenv("GMP_TLS", "own", 1), 0);
	int err = gmp_run(all_are_own, NULL, NULL);

	if (err == -ENOTSUP)
		check_skip("no own thread-locals here");
	CHECK_EQ(err, 0);
	CHECK_EQ(setenv("GMP_TLS", "others", 1), 0);
	CHECK_EQ(gmp_run(all_are_own, NULL, NULL), -EINVAL);
	CHECK_EQ(setenv("GMP_TLS", "", 1), 0);
	CHECK_EQ(gmp_run(nothing, NULL, NULL), 0);
}

static void count_in_thread(UNUSED void *arg)
{
	CHECK_EQ(number, 7);
	for (int i = 0; i < ROUNDS; i++, number++)
		gmp_yield();
	CHECK_EQ(number, 7 + ROUNDS);
}

static void own_as_thread(UNUSED void *arg)
{
	crowd(count_in_thread, 8);
}

TEST(thread_mode_takes_flag)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.sched = GMP_SCHED_THREAD;
	CHECK_EQ(gmp_run(own_as_thread, NULL, &c), 0);
}

static void wait_forever(UNUSED void *arg)
{
	number = 11;
	text[0] = 'w';
	gmp_sleep(GMP_FOREVER);
}

static void leave_waiting(UNUSED void *arg)
{
	for (int i = 0; i < MANY; i++)
		CHECK_EQ(gmp_go(wait_forever, NULL), 0);
	for (int i = 0; i < 5; i++)
		gmp_yield();
	for (int i = 0; i < 16; i++) /* they have not run */
		CHECK_EQ(gmp_go(expect_fresh, NULL), 0);
}

TEST_PROCS(green_threads_killed_at_shutdown_leave_nothing)
{
	for (int i = 0; i < 5; i++) {
		CHECK_EQ(run_own(procs, NULL, leave_waiting, NULL), 0);
		CHECK_EQ(run_own(procs, NULL, all_are_own, NULL), 0);
	}
	CHECK_EQ(setuid(getuid()), 0);
}

static atomic_int computing, stop_computing;

static void compute_on(UNUSED void *arg)
{
	number = 12;
	atomic_fetch_add(&computing, 1);
	while (!atomic_load(&stop_computing))
		CHECK_EQ(number, 12);
}

static void leave_computing(UNUSED void *arg)
{
	CHECK_EQ(gmp_go(compute_on, NULL), 0);
	WAIT_FOR(atomic_load(&computing));
}

TEST(abandoned_green_thread_keeps_its_block)
{
	need_preemption();
	CHECK_EQ(run_own(2, NULL, leave_computing, NULL), 0);
	int threads = count_threads();

	CHECK_EQ(run_own(2, NULL, all_are_own, NULL), 0);
	CHECK_EQ(setuid(getuid()), 0);
	atomic_store(&stop_computing, 1);
	for (int64_t end = gmp_now() + 30 * SEC; count_threads() >= threads;)
		CHECK(gmp_now() < end);
	CHECK_EQ(run_own(2, NULL, all_are_own, NULL), 0);
}

/* --- memory --- */

static void use_little(UNUSED void *arg)
{
	free(malloc(100));
	number++;
}

OWN(spawn_and_exit_again_and_again_leaks_nothing)
{
	long kb = 0;

	for (long i = 0; i < check_scaled(250000); i++) {
		gmp_g *g[4];

		for (int k = 0; k < 4; k++)
			g[k] = spawn_own(use_little, NULL);
		for (int k = 0; k < 4; k++)
			join(g[k]);
		if (i == 1000)
			kb = rss_kb();
	}
	CHECK(rss_kb() < kb + 2000);
}
