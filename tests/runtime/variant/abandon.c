/* SPDX-License-Identifier: MIT */
/*
 * Tests that a run ends although a G computes, what the G and its OS thread do afterwards, and when
 * the end of a run waits.
 */
#define _GNU_SOURCE 1
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "monitor/preempt_util.h"

#include "run/runtime_util.h"

/* The end of a run waits for so long: abandon.c. */
#define GRACE SEC

static atomic_int computing, stop_computing, passed;

/* Compute without a call of gmp until the test says so. */
static void compute_on(void)
{
	uint64_t x = 1;
	uint64_t rounds = 0;
	struct place here = place_mark(5);

	for (atomic_fetch_add(&computing, 1); !atomic_load(&stop_computing); rounds++)
		x = crunch(x, 1000);
	place_check(&here);
	CHECK(crunch_at_once(1, 1000 * rounds) == x);
}

static void need_abandon(void)
{
	need_preemption();
#if defined(__SANITIZE_THREAD__)
	check_skip("ThreadSanitizer delays signals to a thread that makes no call of libc");
#endif
	atomic_store(&computing, 0);
	atomic_store(&stop_computing, 0);
	atomic_store(&passed, 0);
}

static void expect_abandoned(void *n)
{
	CHECK_EQ(stats().abandoned, *(uint64_t *)n);
	CHECK_EQ(stats().preempted, 0);
	CHECK_EQ(stats().greens_blocked, 0);
}

static void wait_for_none(UNUSED void *arg)
{
	WAIT_FOR(stats().abandoned == 0);
}

/* The Gs of the ended run end, and so do their OS threads; the next run observes it. */
static void release_abandoned(int threads)
{
	atomic_store(&stop_computing, 1);
	CHECK_EQ(gmp_run(wait_for_none, NULL, NULL), 0);
	for (int64_t end = clock_ns() + 30 * SEC; count_threads() != threads;)
		CHECK(clock_ns() < end);
}

/* As many compute at once beside one P: preempt.c. */
enum { HOGS = 4 };

struct run {
	int hogs;
	const gmp_fn *fn; /* of each */
};

static void start_computing(void *arg)
{
	struct run *r = arg;

	for (int i = 0; i < r->hogs; i++)
		spawn_large(r->fn[i], NULL);
	WAIT_FOR(atomic_load(&computing) == r->hogs);
}

/* Returns how long the run took. */
static int64_t run_beside_computing(gmp_config c, int procs, const gmp_fn *fn, int hogs)
{
	struct run r = { hogs, fn };
	int64_t begin = clock_ns();

	c.procs = procs;
	CHECK_EQ(gmp_run(start_computing, &r, &c), 0);
	return clock_ns() - begin;
}

static void check_abandoned(int procs, const gmp_fn *fn)
{
	int threads = count_threads();
	uint64_t hogs = HOGS;
	struct sigaction now;

	need_abandon();
	int64_t took = run_beside_computing((gmp_config)GMP_CONFIG_INIT, procs, fn, HOGS);

	CHECK(took >= GRACE && took < 30 * SEC);
	CHECK_EQ(sigaction(SIGURG, NULL, &now), 0);
	CHECK(now.sa_handler == SIG_DFL);
	CHECK_EQ(gmp_run(expect_abandoned, &hogs, NULL), 0);
	release_abandoned(threads);
	CHECK_EQ(atomic_load(&passed), 0);
}

/* --- how the G ends --- */

static void compute_and_return(UNUSED void *arg)
{
	compute_on();
}

/* The child ends as an OS thread when its function returns, as that of a G does. */
static void compute_and_fork(UNUSED void *arg)
{
	int status;

	compute_on();
	pid_t child = fork();

	if (child == 0)
		return;
	CHECK(child > 0);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
}

static void compute_and_yield(UNUSED void *arg)
{
	compute_on();
	gmp_yield();
	atomic_store(&passed, 1);
}

static void compute_and_sleep(UNUSED void *arg)
{
	compute_on();
	gmp_sleep(MS);
	atomic_store(&passed, 1);
}

static void compute_and_spawn(UNUSED void *arg)
{
	compute_on();
	gmp_go(compute_and_return, NULL);
	atomic_store(&passed, 1);
}

static void compute_and_run(UNUSED void *arg)
{
	compute_on();
	gmp_run(compute_and_return, NULL, NULL);
	atomic_store(&passed, 1);
}

static void compute_and_block(UNUSED void *arg)
{
	compute_on();
	gmp_block_enter();
	atomic_store(&passed, 1);
}

