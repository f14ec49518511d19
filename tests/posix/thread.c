/* SPDX-License-Identifier: MIT */
/* Tests pthread_create, pthread_join and its relatives, pthread_detach and pthread_exit. */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "start.h"

/* glibc 2.36 does not recognize the case: on green threads only. */
#define GREEN_TEST(name)                                                                           \
	static void green_##name##_(void);                                                         \
	TEST_PROCS(name)                                                                           \
	{                                                                                          \
		posix_run(green_##name##_, procs);                                                 \
	}                                                                                          \
	static void green_##name##_(void)

enum { MANY = 200 };

static void *give_back(void *arg)
{
	return arg;
}

static void *wait_for_permit(void *sem)
{
	CHECK_EQ(gmp_sem_acquire(sem), 0);
	return sem;
}

static struct timespec after_ms(clockid_t clock, long ms)
{
	struct timespec t;

	clock_gettime(clock, &t);
	t.tv_nsec += ms * 1000000;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}

/* --- create --- */

POSIX_TEST(create_runs_function_and_join_returns_its_result)
{
	int x;

	CHECK(join(start(give_back, &x)) == &x);
	CHECK(join(start(give_back, NULL)) == NULL);
}

static pthread_t made;

static void *compare_self(void *arg)
{
	CHECK(pthread_equal(made, pthread_self()));
	return arg;
}

POSIX_TEST(create_writes_id_before_thread_runs)
{
	for (int i = 0; i < 50; i++) {
		CHECK_EQ(pthread_create(&made, NULL, compare_self, NULL), 0);
		join(made);
	}
}

POSIX_TEST(create_keeps_errno)
{
	errno = 77;
	join(start(give_back, NULL));
	CHECK_EQ(errno, 77);
}

POSIX_TEST(create_many_have_different_ids_until_joined)
{
	static pthread_t t[MANY];

	for (int i = 0; i < MANY; i++)
		t[i] = start(give_back, &t[i]);
	for (int i = 0; i < MANY; i++)
		for (int k = 0; k < i; k++)
			CHECK(!pthread_equal(t[i], t[k]));
	for (int i = 0; i < MANY; i++)
		CHECK(join(t[i]) == &t[i]);
}

/* Writes to each page of n bytes of the stack. */
static __attribute__((noinline)) int use_stack(size_t n)
{
	volatile char page[4096];

	page[0] = 1;
	return n > sizeof(page) ? use_stack(n - sizeof(page)) + page[0] : 0;
}

static void *use_much_stack(void *arg)
{
	CHECK(use_stack((size_t)(uintptr_t)arg) > 0);
	return arg;
}

POSIX_TEST(create_default_stack_has_the_size_of_the_default_attribute)
{
	pthread_attr_t attr;
	size_t size = 0;

	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_getstacksize(&attr, &size), 0);
	join(start(use_much_stack, (void *)(uintptr_t)(size - 256 * 1024)));
	CHECK_EQ(pthread_attr_destroy(&attr), 0);
}

POSIX_TEST(create_stack_size_of_attribute_is_usable)
{
	pthread_attr_t attr;
	pthread_t t;

	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_setstacksize(&attr, 12 << 20), 0);
	CHECK_EQ(pthread_create(&t, &attr, use_much_stack, (void *)(uintptr_t)(11 << 20)), 0);
	join(t);
	CHECK_EQ(pthread_attr_destroy(&attr), 0);
}

static void *return_place(void *arg)
{
	char *volatile here = (char *)&arg;

	return here;
}

POSIX_TEST(create_stack_of_program_is_used)
{
	enum { SIZE = 256 * 1024 };
	pthread_attr_t attr;
	pthread_t t;
	char *stack = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(stack != MAP_FAILED);
	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_setstack(&attr, stack, SIZE), 0);
	CHECK_EQ(pthread_create(&t, &attr, return_place, NULL), 0);
	char *at = join(t);

	CHECK(at > stack && at < stack + SIZE);
	CHECK_EQ(pthread_attr_destroy(&attr), 0);
	CHECK_EQ(munmap(stack, SIZE), 0);
}

