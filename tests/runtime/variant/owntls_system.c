/* SPDX-License-Identifier: MIT */
/*
 * Tests own thread-locals (GMP_OWN_TLS) beside the rest of the system: signals, setuid, fork,
 * blocking code, preemption, and the start and end of runs. setuid waits until each OS thread has
 * run a handler: each case needs a CPU.
 */
#define _GNU_SOURCE 1
#include <grp.h>
#include <limits.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>

#include "observe/stderr_util.h"
#include "owntls_util.h"

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
	volatile unsigned x = 0;

	number = 3;
	while (!atomic_load(&stop_switching)) {
		for (unsigned i = 0; i < 2000; i++)
			x = x + i;
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

static pthread_mutex_t abandoned;
static pthread_key_t abandoned_key;
static atomic_int abandoned_ended;

static void on_abandoned(UNUSED void *v)
{
	atomic_fetch_add(&abandoned_ended, 1);
}

/* Starts n green threads, each of which counts itself before it waits, and ends the run. */
static void leave_all(gmp_fn fn, int n)
{
	atomic_store(&remaining, n);
	for (int i = 0; i < n; i++)
		CHECK_EQ(gmp_go(fn, NULL), 0);
	while (atomic_load(&remaining))
		gmp_yield();
}

static void count_and_wait(void)
{
	atomic_fetch_sub(&remaining, 1);
	gmp_sleep(GMP_FOREVER);
}

static void lock_and_wait(UNUSED void *arg)
{
	CHECK_EQ(pthread_mutex_lock(&abandoned), 0);
	count_and_wait();
}

static void leave_locked(UNUSED void *arg)
{
	leave_all(lock_and_wait, 1);
}

static void expect_locked(UNUSED void *arg)
{
	CHECK_EQ(pthread_mutex_trylock(&abandoned), EBUSY);
	CHECK_EQ(pthread_mutex_unlock(&abandoned), EPERM);
	gmp_yield();
}

static void all_expect_locked(UNUSED void *arg)
{
	expect_locked(NULL);
	crowd(expect_locked, MANY);
}

/* The next green thread of the block is another owner. */
TEST_PROCS(mutex_of_killed_green_thread_stays_locked)
{
	pthread_mutexattr_t a;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_settype(&a, PTHREAD_MUTEX_ERRORCHECK);
	CHECK_EQ(pthread_mutex_init(&abandoned, &a), 0);
	CHECK_EQ(run_own(procs, NULL, leave_locked, NULL), 0);
	CHECK_EQ(run_own(procs, NULL, all_expect_locked, NULL), 0);
}

static void trace_and_wait(UNUSED void *arg)
{
	uselocale(duplocale(LC_GLOBAL_LOCALE));
	CHECK(dlopen("/no/such/library.so", RTLD_NOW) == NULL);
	CHECK_EQ(pthread_setspecific(abandoned_key, &remaining), 0);
	number = zero = 1;
	count_and_wait();
}

static void leave_with_traces(UNUSED void *arg)
{
	leave_all(trace_and_wait, MANY);
}

static void expect_no_traces(void *arg)
{
	expect_fresh(arg);
	CHECK(pthread_getspecific(abandoned_key) == NULL);
}

static void all_expect_no_traces(UNUSED void *arg)
{
	crowd(expect_no_traces, MANY);
}

TEST_PROCS(killed_green_threads_leave_no_traces)
{
	CHECK_EQ(pthread_key_create(&abandoned_key, on_abandoned), 0);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(run_own(procs, NULL, leave_with_traces, NULL), 0);
		CHECK_EQ(run_own(procs, NULL, all_expect_no_traces, NULL), 0);
	}
	CHECK_EQ(atomic_load(&abandoned_ended), 0);
}

enum { CACHED = 7, CACHED_BYTES = 1024 };

/* What malloc keeps for an OS thread: 200 KB. */
static void fill_cache_and_wait(UNUSED void *arg)
{
	for (size_t bytes = 16; bytes <= CACHED_BYTES; bytes += 16) {
		void *volatile p[CACHED];

		for (int i = 0; i < CACHED; i++)
			CHECK((p[i] = malloc(bytes)) != NULL);
		for (int i = 0; i < CACHED; i++) {
			memset(p[i], 1, bytes);
			free(p[i]);
		}
	}
	count_and_wait();
}

static void leave_with_caches(UNUSED void *arg)
{
	leave_all(fill_cache_and_wait, MANY);
}

#if defined(__GLIBC__) /* mallinfo2 */

/* Fills them, and leaves the green threads parked. */
static void compare_caches(UNUSED void *arg)
{
	size_t before = mallinfo2().uordblks;

	leave_all(fill_cache_and_wait, MANY);
	/* 200 KB each, if each had a cache; the caches of a few OS threads are less than 10 MB */
	CHECK(mallinfo2().uordblks < before + MANY * 20000 + 10000000);
}

TEST_PROCS(parked_green_threads_keep_no_cache_of_malloc)
{
	CHECK_EQ(run_own(procs, NULL, compare_caches, NULL), 0);
}

#endif

/* 13 MB in each run, if the caches were lost. */
TEST_PROCS(killed_green_threads_lose_no_cache_of_malloc)
{
	long kb = 0;

	for (int i = 0; i < 6; i++) {
		CHECK_EQ(run_own(procs, NULL, leave_with_caches, NULL), 0);
		if (i == 1)
			kb = rss_kb();
	}
	CHECK(rss_kb() < kb + 16000);
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

/* Takes all that malloc has, as a list. */
static void **take_all_memory(void)
{
	void **all = NULL, **more;

	for (size_t size = 1 << 20; size >= 32; size /= 2)
		while ((more = malloc(size))) {
			*more = all;
			all = more;
		}
	return all;
}

static void free_all(void **all)
{
	while (all) {
		void **next = *all;

		free(all);
		all = next;
	}
}

enum { MOST_BEGUN = 10000 };

static atomic_int begun, may_end;

static void begin_and_wait(UNUSED void *arg)
{
	atomic_fetch_add(&begun, 1);
	while (!atomic_load(&may_end))
		gmp_yield();
}

static void spawn_without_blocks(UNUSED void *arg)
{
	struct rlimit old, low;
	int n = 0;

	CHECK_EQ(getrlimit(RLIMIT_AS, &old), 0);
	low = old;
	low.rlim_cur = (rlim_t)proc_kb("/proc/self/status", "VmSize") * 1024;
	CHECK_EQ(setrlimit(RLIMIT_AS, &low), 0);
	void **all = take_all_memory();

	while (n < MOST_BEGUN && atomic_load(&begun) == n) {
		CHECK_EQ(gmp_go(begin_and_wait, NULL), 0);
		n++;
		for (int i = 0; i < 100 && atomic_load(&begun) < n; i++)
			gmp_yield();
	}
	CHECK_EQ(setrlimit(RLIMIT_AS, &old), 0);
	free_all(all);
	CHECK(n < MOST_BEGUN);
	while (atomic_load(&begun) < n)
		gmp_yield();
	atomic_store(&may_end, 1);
}

TEST(block_without_memory_is_reported_and_begins_later)
{
	check_skip_on_valgrind("Valgrind needs the memory, too");
	if (SANITIZED)
		check_skip("a sanitizer has its own memory");
	atomic_store(&begun, 0);
	atomic_store(&may_end, 0);
	catch_stderr();
	CHECK_EQ(run_own(1, NULL, spawn_without_blocks, NULL), 0);
	restore_stderr();
	CHECK(strstr(caught(), "no memory for the thread-locals of a green thread"));
}