static void compute_and_exit(UNUSED void *arg)
{
	compute_on();
	gmp_exit();
	atomic_store(&passed, 1);
}

TEST_PROCS(run_ends_although_gs_compute_which_then_return_or_wait)
{
	const gmp_fn fns[] = { compute_and_return, compute_and_yield, compute_and_sleep,
			       compute_and_block };

	check_abandoned(procs, fns);
}

TEST_PROCS(run_ends_although_gs_compute_which_then_call_gmp)
{
	const gmp_fn fns[] = { compute_and_spawn, compute_and_run, compute_and_exit,
			       compute_and_fork };

	check_abandoned(procs, fns);
}

/* --- where the G computes --- */

static unsigned char deep(int depth)
{
	volatile unsigned char frame[4096];

	for (size_t i = 0; i < sizeof(frame); i += 64)
		frame[i] = (unsigned char)(depth + (int)i);
	if (depth > 0)
		deep(depth - 1);
	else
		compute_on();
	for (size_t i = 0; i < sizeof(frame); i += 64)
		CHECK_EQ(frame[i], (unsigned char)(depth + (int)i));
	return frame[0];
}

static void compute_deep(UNUSED void *arg)
{
	deep(100);
}

static int compare_computing(const void *a, const void *b)
{
	if (!atomic_load(&stop_computing))
		compute_on();
	return cmp_i64(a, b);
}

static void compute_in_qsort(UNUSED void *arg)
{
	int64_t v[100];

	for (int i = 0; i < 100; i++)
		v[i] = (i * 37) % 100;
	qsort(v, 100, sizeof(v[0]), compare_computing);
	for (int i = 0; i < 100; i++)
		CHECK_EQ(v[i], i);
}

static void compute_in_once(UNUSED void *arg)
{
	static gmp_once once;

	once = (gmp_once)GMP_ONCE_INIT;
	gmp_once_do(&once, compute_and_return, NULL);
	atomic_store(&passed, 1);
}

static void compute_in_timer(UNUSED void *arg)
{
	static gmp_timer *t; /* for LeakSanitizer */

	CHECK((t = gmp_timer_new(compute_and_return, NULL)) != NULL);
	gmp_timer_set(t, gmp_deadline(MS), 0);
}

TEST_PROCS(run_ends_although_callbacks_compute)
{
	const gmp_fn fns[] = { compute_deep, compute_in_qsort, compute_in_once, compute_in_timer };

	check_abandoned(procs, fns);
}

static void compute_in_pool(UNUSED void *arg)
{
	static gmp_pool *pool; /* for LeakSanitizer */

	CHECK((pool = gmp_pool_new(HOGS, NULL)) != NULL);
	for (int i = 0; i < HOGS; i++)
		CHECK_EQ(gmp_pool_submit(pool, compute_and_return, NULL), 0);
	WAIT_FOR(atomic_load(&computing) == HOGS);
}

TEST_PROCS(run_ends_although_tasks_of_pool_compute)
{
	int threads = count_threads();
	uint64_t hogs = HOGS;
	gmp_config c = GMP_CONFIG_INIT;

	need_abandon();
	c.procs = procs;
	CHECK_EQ(gmp_run(compute_in_pool, NULL, &c), 0);
	CHECK_EQ(gmp_run(expect_abandoned, &hogs, NULL), 0);
	release_abandoned(threads);
}

/* Work between two calls of gmp.  Without it, interrupts find the G in code of the program once in
 * 10,000 times: they arrive after an atomic instruction. */
static void work_a_little(void)
{
	for (volatile int i = 0; i < 4;)
		i = i + 1;
}

/* Most of the time the G is inside of gmp, where it cannot be abandoned. */
static void compute_with_mutex(UNUSED void *arg)
{
	gmp_mutex m = GMP_MUTEX_INIT;

	for (atomic_fetch_add(&computing, 1); !atomic_load(&stop_computing);)
		for (int i = 0; i < 1000; i++) {
			gmp_mutex_lock(&m);
			gmp_mutex_unlock(&m);
			work_a_little();
		}
}

TEST_PROCS(run_ends_although_g_locks_and_unlocks_all_the_time)
{
	need_abandon();
	const gmp_fn fns[] = { compute_with_mutex, compute_with_mutex };

	CHECK(run_beside_computing((gmp_config)GMP_CONFIG_INIT, procs, fns, 2) < 30 * SEC);
	atomic_store(&stop_computing, 1);
}

static atomic_int refused;