POSIX_TEST(create_stack_above_1_gib_is_usable)
{
	size_t size = ((size_t)1 << 30) + (1 << 20);
	void *room = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attr;
	pthread_t t;

	if (room == MAP_FAILED)
		check_skip("no mapping of 1 GiB");
	CHECK_EQ(munmap(room, size), 0);
	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_setstacksize(&attr, size), 0);
	CHECK_EQ(pthread_create(&t, &attr, use_much_stack, (void *)(uintptr_t)(11 << 20)), 0);
	join(t);
	CHECK_EQ(pthread_attr_destroy(&attr), 0);
}

static int os_threads(void)
{
	DIR *d = opendir("/proc/self/task");
	int n = -2;

	CHECK(d != NULL);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void many_wait(void *arg)
{
	static pthread_t t[MANY];
	gmp_sem permits = GMP_SEM_INIT(0);

	(void)arg;
	for (int i = 0; i < MANY; i++)
		t[i] = start(wait_for_permit, &permits);
	CHECK(os_threads() < 12);
	CHECK_EQ(gmp_sem_release(&permits, MANY), 0);
	for (int i = 0; i < MANY; i++)
		join(t[i]);
}

TEST_PROCS(create_makes_no_os_thread)
{
	run_configured(procs, 0, GMP_OWN_TLS, many_wait, NULL);
}

/* --- join --- */

static void *join_self(void *arg)
{
	CHECK_EQ(pthread_join(pthread_self(), NULL), EDEADLK);
	return arg;
}

POSIX_TEST(join_self_is_edeadlk)
{
	join(start(join_self, NULL));
}

/* pthread_create has not made the thread of this case. */
POSIX_TEST(join_of_the_first_thread_by_itself_is_edeadlk)
{
	struct timespec past = { 0, 0 };

	CHECK_EQ(pthread_join(pthread_self(), NULL), EDEADLK);
	CHECK_EQ(pthread_timedjoin_np(pthread_self(), NULL, &past), EDEADLK);
	CHECK_EQ(pthread_tryjoin_np(pthread_self(), NULL), EBUSY);
}

static void spawned_joins_itself(void *arg)
{
	join_self(arg);
}

POSIX_TEST(join_of_spawned_thread_by_itself_is_edeadlk)
{
	gmp_g *g;

	if (!on_green())
		return;
	CHECK_EQ(gmp_spawn(&g, spawned_joins_itself, NULL, NULL), 0);
	CHECK_EQ(gmp_join(g), 0);
}

POSIX_TEST(join_waits_for_the_end)
{
	gmp_sem permit = GMP_SEM_INIT(0);
	pthread_t t = start(wait_for_permit, &permit);

	CHECK_EQ(pthread_tryjoin_np(t, NULL), EBUSY);
	CHECK_EQ(gmp_sem_release(&permit, 1), 0);
	CHECK(join(t) == &permit);
}

static pthread_t pair[2];
static int results[2];
static gmp_sem both, returned;

static void *join_other(void *arg)
{
	int me = arg == &pair[1];

	CHECK_EQ(gmp_sem_acquire(&both), 0);
	results[me] = pthread_join(pair[!me], NULL);
	CHECK_EQ(gmp_sem_release(&returned, 1), 0);
	return NULL;
}

/* The thread that gets the error ends, and the other one joins it. */
GREEN_TEST(join_of_each_other_is_edeadlk_for_one)
{
	both = (gmp_sem)GMP_SEM_INIT(0);
	returned = (gmp_sem)GMP_SEM_INIT(0);
	pair[0] = start(join_other, &pair[0]);
	pair[1] = start(join_other, &pair[1]);
	CHECK_EQ(gmp_sem_release(&both, 2), 0);
	CHECK_EQ(gmp_sem_acquire(&returned), 0);
	CHECK_EQ(gmp_sem_acquire(&returned), 0);
	CHECK_EQ(results[0] + results[1], EDEADLK);
	join(pair[results[0] != 0]);
}

static pthread_t target;
static bool joined;

static void *join_target(void *arg)
{
	int err;

	while ((err = pthread_join(target, NULL)) == EINVAL) /* the other joiner is there */
		gmp_yield();
	CHECK_EQ(err, 0);
	joined = true;
	return arg;
}

GREEN_TEST(join_by_second_thread_is_einval)
{
	gmp_sem permit = GMP_SEM_INIT(0);
	int err = ETIMEDOUT;

	joined = false;
	target = start(wait_for_permit, &permit);
	pthread_t joiner = start(join_target, NULL);

	while (err == ETIMEDOUT) {
		struct timespec soon = after_ms(CLOCK_REALTIME, 1);

		err = pthread_timedjoin_np(target, NULL, &soon);
		gmp_yield(); /* on one P the joiner runs only now without a competitor */
	}
	CHECK_EQ(err, EINVAL);
	CHECK_EQ(gmp_sem_release(&permit, 1), 0);
	join(joiner);
	CHECK(joined);
}

POSIX_TEST(join_of_ended_thread_returns_result)
{
	pthread_t t = start(give_back, &made);

	for (int i = 0; i < 50; i++) { /* t ends meanwhile, and its id is not given away */
		pthread_t other = start(give_back, NULL);

		CHECK(!pthread_equal(t, other));
		join(other);
	}
	CHECK(join(t) == &made);
}

POSIX_TEST(tryjoin_of_running_thread_is_ebusy)
{
	gmp_sem permit = GMP_SEM_INIT(0);
	pthread_t t = start(wait_for_permit, &permit);

	for (int i = 0; i < 10; i++)
		CHECK_EQ(pthread_tryjoin_np(t, NULL), EBUSY);
	CHECK_EQ(gmp_sem_release(&permit, 1), 0);
	join(t);
}

POSIX_TEST(tryjoin_of_ended_thread_returns_result)
{
	pthread_t t = start(give_back, &made);
	void *value = NULL;
	int err;

	while ((err = pthread_tryjoin_np(t, &value)) == EBUSY)
		gmp_yield();
	CHECK_EQ(err, 0);
	CHECK(value == &made);
}

static void *tryjoin_self(void *arg)
{
	int err = pthread_tryjoin_np(pthread_self(), NULL);

	CHECK(err == EBUSY || err == EDEADLK);
	return arg;
}

static pthread_t first_thread;
static int joins;

static void *join_first(void *arg)
{
	__atomic_store_n(&joins, 1, __ATOMIC_RELEASE);
	CHECK_EQ(pthread_join(first_thread, NULL), 0);
	return arg;
}

POSIX_TEST(tryjoin_leaves_the_joiner_of_another_thread)
{
	gmp_sem permit = GMP_SEM_INIT(0);

	joins = 0;
	first_thread = start(wait_for_permit, &permit);
	pthread_t t = start(join_first, NULL);

	while (!__atomic_load_n(&joins, __ATOMIC_ACQUIRE))
		CHECK_EQ(pthread_tryjoin_np(first_thread, NULL), EBUSY);
	for (int i = 0; i < 100; i++) {
		CHECK_EQ(pthread_tryjoin_np(first_thread, NULL), EBUSY);
		sched_yield();
	}
	CHECK_EQ(gmp_sem_release(&permit, 1), 0);
	join(t);
}

/* Until the creator waits for this thread; before that another thread may be its joiner. */
static void *join_creator(void *creator)
{
	while (pthread_tryjoin_np(*(pthread_t *)creator, NULL) != EDEADLK)
		sched_yield();
	return creator;
}

static void *be_joined(void *arg)
{
	pthread_t me = pthread_self();

	join(start(join_creator, &me));
	return arg;
}

GREEN_TEST(join_of_a_thread_that_joins_the_caller_is_edeadlk)
{
	join(start(be_joined, NULL));
}

static gmp_sem may_join, has_joined;
static int join_result;

static void *join_after_timeout(void *creator)
{
	struct timespec past = { 1, 0 };

	CHECK_EQ(gmp_sem_acquire(&may_join), 0);
	join_result = pthread_timedjoin_np(*(pthread_t *)creator, NULL, &past);
	CHECK_EQ(gmp_sem_release(&has_joined, 1), 0);
	return NULL;
}

static void *wait_for_no_end(void *arg)
{
	struct timespec past = { 1, 0 };
	pthread_t me = pthread_self(), t = start(join_after_timeout, &me);

	CHECK_EQ(pthread_timedjoin_np(t, NULL, &past), ETIMEDOUT);
	CHECK_EQ(gmp_sem_release(&may_join, 1), 0);
	CHECK_EQ(gmp_sem_acquire(&has_joined), 0);
	CHECK(join_result == ETIMEDOUT || join_result == EINVAL); /* EINVAL: there is a joiner */
	join(t);
	return arg;
}

GREEN_TEST(join_that_has_timed_out_is_no_wait)
{
	join(start(wait_for_no_end, NULL));
}

POSIX_TEST(tryjoin_of_self_does_not_wait)
{
	join(start(tryjoin_self, NULL));
}

POSIX_TEST(timedjoin_expires)
{
	gmp_sem permit = GMP_SEM_INIT(0);
	pthread_t t = start(wait_for_permit, &permit);
	struct timespec past = { 1, 0 }, soon = after_ms(CLOCK_REALTIME, 20);
	int64_t began = gmp_now();

	CHECK_EQ(pthread_timedjoin_np(t, NULL, &past), ETIMEDOUT);
	CHECK_EQ(pthread_timedjoin_np(t, NULL, &soon), ETIMEDOUT);
	CHECK(gmp_now() - began >= 19000000);
	CHECK_EQ(gmp_sem_release(&permit, 1), 0);
	join(t);
}

GREEN_TEST(timedjoin_of_bad_time_is_einval)
{
	gmp_sem permit = GMP_SEM_INIT(0);
	pthread_t t = start(wait_for_permit, &permit);
	struct timespec bad = { 4000000000, 1000000000 };

	CHECK_EQ(pthread_timedjoin_np(t, NULL, &bad), EINVAL);
	bad.tv_nsec = -1;
	CHECK_EQ(pthread_timedjoin_np(t, NULL, &bad), EINVAL);
	CHECK_EQ(gmp_sem_release(&permit, 1), 0);
	join(t);
}

POSIX_TEST(timedjoin_before_the_deadline_returns_result)
{
	struct timespec later = after_ms(CLOCK_REALTIME, 100000);
	void *value = NULL;

	CHECK_EQ(pthread_timedjoin_np(start(give_back, &made), &value, &later), 0);
	CHECK(value == &made);
	CHECK_EQ(pthread_timedjoin_np(start(give_back, &made), &value, NULL), 0);
}

POSIX_TEST(clockjoin_expires_on_each_clock)
{
	gmp_sem permit = GMP_SEM_INIT(0);
	pthread_t t = start(wait_for_permit, &permit);
	struct timespec a = after_ms(CLOCK_MONOTONIC, 10), b = after_ms(CLOCK_REALTIME, 20);

	CHECK_EQ(pthread_clockjoin_np(t, NULL, CLOCK_MONOTONIC, &a), ETIMEDOUT);
	CHECK_EQ(pthread_clockjoin_np(t, NULL, CLOCK_REALTIME, &b), ETIMEDOUT);
	CHECK_EQ(gmp_sem_release(&permit, 1), 0);
	join(t);
}

POSIX_TEST(clockjoin_of_other_clock_is_einval)
{
	gmp_sem permit = GMP_SEM_INIT(0);
	pthread_t t = start(wait_for_permit, &permit);
	struct timespec a = after_ms(CLOCK_MONOTONIC, 10);

	CHECK_EQ(pthread_clockjoin_np(t, NULL, CLOCK_PROCESS_CPUTIME_ID, &a), EINVAL);
	CHECK_EQ(gmp_sem_release(&permit, 1), 0);
	join(t);
}

POSIX_TEST(clockjoin_before_the_deadline_returns_result)
{
	struct timespec later = after_ms(CLOCK_MONOTONIC, 100000);
	void *value = NULL;

	CHECK_EQ(pthread_clockjoin_np(start(give_back, &made), &value, CLOCK_MONOTONIC, &later), 0);
	CHECK(value == &made);
}

/* --- detach --- */

POSIX_TEST(detach_twice_is_einval)
{
	static gmp_sem permit; /* the thread may acquire it after main's end */

	permit = (gmp_sem)GMP_SEM_INIT(0);
	pthread_t t = start(wait_for_permit, &permit);

	CHECK_EQ(pthread_detach(t), 0);
	CHECK_EQ(pthread_detach(t), EINVAL);
	CHECK_EQ(pthread_join(t, NULL), EINVAL);
	CHECK_EQ(gmp_sem_release(&permit, 1), 0);
}

static void *detach_self(void *done)
{
	CHECK_EQ(pthread_detach(pthread_self()), 0);
	CHECK_EQ(pthread_detach(pthread_self()), EINVAL);
	CHECK_EQ(gmp_sem_release(done, 1), 0);
	return NULL;
}

POSIX_TEST(detach_of_self_works)
{
	static gmp_sem done;

	done = (gmp_sem)GMP_SEM_INIT(0);
	for (int i = 0; i < MANY; i++)
		start(detach_self, &done);
	for (int i = 0; i < MANY; i++)
		CHECK_EQ(gmp_sem_acquire(&done), 0);
}

POSIX_TEST(detach_of_ended_thread_works)
{
	for (int i = 0; i < MANY; i++) {
		pthread_t t = start(give_back, NULL);

		gmp_yield();
		CHECK_EQ(pthread_detach(t), 0);
	}
}

POSIX_TEST(create_detached_cannot_be_joined)
{
	static gmp_sem permit;
	pthread_attr_t attr;
	pthread_t t;

	permit = (gmp_sem)GMP_SEM_INIT(0);
	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED), 0);
	CHECK_EQ(pthread_create(&t, &attr, wait_for_permit, &permit), 0);
	CHECK_EQ(pthread_join(t, NULL), EINVAL);
	CHECK_EQ(pthread_detach(t), EINVAL);
	CHECK_EQ(gmp_sem_release(&permit, 1), 0);
	CHECK_EQ(pthread_attr_destroy(&attr), 0);
}

/* --- exit --- */

static int order[4], orders;

static void note(void *n)
{
	order[orders++] = (int)(intptr_t)n;
}

static __attribute__((noinline)) void exit_inside(void)
{
	pthread_cleanup_push(note, (void *)2);
	pthread_cleanup_push(note, (void *)1);
	pthread_exit(&made);
	pthread_cleanup_pop(0);
	pthread_cleanup_pop(0);
}

static void *exit_in_call(void *arg)
{
	pthread_cleanup_push(note, (void *)3);
	exit_inside();
	pthread_cleanup_pop(0);
	return arg;
}

POSIX_TEST(exit_returns_the_value_to_join)
{
	orders = 0;
	CHECK(join(start(exit_in_call, NULL)) == &made);
}

POSIX_TEST(exit_runs_cleanup_handlers_in_reverse_order)
{
	orders = 0;
	join(start(exit_in_call, NULL));
	CHECK_EQ(orders, 3);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(order[i], i + 1);
}

static pthread_key_t key;
static int destroyed;

static void destroy(void *value)
{
	CHECK(value == &key);
	gmp_yield();
	destroyed++;
}

static void *exit_with_key(void *arg)
{
	CHECK_EQ(pthread_setspecific(key, &key), 0);
	if (arg)
		pthread_exit(arg);
	return NULL;
}