static void spawn_all_the_time(UNUSED void *arg)
{
	int was_refused = 0;

	for (atomic_fetch_add(&computing, 1); !atomic_load(&stop_computing);) {
		work_a_little();
		if (gmp_go(nothing, NULL) != -ESRCH || was_refused)
			continue;
		was_refused = 1;
		atomic_fetch_add(&refused, 1);
	}
}

TEST_PROCS(run_ends_although_g_spawns_all_the_time)
{
	need_abandon();
	const gmp_fn fns[] = { spawn_all_the_time, spawn_all_the_time };

	atomic_store(&refused, 0);
	CHECK(run_beside_computing((gmp_config)GMP_CONFIG_INIT, procs, fns, 2) < 30 * SEC);
	CHECK_EQ(atomic_load(&refused), 2);
	atomic_store(&stop_computing, 1);
}

/* --- the runtime afterwards --- */

static void count_to(void *arg)
{
	for (int i = 0; i < 1000; i++) {
		(*(int *)arg)++;
		gmp_yield();
	}
}

static void many_gs(UNUSED void *arg)
{
	int n[50] = { 0 };
	gmp_g *g[50];

	for (int i = 0; i < 50; i++)
		g[i] = spawn(count_to, &n[i]);
	for (int i = 0; i < 50; i++)
		join(g[i]);
	for (int i = 0; i < 50; i++)
		CHECK_EQ(n[i], 1000);
}

struct map {
	unsigned long start, end;
};

/* Finds the mapping of an address, or with `same` the mapping at the same place. */
static int find_map(unsigned long at, const struct map *same, struct map *found)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	int is = 0;

	CHECK(f != NULL);
	while (!is && fgets(line, sizeof(line), f)) {
		char *dash;

		found->start = strtoul(line, &dash, 16);
		found->end = strtoul(dash + 1, NULL, 16);
		is = same ? found->start == same->start && found->end == same->end
			  : at >= found->start && at < found->end;
	}
	fclose(f);
	return is;
}

static _Atomic uintptr_t stack_of_g; /* an address in it */

static void compute_on_noted_stack(UNUSED void *arg)
{
	char here;

	atomic_store(&stack_of_g, (uintptr_t)&here);
	compute_on();
}

TEST_PROCS(later_runs_work_beside_g_of_ended_run)
{
	const gmp_fn fns[] = { compute_deep, compute_on_noted_stack };
	int threads = count_threads();
	struct map stack, other;

	for (int i = 0; i < 3; i++) {
		need_abandon();
		run_beside_computing((gmp_config)GMP_CONFIG_INIT, procs, fns, 2);
		for (int k = 0; k < 3; k++)
			CHECK_EQ(gmp_run(many_gs, NULL, NULL), 0);
		CHECK(find_map(atomic_load(&stack_of_g), NULL, &stack));
		release_abandoned(threads);
		CHECK(!find_map(0, &stack, &other)); /* the stack is unmapped */
	}
}

static void start_computing_and_report(void *arg)
{
	start_computing(arg);
	atomic_store(&passed, 1);
}

TEST_PROCS(gmp_stop_returns_although_g_computes)
{
	const gmp_fn fns[] = { compute_and_return };
	int threads = count_threads();
	struct run r = { 1, fns };
	gmp_config c = GMP_CONFIG_INIT;

	need_abandon();
	c.procs = procs;
	CHECK_EQ(gmp_start(&c), 0);
	CHECK_EQ(gmp_go(start_computing_and_report, &r), 0);
	while (!atomic_load(&passed))
		sched_yield();
	CHECK_EQ(gmp_stop(), 0);
	release_abandoned(threads);
}

/* --- the G sleeps in the kernel, again and again --- */

static atomic_int failed_sleeps;

static void sleep_on(int (*nap)(void))
{
	for (atomic_fetch_add(&computing, 1); !atomic_load(&stop_computing);)
		if (nap() != 0)
			atomic_fetch_add(&failed_sleeps, 1);
}

static int nap_usleep(void)
{
	return usleep(1000);
}

static int nap_poll(void)
{
	return poll(NULL, 0, 5);
}

static int nap_select(void)
{
	struct timeval t = { 0, 300 };

	return select(0, NULL, NULL, NULL, &t);
}

static int nap_epoll(void)
{
	static int epfd = -1;
	struct epoll_event e;

	if (epfd < 0)
		epfd = epoll_create1(EPOLL_CLOEXEC);
	return epoll_wait(epfd, &e, 1, 20);
}

static void loop_usleep(UNUSED void *arg)
{
	sleep_on(nap_usleep);
	gmp_yield();
	atomic_fetch_add(&passed, 1);
}