POSIX_TEST(exit_runs_destructors_of_keys_before_join_returns)
{
	destroyed = 0;
	CHECK_EQ(pthread_key_create(&key, destroy), 0);
	join(start(exit_with_key, &key));
	CHECK_EQ(destroyed, 1);
	join(start(exit_with_key, NULL));
	CHECK_EQ(destroyed, 2);
	CHECK_EQ(pthread_key_delete(key), 0);
}

static pthread_key_t exit_keys[3];
static int exits_of_destructor;
static void *last_value;

static void exit_in_destructor(void *value)
{
	exits_of_destructor++;
	last_value = value;
	pthread_exit(value);
}

static void *set_exit_keys(void *arg)
{
	for (int i = 0; i < 3; i++)
		CHECK_EQ(pthread_setspecific(exit_keys[i], &exit_keys[i]), 0);
	if (arg)
		pthread_exit(NULL);
	return arg;
}

/* glibc leaves the other destructors out. */
POSIX_TEST(exit_of_a_destructor_ends_the_thread)
{
	for (int i = 0; i < 3; i++)
		CHECK_EQ(pthread_key_create(&exit_keys[i], exit_in_destructor), 0);
	for (int i = 0; i < 2; i++) {
		void *value = NULL;

		exits_of_destructor = 0;
		CHECK_EQ(pthread_join(start(set_exit_keys, i ? &exit_keys : NULL), &value), 0);
		CHECK(exits_of_destructor == 1 || exits_of_destructor == 3);
		CHECK(value == last_value);
	}
	for (int i = 0; i < 3; i++)
		CHECK_EQ(pthread_key_delete(exit_keys[i]), 0);
}

/* --- fork --- */

static void wait_for(pid_t pid, int *status)
{
	while (waitpid(pid, status, 0) != pid)
		CHECK_EQ(errno, EINTR);
}

static void *fork_and_join(void *arg)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		join(start(give_back, NULL));
		_exit(join(start(give_back, arg)) == arg ? 7 : 1);
	}
	wait_for(pid, &status);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 7);
	return NULL;
}

POSIX_TEST(create_works_in_child_of_fork)
{
	fork_and_join(&made);
	join(start(fork_and_join, &made));
}

static void *exit_in_child(void *arg)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		pthread_exit(arg);
	wait_for(pid, &status);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 0);
	return NULL;
}

POSIX_TEST(exit_of_only_thread_in_child_of_fork_ends_it_with_0)
{
	join(start(exit_in_child, NULL));
}

/* --- mixed with OS threads, and over runs --- */

struct mixed {
	gmp_sem told, permit;
	pthread_t t;
	int result;
};

static void *join_from_outside(void *arg)
{
	struct mixed *m = arg;

	CHECK_EQ(gmp_sem_acquire(&m->told), 0);
	m->result = pthread_join(m->t, NULL);
	return NULL;
}

static void tell_and_end(void *arg)
{
	struct mixed *m = arg;

	m->t = start(wait_for_permit, &m->permit);
	CHECK_EQ(gmp_sem_release(&m->told, 1), 0);
}