static void loop_poll(UNUSED void *arg)
{
	sleep_on(nap_poll);
}

static void loop_select(UNUSED void *arg)
{
	sleep_on(nap_select);
	gmp_sleep(1);
	atomic_fetch_add(&passed, 1);
}

static void once_epoll(UNUSED void *arg)
{
	sleep_on(nap_epoll);
}

static void loop_epoll(UNUSED void *arg)
{
	static gmp_once once;

	once = (gmp_once)GMP_ONCE_INIT;
	gmp_once_do(&once, once_epoll, NULL);
	atomic_fetch_add(&passed, 1);
}

static int nap_read(void)
{
	static int fd = -1;
	const struct itimerspec t = { .it_value = { 0, 2 * MS } };
	uint64_t n;

	if (fd < 0)
		fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	return timerfd_settime(fd, 0, &t, NULL) != 0 || read(fd, &n, sizeof(n)) != sizeof(n);
}

static int nap_cond(void)
{
	static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
	static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
	struct timespec t;
	int err;

	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_nsec += MS;
	if (t.tv_nsec >= SEC) {
		t.tv_sec++;
		t.tv_nsec -= SEC;
	}
	pthread_mutex_lock(&m);
	err = pthread_cond_timedwait(&c, &m, &t);
	pthread_mutex_unlock(&m);
	return err != ETIMEDOUT && err != 0;
}

/* The kernel does not restart a recv with a time limit.  If the thread has entered the next one
 * between the check and the signal, that returns EINTR (ABANDON-4: it transfers data). */
static int nap_recv(void)
{
	static int ends[2];
	const struct timeval t = { 0, 3000 };
	char c;

	if (!ends[1]) {
		CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
		CHECK_EQ(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)), 0);
	}
	return recv(ends[0], &c, 1, 0) != -1 || (errno != EAGAIN && errno != EINTR);
}

static void loop_read(UNUSED void *arg)
{
	sleep_on(nap_read);
}

static void loop_cond(UNUSED void *arg)
{
	sleep_on(nap_cond);
}

static void loop_recv(UNUSED void *arg)
{
	sleep_on(nap_recv);
	gmp_go(loop_cond, NULL);
	atomic_fetch_add(&passed, 1);
}

/* ABANDON-4 */
static void need_task_files(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)gettid());
	if (access(path, R_OK) != 0 || access("/proc/self/schedstat", R_OK) != 0)
		check_skip("the kernel does not tell where a thread sleeps");
}

TEST_PROCS(run_ends_although_gs_loop_over_calls_with_time_limit)
{
	need_task_files();
	atomic_store(&failed_sleeps, 0);
	check_abandoned(procs, (const gmp_fn[]){ loop_read, loop_cond, loop_recv, loop_usleep });
	CHECK_EQ(atomic_load(&failed_sleeps), 0);
}

TEST_PROCS(run_ends_although_gs_sleep_in_kernel_again_and_again)
{
	atomic_store(&failed_sleeps, 0);
	need_task_files();
	check_abandoned(procs, (const gmp_fn[]){ loop_usleep, loop_poll, loop_select, loop_epoll });
	CHECK_EQ(atomic_load(&failed_sleeps), 0);
}

static void block_in_sleeps(UNUSED void *arg)
{
	int64_t end = clock_ns() + GRACE + 300 * MS;

	gmp_block_enter();
	for (atomic_fetch_add(&computing, 1); clock_ns() < end;)
		if (nap_usleep() != 0)
			atomic_fetch_add(&failed_sleeps, 1);
	gmp_block_leave();
}

TEST_PROCS(run_waits_for_g_that_sleeps_again_and_again_in_blocking_code)
{
	need_abandon();
	atomic_store(&failed_sleeps, 0);
	CHECK(run_beside_computing((gmp_config)GMP_CONFIG_INIT, procs,
				   (const gmp_fn[]){ block_in_sleeps }, 1) >= GRACE + 300 * MS);
	CHECK_EQ(atomic_load(&failed_sleeps), 0);
}

enum { WRITTEN = 3 << 20 };

static int to_write;

/* A blocking write sleeps often, and a signal would make it short. */
static void write_large(UNUSED void *arg)
{
	static char data[WRITTEN];

	atomic_fetch_add(&computing, 1);
	CHECK_EQ(write(to_write, data, WRITTEN), WRITTEN);
	atomic_fetch_add(&passed, 1);
}

static void *read_slowly(void *end)
{
	char data[4096];

	for (ssize_t n = 0, got; n < WRITTEN; n += got) {
		got = read(*(int *)end, data, sizeof(data));
		CHECK(got > 0);
		usleep(2000);
	}
	return NULL;
}