static void tell_and_release(void *arg)
{
	struct mixed *m = arg;

	tell_and_end(arg);
	CHECK_EQ(gmp_sem_release(&m->permit, 1), 0);
	while (pthread_kill(m->t, 0) == 0)
		gmp_sleep(GMP_MS);
}

TEST_PROCS(join_by_os_thread_works)
{
	struct mixed m = { .told = GMP_SEM_INIT(0), .permit = GMP_SEM_INIT(0), .result = -1 };
	pthread_t os = start(join_from_outside, &m);

	run_configured(procs, 0, GMP_OWN_TLS, tell_and_release, &m);
	join(os);
	CHECK_EQ(m.result, 0);
}

TEST_PROCS(join_of_thread_killed_by_the_end_of_the_run_is_esrch)
{
	struct mixed m = { .told = GMP_SEM_INIT(0), .permit = GMP_SEM_INIT(0), .result = -1 };

	for (int i = 0; i < 3; i++) {
		pthread_t os = start(join_from_outside, &m);

		run_configured(procs, 0, GMP_OWN_TLS, tell_and_end, &m);
		join(os);
		CHECK_EQ(m.result, ESRCH);
	}
}

static void app_exits(void *arg)
{
	*(int *)arg = 1;
	pthread_exit(NULL);
}

TEST_PROCS(exit_of_green_thread_of_gmp_spawn_ends_it)
{
	int ran = 0;

	run_configured(procs, 0, GMP_OWN_TLS, app_exits, &ran);
	CHECK_EQ(ran, 1);
}

static void without_flag(void *arg)
{
	(void)arg;
	CHECK(join(start(give_back, &made)) == &made);
}

TEST_PROCS(create_without_own_thread_locals_makes_an_os_thread)
{
	run_configured(procs, 0, 0, without_flag, NULL);
}