TEST_PROCS(run_waits_for_g_in_large_write_without_signal)
{
	pthread_t reader;
	int ends[2];

	need_abandon();
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	to_write = ends[1];
	CHECK_EQ(pthread_create(&reader, NULL, read_slowly, &ends[0]), 0);
	CHECK(run_beside_computing((gmp_config)GMP_CONFIG_INIT, procs,
				   (const gmp_fn[]){ write_large }, 1) >= GRACE + 200 * MS);
	CHECK_EQ(pthread_join(reader, NULL), 0);
	CHECK_EQ(atomic_load(&passed), 1);
}

/* --- when the end waits --- */

static void compute_briefly(UNUSED void *arg)
{
	atomic_fetch_add(&computing, 1);
	compute_for(GRACE / 4);
	atomic_fetch_add(&passed, 1);
}

TEST_PROCS(run_waits_for_g_that_ends_within_grace)
{
	uint64_t none = 0;

	need_abandon();
	run_beside_computing((gmp_config)GMP_CONFIG_INIT, procs,
			     (const gmp_fn[]){ compute_briefly }, 1);
	CHECK_EQ(atomic_load(&passed), 1);
	CHECK_EQ(gmp_run(expect_abandoned, &none, NULL), 0);
}

static void sleep_past_grace(UNUSED void *arg)
{
	struct timespec left, t = { 1, 300 * MS };

	atomic_fetch_add(&computing, 1);
	CHECK_EQ(nanosleep(&t, &left), 0); /* not interrupted */
}

TEST_PROCS(run_waits_for_g_that_sleeps_in_kernel_without_signal)
{
	need_abandon();
	/* once awake it computes, and may be abandoned if other programs have the CPUs */
	CHECK(run_beside_computing((gmp_config)GMP_CONFIG_INIT, procs,
				   (const gmp_fn[]){ sleep_past_grace }, 1) >= 1300 * MS);
}

static void compute_past_grace(UNUSED void *arg)
{
	atomic_fetch_add(&computing, 1);
	compute_for(GRACE + GRACE / 2);
	atomic_fetch_add(&passed, 1);
}

TEST_PROCS(cooperative_run_waits_for_g_that_computes)
{
	gmp_config c = GMP_CONFIG_INIT;

	if (procs == 1)
		check_skip("the first G would not run again");
	need_abandon();
	c.flags = GMP_COOPERATIVE;
	run_beside_computing(c, procs, (const gmp_fn[]){ compute_past_grace }, 1);
	CHECK_EQ(atomic_load(&passed), 1);
}

static void on_signal(int signo)
{
	(void)signo;
}

TEST_PROCS(run_waits_for_g_if_program_handles_sigurg)
{
	struct sigaction now;

	need_abandon();
	signal(SIGURG, on_signal);
	run_beside_computing((gmp_config)GMP_CONFIG_INIT, procs,
			     (const gmp_fn[]){ compute_past_grace }, 1);
	CHECK_EQ(atomic_load(&passed), 1);
	CHECK_EQ(sigaction(SIGURG, NULL, &now), 0);
	CHECK(now.sa_handler == on_signal);
	signal(SIGURG, SIG_DFL);
}

/* --- the calling thread --- */

static int caller;

static void stay_on(int thread)
{
	for (int i = 0; i < 10; i++) {
		CHECK_EQ(thread_id(), thread);
		gmp_sleep(MS);
	}
}

static void run_from_caller(int procs, int max_threads, gmp_fn fn)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = procs;
	c.max_threads = max_threads;
	caller = thread_id();
	CHECK_EQ(gmp_run(fn, NULL, &c), 0);
}

static void lock_on_caller(UNUSED void *arg)
{
	CHECK_EQ(gmp_lock_thread(), 0);
	stay_on(caller);
	gmp_unlock_thread();
	gmp_yield();
	CHECK_EQ(gmp_lock_thread(), 0);
	stay_on(thread_id());
}

TEST_PROCS(first_g_locks_calling_thread)
{
	run_from_caller(procs, 0, lock_on_caller);
}

static void pin_on_caller(UNUSED void *arg)
{
	gmp_pin();
	stay_on(caller);
	gmp_unpin();
	many_gs(NULL);
}

TEST_PROCS(first_g_pins_itself_to_calling_thread)
{
	run_from_caller(procs, 0, pin_on_caller);
}

TEST_PROCS(calling_thread_runs_all_gs_if_it_is_the_only_one)
{
	run_from_caller(procs, 1, many_gs);
}
